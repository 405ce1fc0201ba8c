package cedrat.persist.bench;

import cedrat.persist.Store;
import cedrat.persist.StoreOptions;
import cedrat.persist.Transaction;
import cedrat.persist.bench.bank.NoStore;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.openjdk.jmh.annotations.Benchmark;
import org.openjdk.jmh.annotations.BenchmarkMode;
import org.openjdk.jmh.annotations.Mode;
import org.openjdk.jmh.annotations.OperationsPerInvocation;
import org.openjdk.jmh.annotations.OutputTimeUnit;
import org.openjdk.jmh.annotations.Param;
import org.openjdk.jmh.annotations.Scope;
import org.openjdk.jmh.annotations.Setup;
import org.openjdk.jmh.annotations.State;
import org.openjdk.jmh.annotations.TearDown;

/// Short loops of one kind of store or read each, as programs have them. They know of no transaction.
@State(Scope.Thread)
@BenchmarkMode(Mode.AverageTime)
@OutputTimeUnit(TimeUnit.NANOSECONDS)
public class Kernels {
    /// The system property of programs whose reads take no locks.
    static final String UNLOCKED = "cedrat.bench.unlocked";

    /// Few enough for the processor's first cache: else it were memory that is measured.
    private static final int COUNT = 256;

    private static final int CHASED = 1 << 14;

    private static final class Cell {
        int number;
        Object other;
        Cell next;
    }

    /// A tree of so many levels.
    private static final int LEVELS = 12;

    private static final int LEAVES = 1 << LEVELS;

    private static final class Tree {
        final int number;
        Tree left;
        Tree right;

        Tree(int levels, int number) {
            this.number = number;
            if (levels > 1) {
                left = new Tree(levels - 1, 2 * number);
                right = new Tree(levels - 1, 2 * number + 1);
            }
        }

        int sum() {
            return number + sum(left) + sum(right);
        }

        private static int sum(Tree tree) {
            return tree == null ? 0 : tree.sum();
        }
    }

    /// Other work in the virtual machine, and the goals of the kernels beside it, as ratios to the same without
    /// barriers.
    public enum Setting {
        /// No store is open, and no transaction runs.
        NONE("no store", 1.05, 1.5),
        /// A store of persistent objects is open, to which none of the objects belongs.
        OPEN_STORE("an open store", 1.1, 1.5),
        /// As that, and a transaction of another thread has changed an object.
        OTHER_TRANSACTION("a transaction in another thread", 2, 2);

        final String words;
        final double meanMax;
        final double worstMax;

        Setting(String words, double meanMax, double worstMax) {
            this.words = words;
            this.meanMax = meanMax;
            this.worstMax = worstMax;
        }
    }

    private static int total;

    /// Also a parameter of the figure.
    @Param
    public Setting setting;

    private final CountDownLatch end = new CountDownLatch(1);
    private Store store;
    private Thread other;

    private final Cell[] cells = new Cell[COUNT];
    private final int[] numbers = new int[COUNT];
    private final Object[] others = {"one", "other"};
    private final Integer[] keys = new Integer[COUNT];
    private final Map<Integer, Integer> map = new HashMap<>();
    private final List<Integer> list = new ArrayList<>();
    private final Cell[] halfFull = new Cell[COUNT];
    private final Tree tree = new Tree(LEVELS, 1);
    private final Cell first;
    private int turn;

    /// Objects as a program has them that has run for a while.
    public Kernels() {
        for (int i = 0; i < COUNT; i++) {
            cells[i] = new Cell();
            keys[i] = i * 7;
            map.put(keys[i], keys[i]);
        }
        Random random = new Random(2);
        for (int i = 0; i < COUNT; i++) {
            halfFull[i] = new Cell();
            halfFull[i].other = random.nextBoolean() ? others[0] : null;
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

    /// Opens the store, and begins the transaction. These need the agent.
    @Setup
    public void begin() throws InterruptedException {
        if (setting == Setting.NONE) {
            return;
        }
        StoreOptions options = new StoreOptions();
        if (Boolean.getBoolean(UNLOCKED)) {
            options.isolation(StoreOptions.Isolation.READ_UNCOMMITTED);
        }
        store = Store.open(new NoStore(), options);
        if (setting == Setting.OTHER_TRANSACTION) {
            CountDownLatch begun = new CountDownLatch(1);
            other = Thread.ofPlatform().start(() -> change(begun));
            begun.await();
        }
    }

    private void change(CountDownLatch begun) {
        Cell cell = new Cell();
        Transaction.run(() -> {
            cell.number = 1;
            begun.countDown();
            try {
                end.await();
            } catch (InterruptedException e) {
                throw new IllegalStateException("unexpected interrupt", e);
            }
        });
    }

    /// Ends both.
    @TearDown
    public void end() throws InterruptedException {
        end.countDown();
        if (other != null) {
            other.join();
        }
        if (store != null) {
            store.close();
        }
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

    /// Reads references, of which half are null.
    @Benchmark
    @OperationsPerInvocation(COUNT)
    public int nulls() {
        int count = turn++;
        for (Cell cell : halfFull) {
            count += cell.other == null ? 1 : 0;
        }
        return count;
    }

    /// Walks a tree: half of the references that it reads are null.
    @Benchmark
    @OperationsPerInvocation(2 * LEAVES)
    public int tree() {
        return tree.sum();
    }
}
