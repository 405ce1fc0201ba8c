package cedrat.oracle.tables;

import static cedrat.oracle.tables.World.VALUE;
import static cedrat.oracle.tables.World.put;
import static cedrat.oracle.tables.World.see;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Executor;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.atomic.AtomicBoolean;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/// O4g, O7k: first clean-ups of transactions, of several together.
@Timeout(300)
class CleanUpQueueTest {
    private final World world = new World(TestStore.memory());
    private final CountingTables counting = new CountingTables(world.tables);
    private final Table rows = counting.table(world.rows.name());
    private final World.Later later = new World.Later();
    private final List<Runnable> repetitions = new ArrayList<>();
    private final TransactionManager manager = manager(later);

    private TransactionManager manager(Executor cleanUp) {
        return new TransactionManager(
                world.oracle,
                counting,
                TransactionManager.Options.DEFAULTS.withCleanUp(cleanUp),
                new CleanUps(world.oracle, counting, (delay, work) -> repetitions.add(work), System::nanoTime),
                Fault.NONE);
    }

    @AfterEach
    void close() {
        world.close();
    }

    private void failRow(String failing) {
        world.hook = (point, table, row, mutation) -> {
            if (World.isCleanUp(point, mutation) && row.equals(Bytes.of(failing))) {
                throw new TableException(TableException.Effect.NONE, "the store fails", null);
            }
        };
    }

    /// O7k: two of the transactions have written the same row.
    @Test
    void waitingCommitsShareOneCall() {
        for (String row : List.of("a", "b", "a", "c")) {
            put(manager, rows, row, row + later.tasks.size());
        }
        assertEquals(4, later.tasks.size());
        assertEquals(new Contents(3, 4, 4, 0), world.contents());
        counting.changes.set(0);
        later.runOne();
        assertEquals(1, counting.changes.get());
        assertEquals(new Contents(3, 4, 0, 4), world.contents());
        while (!later.tasks.isEmpty()) {
            later.runOne();
        }
        assertEquals(1, counting.changes.get(), "the others find nothing");
        assertEquals("a2", see(manager, rows, "a"));
    }

    @Test
    void failedRowRepeatsItsTransactionAlone() {
        for (String row : List.of("a", "b", "c")) {
            put(manager, rows, row, "x");
        }
        failRow("b");
        later.runOne();
        assertEquals(1, manager.cleanUpsPending());
        assertEquals(new Contents(3, 3, 1, 2), world.contents());
        failRow("none");
        repetitions.removeFirst().run();
        assertEquals(0, manager.cleanUpsPending());
        assertEquals(new Contents(3, 3, 0, 3), world.contents());
    }

    /// O7l: the table was dropped when the clean-up had failed, and another one has its name.
    @Test
    void repeatedCleanUpWritesNoOrphan() {
        put(manager, rows, "a", "x");
        failRow("a");
        later.runOne();
        failRow("none");
        long start =
                rows.read(Bytes.of("a"), Set.of(), Long.MAX_VALUE).pending().first();
        world.rows.mutate(Bytes.of("a"), Mutations.erase(start, List.of(VALUE)));
        assertEquals(new Contents(0, 0, 0, 0), world.contents());
        repetitions.removeFirst().run();
        assertEquals(0, manager.cleanUpsPending());
        assertEquals(new Contents(0, 0, 0, 0), world.contents());
    }

    @Test
    void closeCleansUpWhatWaits() {
        put(manager, rows, "a", "x");
        Transaction aborted = manager.begin(Isolation.SNAPSHOT);
        aborted.put(rows, Bytes.of("b"), VALUE, Bytes.of("never"));
        aborted.write();
        aborted.abort();
        assertEquals(new Contents(2, 2, 2, 0), world.contents());
        manager.close();
        assertEquals(new Contents(1, 1, 0, 1), world.contents());
        put(manager, rows, "a", "y");
        manager.close();
        assertEquals(new Contents(1, 2, 0, 2), world.contents());
    }

    /// With the threads of the manager.
    @Test
    void closeWaitsForCleanUpsInFlight() throws Exception {
        CountDownLatch isThere = new CountDownLatch(1);
        CountDownLatch mayGo = new CountDownLatch(1);
        AtomicBoolean hasClosed = new AtomicBoolean();
        world.hook = (point, table, row, mutation) -> {
            if (World.isCleanUp(point, mutation)) {
                isThere.countDown();
                awaitUninterruptibly(mayGo);
                assertTrue(!hasClosed.get());
            }
        };
        TransactionManager background = new TransactionManager(world.oracle, counting);
        put(background, rows, "a", "x");
        isThere.await();
        assertEquals("x", see(background, rows, "a"));
        Thread closing = new Thread(() -> {
            background.close();
            hasClosed.set(true);
        });
        closing.start();
        mayGo.countDown();
        closing.join();
        assertEquals(new Contents(1, 1, 0, 1), world.contents());
    }

    private static void awaitUninterruptibly(CountDownLatch latch) {
        try {
            latch.await();
        } catch (InterruptedException impossible) {
            throw new AssertionError(impossible);
        }
    }

    @Test
    void rejectedCleanUpsAreLeftToRepetitions() {
        TransactionManager rejected = manager(task -> {
            throw new RejectedExecutionException();
        });
        put(rejected, rows, "a", "x");
        put(rejected, rows, "b", "x");
        assertEquals(2, rejected.cleanUpsPending());
        rejected.close();
        repetitions.removeFirst().run();
        assertEquals(new Contents(2, 2, 0, 2), world.contents());
    }
}
