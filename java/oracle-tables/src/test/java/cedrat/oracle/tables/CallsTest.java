package cedrat.oracle.tables;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Set;
import java.util.concurrent.BrokenBarrierException;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicBoolean;
import org.junit.jupiter.api.Test;

class CallsTest {
    private static final List<Integer> ITEMS = List.of(1, 2, 3, 4, 5, 6);

    private final Calls calls = new Calls();

    @Test
    void callsAreMadeSideBySide() {
        CyclicBarrier three = new CyclicBarrier(3);
        Set<Integer> made = ConcurrentHashMap.newKeySet();
        List<RuntimeException> failures = calls.forEach(ITEMS, 3, item -> {
            try {
                three.await(60, TimeUnit.SECONDS);
            } catch (InterruptedException | BrokenBarrierException | TimeoutException alone) {
                throw new IllegalStateException(alone);
            }
            made.add(item);
        });
        assertEquals(List.of(), failures);
        assertEquals(Set.copyOf(ITEMS), made);
    }

    @Test
    void oneFailedCallDoesNotPreventOthers() {
        Set<Integer> made = ConcurrentHashMap.newKeySet();
        for (int callsMax = 1; callsMax <= 3; callsMax++) {
            made.clear();
            List<RuntimeException> failures = calls.forEach(ITEMS, callsMax, item -> {
                made.add(item);
                if (item % 3 == 0) {
                    throw new IllegalArgumentException();
                }
            });
            assertEquals(2, failures.size());
            assertEquals(Set.copyOf(ITEMS), made);
        }
    }

    /// An error on another thread is a failure; one on the caller's comes out, when the other calls have
    /// ended.
    @Test
    void errorsAreNotLost() {
        Thread caller = Thread.currentThread();
        CyclicBarrier both = new CyclicBarrier(2);
        List<RuntimeException> failures = calls.forEach(List.of(1, 2), 2, item -> {
            meet(both);
            if (Thread.currentThread() != caller) {
                throw new StackOverflowError();
            }
        });
        assertEquals(1, failures.size());

        CountDownLatch callerHasThrown = new CountDownLatch(1);
        AtomicBoolean otherHasEnded = new AtomicBoolean();
        assertThrows(
                StackOverflowError.class,
                () -> calls.forEach(List.of(1, 2), 2, item -> {
                    meet(both);
                    if (Thread.currentThread() == caller) {
                        callerHasThrown.countDown();
                        throw new StackOverflowError();
                    }
                    try {
                        callerHasThrown.await();
                    } catch (InterruptedException unexpected) {
                        throw new AssertionError(unexpected);
                    }
                    for (int round = 0; round < 1000; round++) {
                        Thread.yield();
                    }
                    otherHasEnded.set(true);
                }));
        assertTrue(otherHasEnded.get());
    }

    @Test
    void callerWorksAloneWithoutFreeThread() {
        Calls few = new Calls(1);
        CyclicBarrier both = new CyclicBarrier(2);
        Set<Integer> made = ConcurrentHashMap.newKeySet();
        few.forEach(List.of(1, 2), 2, item -> {
            meet(both); // both threads that there are make a call
            few.forEach(List.of(10 * item, 10 * item + 1), 2, made::add);
            meet(both);
        });
        assertEquals(Set.of(10, 11, 20, 21), made);
    }

    private static void meet(CyclicBarrier both) {
        try {
            both.await(60, TimeUnit.SECONDS);
        } catch (InterruptedException | BrokenBarrierException | TimeoutException alone) {
            throw new IllegalStateException(alone);
        }
    }

    /// A transaction writes the rows of a table with as few calls as the table allows.
    @Test
    void rowsOfOneTableAreGrouped() {
        Table one = new MemoryTables().create("one", Granularity.ROW, false);
        Table other = new MemoryTables().create("other", Granularity.ROW, false);
        int most = one.rowsPerCall();
        List<Table> rows = new ArrayList<>(Collections.nCopies(2 * most + 1, one));
        rows.addAll(Collections.nCopies(most, other));
        List<Integer> sizes =
                Calls.groups(rows, table -> table).stream().map(List::size).toList();
        assertEquals(List.of(most, most, 1, most), sizes);
        assertEquals(List.of(), Calls.groups(List.<Table>of(), table -> table));
    }

    /// All rows of a call are in memory together.
    @Test
    void bytesOfOneCallAreLimited() {
        Table table =
                new CountingTables(new MemoryTables()).new Counting(new MemoryTables().create("t", Granularity.ROW));
        long half = Calls.BYTES_PER_CALL / 2;
        List<Long> rows = List.of(1L, half, half, 10 * half, 1L, half, 3L);
        assertEquals(
                List.of(List.of(1L, half, half), List.of(10 * half), List.of(1L, half, 3L)),
                Calls.groups(rows, row -> table, row -> row));
    }
}
