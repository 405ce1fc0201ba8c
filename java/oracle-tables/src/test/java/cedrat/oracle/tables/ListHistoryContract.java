package cedrat.oracle.tables;

import static cedrat.oracle.tables.World.NEVER;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cedrat.oracle.client.OracleClient;
import java.util.ArrayList;
import java.util.List;
import java.util.SplittableRandom;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.atomic.AtomicBoolean;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/// Writes histories for the black-box judge, to which `./x test` hands them: those of clients side by side,
/// some of which die, and those of planted faults, which it has to find. The oracle's timestamps judge the
/// first, too.
public abstract class ListHistoryContract {
    private static final int CLIENTS = 4;
    private static final int TRANSACTIONS = 250;
    private static final int TRANSACTIONS_MIN = 50;
    private static final List<String> ROWS = List.of("0", "1", "2", "3", "4", "5");

    private static final String SNAPSHOT = "strong-snapshot-isolation";
    private static final String SERIALISABLE = "strict-serializable";

    private final ListHistory history = new ListHistory();
    private World world;

    /// For those who have a store.
    protected ListHistoryContract() {}

    /// A fresh store.
    protected abstract TestStore store();

    @BeforeEach
    void open() {
        world = new World(store());
    }

    @AfterEach
    void close() {
        world.close();
    }

    private int transactionsEach() {
        return Math.max(TRANSACTIONS_MIN, TRANSACTIONS / world.store.scale());
    }

    private void run(int number, Isolation isolation) {
        ListClient client =
                new ListClient(history::add, number, isolation, List.of(world.rows, world.cells), KeyRange.ALL, ROWS);
        SplittableRandom random = client.random();
        OracleClient oracle = world.client();
        for (int count = 0; count < transactionsEach(); count++) {
            if (random.nextInt(40) == 0) {
                oracle = world.client(); // the other is not heard of again, and leaves what it has left
            }
            boolean isCareless = random.nextInt(4) == 0;
            TransactionManager manager = new TransactionManager(
                    oracle,
                    number % 2 == 0 ? world.tables : world.sideBySide(),
                    World.anyBuffer(random).withCleanUp(isCareless ? NEVER : Runnable::run));
            if (random.nextInt(10) == 0) {
                ListHistory.Recorded recorded = client.begin(manager);
                client.fill(recorded);
                recorded.transaction.write(); // and dies, or forgets it
                oracle.abort(recorded.transaction.start());
                recorded.failed();
            } else {
                client.run(manager);
            }
        }
    }

    private void runAll(Isolation isolation) throws InterruptedException {
        ConcurrentLinkedQueue<Throwable> failures = new ConcurrentLinkedQueue<>();
        AtomicBoolean isOver = new AtomicBoolean();
        List<Thread> clients = new ArrayList<>();
        for (int number = 0; number < CLIENTS; number++) {
            int client = number;
            clients.add(start(failures, () -> run(client, isolation)));
        }
        Thread keeper = start(failures, () -> {
            Cleaner cleaner = new Cleaner(world.oracle, world.tables);
            while (!isOver.get()) {
                cleaner.sweep();
                new Pruner(world.oracle, world.tables).prune();
            }
        });
        for (Thread client : clients) {
            client.join();
        }
        isOver.set(true);
        keeper.join();
        assertEquals(List.of(), List.copyOf(failures));
        assertTrue(history.size() > 2 * CLIENTS * transactionsEach());
    }

    private static Thread start(ConcurrentLinkedQueue<Throwable> failures, Runnable work) {
        Thread thread = new Thread(work);
        thread.setUncaughtExceptionHandler((which, failure) -> failures.add(failure));
        thread.start();
        return thread;
    }

    /// Two read the same and append to different rows; whether both commit.
    private boolean skew(TransactionManager manager, Isolation isolation, boolean byScans) {
        try (ListHistory.Recorded first = new ListHistory.Recorded(history::add, 100, manager, isolation);
                ListHistory.Recorded second = new ListHistory.Recorded(history::add, 101, manager, isolation)) {
            for (ListHistory.Recorded each : List.of(first, second)) {
                if (byScans) {
                    each.scan(world.rows, KeyRange.ALL, List.of("p", "q"));
                } else {
                    each.read(world.rows, "p");
                    each.read(world.rows, "q");
                }
            }
            first.append(world.rows, "p");
            second.append(world.rows, "q");
            boolean bothCommit = first.commit() & second.commit();
            ListHistory.Recorded reader = new ListHistory.Recorded(history::add, 102, manager, isolation);
            reader.scan(world.rows, KeyRange.ALL, List.of("p", "q"));
            assertTrue(reader.commit());
            return bothCommit;
        }
    }

    @Test
    void snapshotIsolation() throws Exception {
        assertTrue(skew(world.manager(), Isolation.SNAPSHOT, false));
        runAll(Isolation.SNAPSHOT);
        history.check();
        history.write("clients", SNAPSHOT, "not-serializable");
    }

    @Test
    void serialisable() throws Exception {
        assertFalse(skew(world.manager(), Isolation.SERIALISABLE, false));
        assertFalse(skew(world.manager(), Isolation.SERIALISABLE, true));
        runAll(Isolation.SERIALISABLE);
        history.check();
        history.write("clients", SERIALISABLE);
    }

    @Test
    void readsUnknownToOracleAllowWriteSkew() throws Exception {
        assertTrue(skew(world.manager(Fault.FORGET_READS), Isolation.SERIALISABLE, false));
        history.write("forget-reads", SNAPSHOT, "not-" + SERIALISABLE);
    }

    @Test
    void scansUnknownToOracleAllowWriteSkew() throws Exception {
        assertTrue(skew(world.manager(Fault.FORGET_SCANS), Isolation.SERIALISABLE, true));
        history.write("forget-scans", SNAPSHOT, "not-" + SERIALISABLE);
    }

    /// A client without an answer to its commit takes it for aborted, and others read its writes.
    @Test
    void aClientThatGuesses() throws Exception {
        ListHistory.Recorded writer = new ListHistory.Recorded(history::add, 1, world.manager(), Isolation.SNAPSHOT);
        writer.append(world.rows, "a");
        writer.transaction.commit();
        writer.failed();
        ListHistory.Recorded reader = new ListHistory.Recorded(history::add, 2, world.manager(), Isolation.SNAPSHOT);
        reader.read(world.rows, "a");
        assertTrue(reader.commit());
        history.write("guess", "not-" + SNAPSHOT);
    }

    /// A reader sees of one transaction what it should not yet, and of the same what it should not: one row.
    @Test
    void startUsedAsCommitTimestampViolatesIsolation() throws Exception {
        TransactionManager late = world.manager(NEVER, Fault.NONE);
        ListHistory.Recorded writer = new ListHistory.Recorded(history::add, 1, late, Isolation.SNAPSHOT);
        writer.append(world.rows, "a");
        writer.append(world.rows, "b");
        TransactionManager wrong = world.manager(Fault.START_FOR_COMMIT);
        ListHistory.Recorded reader = new ListHistory.Recorded(history::add, 2, wrong, Isolation.SNAPSHOT);
        reader.read(world.rows, "a");
        assertTrue(writer.commit());
        reader.read(world.rows, "b");
        assertTrue(reader.commit());
        ListHistory.Recorded after = new ListHistory.Recorded(history::add, 3, late, Isolation.SNAPSHOT);
        after.read(world.rows, "a");
        assertTrue(after.commit());
        history.write("start-for-commit", "not-" + SNAPSHOT);
    }

    /// A cleaner removes a row of a transaction that then commits.
    @Test
    void cleaningOpenTransactionsViolatesIsolation() throws Exception {
        ListHistory.Recorded writer = new ListHistory.Recorded(history::add, 1, world.manager(), Isolation.SNAPSHOT);
        writer.append(world.rows, "a");
        writer.read(world.rows, "a");
        world.hook = (point, table, row, mutation) -> {
            if (point == HookedTables.Point.AFTER_MUTATE) {
                world.hook = (otherPoint, otherTable, otherRow, otherMutation) -> {};
                new Cleaner(world.oracle, world.tables, System::nanoTime, Fault.CLEAN_OPEN).sweep();
            }
        };
        assertTrue(writer.commit());
        ListHistory.Recorded reader = new ListHistory.Recorded(history::add, 2, world.manager(), Isolation.SNAPSHOT);
        reader.append(world.rows, "a");
        reader.read(world.rows, "a");
        assertTrue(reader.commit());
        history.write("clean-open", "not-" + SNAPSHOT);
    }
}
