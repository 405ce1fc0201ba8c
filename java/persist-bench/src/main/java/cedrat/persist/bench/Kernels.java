package cedrat.persist.bench;

import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.TimeUnit;
import org.openjdk.jmh.annotations.Benchmark;
import org.openjdk.jmh.annotations.BenchmarkMode;
import org.openjdk.jmh.annotations.Mode;
import org.openjdk.jmh.annotations.OperationsPerInvocation;
import org.openjdk.jmh.annotations.OutputTimeUnit;
import org.openjdk.jmh.annotations.Scope;
import org.openjdk.jmh.annotations.State;

/// Short loops of one kind of store or read each, as programs have them. They know of no transaction.
@State(Scope.Thread)
@BenchmarkMode(Mode.AverageTime)
@OutputTimeUnit(TimeUnit.NANOSECONDS)
public class Kernels {
    /// Few enough for the processor's first cache: else it were memory that is measured.
    private static final int COUNT = 256;

    private static final int CHASED = 1 << 14;

    private static final class Cell {
        int number;
        Object other;
        Cell next;
    }

    private static int total;

    private final Cell[] cells = new Cell[COUNT];
    private final int[] numbers = new int[COUNT];
    private final Object[] others = {"one", "other"};
    private final Integer[] keys = new Integer[COUNT];
    private final Map<Integer, Integer> map = new HashMap<>();
    private final List<Integer> list = new ArrayList<>();
    private final Cell first;
    private int turn;

    /// Objects as a program has them that has run for a while.
    public Kernels() {
        for (int i = 0; i < COUNT; i++) {
            cells[i] = new Cell();
            keys[i] = i * 7;
            map.put(keys[i], keys[i]);
        }
        List<Cell> chased = new ArrayList<>();
        for (int i = 0; i < CHASED; i++) {
            Cell cell = new Cell();
            cell.number = i;
            chased.add(cell);
        }
        Collections.shuffle(chased, new Random(1));
        for (int i = 1; i < CHASED; i++) {
            chased.get(i - 1).next = chased.get(i);
        }
        first = chased.getFirst();
    }

    /// Stores to a field of a primitive type.
    @Benchmark
    @OperationsPerInvocation(COUNT)
    public void field() {
        int value = turn++;
        for (Cell cell : cells) {
            cell.number = value++;
        }
    }

    /// Stores to a field that is a reference.
    @Benchmark
    @OperationsPerInvocation(COUNT)
    public void reference() {
        Object value = others[turn++ & 1];
        for (Cell cell : cells) {
            cell.other = value;
        }
    }

    /// Stores to elements of an array.
    @Benchmark
    @OperationsPerInvocation(COUNT)
    public int[] array() {
        int value = turn++;
        for (int i = 0; i < numbers.length; i++) {
            numbers[i] = value++;
        }
        return numbers;
    }

    /// Stores to a static field.
    @Benchmark
    @OperationsPerInvocation(COUNT)
    public int statics() {
        for (int number : numbers) {
            total += number ^ turn;
        }
        turn++;
        return total;
    }

    /// Looks keys up, and puts other values in the place of theirs.
    @Benchmark
    @OperationsPerInvocation(COUNT)
    public int hashMap() {
        int sum = turn++;
        for (Integer key : keys) {
            sum += map.get(key);
            map.put(key, keys[sum & COUNT - 1]);
        }
        return sum;
    }

    /// Fills a list, and goes through it.
    @Benchmark
    @OperationsPerInvocation(COUNT)
    public int arrayList() {
        list.clear();
        for (Integer key : keys) {
            list.add(key);
        }
        int sum = turn++;
        for (Integer number : list) {
            sum += number;
        }
        return sum;
    }

    /// Follows references.
    @Benchmark
    @OperationsPerInvocation(CHASED)
    public int pointerChase() {
        int sum = 0;
        for (Cell cell = first; cell != null; cell = cell.next) {
            sum += cell.number;
        }
        return sum;
    }
}
