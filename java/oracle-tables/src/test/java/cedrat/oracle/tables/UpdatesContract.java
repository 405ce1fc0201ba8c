package cedrat.oracle.tables;

import static cedrat.oracle.tables.World.VALUE;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.concurrent.ConcurrentLinkedQueue;
import org.junit.jupiter.api.Test;

/// A few rows that are written again and again.
public abstract class UpdatesContract {
    private static final int CLIENTS = 4;
    private static final int ROWS_EACH = 25;
    private static final int ROWS = CLIENTS * ROWS_EACH;
    private static final int UPDATES = 400_000;

    /// So often is the table pruned, and the store does away with what that has left.
    private static final int STEP = 5000;

    /// An update puts a version, a marker and a commit timestamp over that, and the pruner removes the version and the
    /// commit timestamp: so many cells does a store keep which only notes what was removed.
    private static final int CELLS_OF_AN_UPDATE = 5;

    private static final int LINES = 10;

    /// For those who have a store.
    protected UpdatesContract() {}

    /// A fresh store.
    protected abstract TestStore store();

    /// A client with rows of its own, so that it has no conflicts.
    private static void update(TransactionManager manager, Table table, int client, int updates) {
        for (int done = 0; done < updates; done += ROWS_EACH) {
            int value = done;
            manager.runInTransaction(Isolation.SNAPSHOT, transaction -> {
                for (int row = 0; row < ROWS_EACH; row++) {
                    transaction.put(table, Bytes.of((row % 10) + "." + client + "." + row), VALUE, Bytes.of(value));
                }
                return null;
            });
        }
    }

    private static void updateSideBySide(World world, Table table, int updates) throws InterruptedException {
        ConcurrentLinkedQueue<Throwable> failures = new ConcurrentLinkedQueue<>();
        try (TransactionManager manager = new TransactionManager(world.oracle, world.store.tables())) {
            List<Thread> clients = new ArrayList<>();
            for (int number = 0; number < CLIENTS; number++) {
                int client = number;
                Thread thread = new Thread(() -> update(manager, table, client, updates / CLIENTS));
                thread.setUncaughtExceptionHandler((which, failure) -> failures.add(failure));
                thread.start();
                clients.add(thread);
            }
            for (Thread client : clients) {
                client.join();
            }
        }
        assertEquals(List.of(), List.copyOf(failures));
    }

    private static Duration scan(TransactionManager manager, Table table) {
        long begun = System.nanoTime();
        int rows = manager.runInTransaction(Isolation.SNAPSHOT, transaction -> {
            try (Rows all = transaction.scan(table, Scan.ALL.withColumns(Set.of(VALUE)))) {
                return all.toList().size();
            }
        });
        assertEquals(ROWS, rows);
        return Duration.ofNanos(System.nanoTime() - begun);
    }

    /// O8: what is kept, and what a scan has to pass over, depends on how many rows there are, and on how
    /// often they were written since the last pruning; not on how often they were ever written.
    @Test
    void keptVersionsLevelOff() throws Exception {
        try (World world = new World(store())) {
            int steps = Integer.getInteger("cedrat.updates", UPDATES / world.store.scale()) / STEP;
            Table table = world.store.tables().table(world.rows.name());
            TransactionManager manager = new TransactionManager(world.oracle, world.store.tables());
            Pruner pruner = new Pruner(world.oracle, world.store.tables());
            for (int step = 1; step <= steps; step++) {
                updateSideBySide(world, table, STEP);
                long versions = pruner.prune().versions();
                long passed = world.store.cells();
                world.store.compact();
                long kept = world.store.cells();
                Duration scan = scan(manager, table);
                if (step * LINES / steps > (step - 1) * LINES / steps) {
                    System.out.printf(
                            "%d updates: %d versions pruned, %d cells passed over, %d after a compaction; a scan took %d us%n",
                            step * STEP, versions, passed, kept, scan.toNanos() / 1000);
                }
                assertEquals(new Contents(ROWS, ROWS, 0, 0), world.contents());
                assertEquals(ROWS, kept);
                assertTrue(versions <= STEP, () -> versions + " versions pruned");
                assertTrue(passed <= ROWS + STEP * CELLS_OF_AN_UPDATE, () -> passed + " cells passed over");
            }
        }
    }
}
