package cedrat.oracle.tables;

import static cedrat.oracle.tables.World.NEVER;
import static cedrat.oracle.tables.World.VALUE;
import static cedrat.oracle.tables.World.get;
import static cedrat.oracle.tables.World.put;
import static cedrat.oracle.tables.World.see;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cedrat.oracle.client.AbortReason;
import cedrat.oracle.client.OracleClient;
import cedrat.oracle.client.Outcome;
import cedrat.oracle.client.StartTimestamp;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.function.Consumer;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/// Cleaning of the rows of dead clients, and of old versions.
public abstract class CleaningContract {
    private World world;
    private TransactionManager manager;
    private Table rows;

    /// For those who have a store.
    protected CleaningContract() {}

    /// A fresh store.
    protected abstract TestStore store();

    @BeforeEach
    void open() {
        world = new World(store());
        manager = world.manager();
        rows = world.rows;
    }

    @AfterEach
    void close() {
        world.close();
    }

    private Transaction written(TransactionManager manager, String row, String value) {
        Transaction transaction = manager.begin(Isolation.SNAPSHOT);
        transaction.put(rows, Bytes.of(row), VALUE, Bytes.of(value));
        transaction.write();
        return transaction;
    }

    private Outcome status(StartTimestamp start) {
        return world.oracle.status(start, List.of(start)).getFirst();
    }

    @Test
    void aClientDiesBetweenWriteAndCommit() {
        put(manager, rows, "a", "old");
        OracleClient dying = world.client();
        StartTimestamp start =
                written(new TransactionManager(dying, world.tables), "a", "new").start();
        Cleaner cleaner = new Cleaner(world.oracle, world.tables);
        assertEquals(new Cleaner.Sweep(1, 0, 0, 1, 0), cleaner.sweep(), "as long as it may be alive");
        assertEquals("old", see(manager, rows, "a"));
        put(manager, rows, "a", "newer"); // a dead client blocks no other
        dying.close();
        assertEquals("newer", see(manager, rows, "a"));
        assertEquals(new Cleaner.Sweep(1, 0, 1, 0, 1), cleaner.sweep());
        assertEquals(2, world.contents().versions());
        assertEquals(Outcome.Kind.UNKNOWN, status(start).kind(), "no row refers to it");
    }

    @Test
    void sweepCompletesCommitOfDeadClient() {
        OracleClient dying = world.client();
        TransactionManager careless =
                new TransactionManager(dying, world.tables, TransactionManager.Options.DEFAULTS.withCleanUp(NEVER));
        put(careless, rows, "a", "new");
        dying.close();
        assertEquals("new", see(manager, rows, "a"));
        assertEquals(1, world.contents().pending());
        assertEquals(new Cleaner.Sweep(1, 1, 0, 0, 1), new Cleaner(world.oracle, world.tables).sweep());
        assertEquals(0, world.contents().pending());
        assertEquals("new", see(manager, rows, "a"));
    }

    /// O4f: another store of the same oracle is swept, and this one is not.
    @Test
    void sweepOfAnotherNamespaceKeepsOutcomes() {
        MemoryTables others = new MemoryTables();
        Table other = others.create("other", Granularity.ROW);
        put(new TransactionManager(world.oracle, others, World.PROMPT), other, "x", "other");
        Cleaner elsewhere = new Cleaner(world.oracle, others);
        Cleaner here = new Cleaner(world.oracle, world.tables);
        assertNull(see(manager, rows, "a"), "a client that lives uses the namespace");
        dieBeforeCleaning(Fault.NONE, "new");
        assertEquals(new Cleaner.Sweep(0, 0, 0, 0, 0), elsewhere.sweep());
        assertEquals("new", see(manager, rows, "a"));
        // The other namespace was not swept since the mark of this sweep was drawn.
        assertEquals(1, here.sweep().committed());
        elsewhere.sweep();
        here.sweep();
        assertEquals("new", see(manager, rows, "a"));
        assertEquals(0, world.contents().pending());
    }

    /// O4f: a client that names no namespace uses one of its own.
    @Test
    void commitThatNamesNoNamespaceIsKept() {
        MemoryTables others = new MemoryTables();
        Table other = others.create("other", Granularity.ROW);
        put(new TransactionManager(world.oracle, others, World.PROMPT), other, "x", "other");
        dieBeforeCleaning(Fault.FORGET_NAMESPACES, "new");
        new Cleaner(world.oracle, others).sweep();
        assertEquals("new", see(manager, rows, "a"), "it belongs to the unnamed namespace, which was not swept");
    }

    private void dieBeforeCleaning(Fault fault, String value) {
        OracleClient dying = world.client();
        put(
                new TransactionManager(
                        dying, world.tables, TransactionManager.Options.DEFAULTS.withCleanUp(NEVER), fault),
                rows,
                "a",
                value);
        dying.close();
    }

    /// O4: what is aborted stays known while its client lives.
    @Test
    void theOracleForgetsTheDeadAlone() {
        OracleClient dying = world.client();
        Transaction dead = written(new TransactionManager(dying, world.tables), "a", "x");
        Transaction alive = written(manager, "b", "x");
        Transaction open = written(manager, "c", "x");
        world.oracle.abort(dead.start());
        world.oracle.abort(alive.start());
        Cleaner cleaner = new Cleaner(world.oracle, world.tables);
        assertEquals(new Cleaner.Sweep(3, 0, 2, 1, 0), cleaner.sweep());
        dying.close();
        assertEquals(new Cleaner.Sweep(1, 0, 0, 1, 1), cleaner.sweep());
        assertEquals(Outcome.Kind.UNKNOWN, status(dead.start()).kind());
        assertEquals(Outcome.Kind.ABORTED, world.oracle.resolve(alive.start()).kind());
        open.abort();
    }

    /// One row is passed while its transaction is open, the next when its client has died: the first still
    /// needs the oracle's answer.
    @Test
    void transactionEndingDuringSweepIsNotForgotten() {
        OracleClient dying = world.client();
        Transaction transaction = new TransactionManager(dying, world.tables).begin(Isolation.SNAPSHOT);
        transaction.put(world.cells, Bytes.of("a"), VALUE, Bytes.of("x"));
        transaction.put(rows, Bytes.of("a"), VALUE, Bytes.of("x"));
        transaction.write();
        world.hook = (point, table, row, mutation) -> {
            if (table.equals(rows) && point == HookedTables.Point.BEFORE_READ) {
                dying.close();
            }
        };
        Cleaner cleaner = new Cleaner(world.oracle, world.tables);
        assertEquals(new Cleaner.Sweep(2, 0, 1, 1, 0), cleaner.sweep());
        assertEquals(
                Outcome.Kind.ABORTED, world.oracle.resolve(transaction.start()).kind());
        assertEquals(1, cleaner.sweep().forgotten());
    }

    /// Returns a transaction whose session ends, and is swept, between its first write and its commit. The
    /// commit uses the session of another client, as a client does whose own session begins anew.
    private Transaction ofEndedSession(String value, Consumer<Transaction> before) {
        OracleClient dying = world.client();
        Transaction transaction = new Transaction(manager, dying.begin(), Isolation.SNAPSHOT);
        transaction.put(rows, Bytes.of("a"), VALUE, Bytes.of(value));
        world.hook = (point, table, row, mutation) -> {
            if (point == HookedTables.Point.AFTER_MUTATE) {
                world.hook = (otherPoint, otherTable, otherRow, otherMutation) -> {};
                before.accept(transaction);
                dying.close();
                new Cleaner(world.oracle, world.tables).sweep();
            }
        };
        return transaction;
    }

    /// O4e: the commit arrives after the end and the sweep of its session.
    @Test
    void returningWriterLearnsSweptOutcome() {
        Transaction aborted = ofEndedSession("x", transaction -> {});
        AbortedException why = assertThrows(AbortedException.class, aborted::commit);
        assertEquals(AbortReason.EXPIRED, why.reason());
        assertNull(see(manager, rows, "a"));
        Transaction committed = ofEndedSession("y", this::commit);
        committed.commit();
        assertEquals(Transaction.State.COMMITTED, committed.state());
        assertEquals(Outcome.Kind.UNKNOWN, status(committed.start()).kind());
        assertEquals("y", see(manager, rows, "a"));
    }

    private long[] rowIds(String row) {
        return new long[] {
            Granularity.ROW.id(Bytes.of(rows.name()).raw(), Bytes.of(row), null),
        };
    }

    /// Makes the oracle forget a transaction as a server does that has restarted since the sweep: then its
    /// client receives no outcome either.
    private void forget(Transaction transaction) {
        new Cleaner(world.oracle, world.tables).sweep();
        assertEquals(1, world.oracle.cleaned(List.of(transaction.start())));
    }

    private Transaction forgotten(String value, Consumer<Transaction> decide, Runnable after) {
        Transaction transaction = manager.begin(Isolation.SNAPSHOT);
        transaction.put(rows, Bytes.of("a"), VALUE, Bytes.of(value));
        world.hook = (point, table, row, mutation) -> {
            if (point == HookedTables.Point.AFTER_MUTATE) {
                world.hook = (otherPoint, otherTable, otherRow, otherMutation) -> {};
                decide.accept(transaction);
                forget(transaction);
                after.run();
            }
        };
        return transaction;
    }

    private void abort(Transaction transaction) {
        world.oracle.abort(transaction.start());
    }

    private void commit(Transaction transaction) {
        Outcome outcome = world.oracle.commit(transaction.start(), rowIds("a"));
        assertEquals(Outcome.Kind.COMMITTED, outcome.kind());
    }

    /// The oracle has forgotten the transaction, and the rows still show its abort.
    @Test
    void forgottenWriterFindsItsAbortInRows() {
        put(manager, rows, "a", "old");
        for (Runnable after : List.<Runnable>of(() -> {}, () -> put(manager, rows, "a", "another"))) {
            Transaction transaction = forgotten("x", this::abort, after);
            AbortedException why = assertThrows(AbortedException.class, transaction::commit);
            assertEquals(AbortReason.UNKNOWN, why.reason());
            assertEquals(Transaction.State.ABORTED, transaction.state());
        }
        // Its write arrives nevertheless, with the marker.
        Transaction late = manager.begin(Isolation.SNAPSHOT);
        late.put(rows, Bytes.of("b"), VALUE, Bytes.of("x"));
        abort(late);
        forget(late);
        assertThrows(AbortedException.class, late::commit);
        assertEquals(0, world.contents().pending());
        assertNull(see(manager, rows, "b"));
    }

    /// Another transaction has written the same values, at another timestamp.
    @Test
    void valuesOfAnotherHideNoAbort() {
        put(manager, rows, "a", "old");
        Transaction transaction = forgotten("x", this::abort, () -> put(manager, rows, "a", "x"));
        assertThrows(AbortedException.class, transaction::commit);
        assertEquals(Transaction.State.ABORTED, transaction.state());
        assertEquals("x", see(manager, rows, "a"));
    }

    /// An outcome that the rows do not show is not guessed.
    @Test
    void forgottenWriterWithoutEvidenceRemainsUnknown() {
        put(manager, rows, "a", "old");
        assertUnknown(forgotten("x", this::commit, () -> {}));
        Transaction pruned = forgotten("x", this::commit, () -> {
            put(manager, rows, "a", "another");
            new Pruner(world.oracle, world.tables).prune();
        });
        assertUnknown(pruned);
    }

    private static void assertUnknown(Transaction transaction) {
        OutcomeUnknownException why = assertThrows(OutcomeUnknownException.class, transaction::commit);
        assertTrue(why.getMessage().contains("has forgotten it"), why.getMessage());
        assertThrows(OutcomeUnknownException.class, transaction::resolve);
        assertEquals(Transaction.State.UNKNOWN, transaction.state());
    }

    /// O4: a store whose writes outlast their clients.
    private static final class Slow implements Tables {
        private final Tables tables;

        Slow(Tables tables) {
            this.tables = tables;
        }

        @Override
        public Table table(String name) {
            return tables.table(name);
        }

        @Override
        public List<Table> all() {
            return tables.all();
        }

        @Override
        public long namespace() {
            return tables.namespace();
        }

        @Override
        public boolean isVolatile() {
            return tables.isVolatile();
        }

        @Override
        public Duration writesLast() {
            return Duration.ofSeconds(10);
        }
    }

    private List<Long> forgottenAt(Fault fault, long... seconds) {
        OracleClient dying = world.client();
        written(new TransactionManager(dying, world.tables), "a", "x");
        dying.close();
        long[] now = {0};
        Cleaner cleaner = new Cleaner(world.oracle, new Slow(world.tables), () -> now[0], fault);
        List<Long> forgotten = new ArrayList<>();
        for (long second : seconds) {
            now[0] = second * 1_000_000_000;
            forgotten.add(cleaner.sweep().forgotten());
        }
        return forgotten;
    }

    /// O4.
    @Test
    void oracleForgetsNothingWhileWritesMayArrive() {
        assertEquals(List.of(0L, 0L, 1L, 0L), forgottenAt(Fault.NONE, 0, 9, 10, 11));
        assertEquals(List.of(1L), forgottenAt(Fault.SWEEP_EARLY, 0), "would be noticed");
    }

    /// O4: a client is stopped between deciding to write and writing, for longer than anything lasts. It is
    /// cleaned up after and forgotten; then it goes on.
    @Test
    void lateWriteOfForgottenTransactionIsInvisible() throws Exception {
        put(manager, rows, "a", "old");
        OracleClient stopped = world.client();
        CountDownLatch isThere = new CountDownLatch(1);
        CountDownLatch mayGo = new CountDownLatch(1);
        Transaction transaction = new TransactionManager(stopped, world.tables).begin(Isolation.SNAPSHOT);
        transaction.put(rows, Bytes.of("a"), VALUE, Bytes.of("ghost"));
        Thread client = new Thread(() -> assertThrows(RuntimeException.class, transaction::commit));
        world.hook = (point, table, row, mutation) -> {
            if (Thread.currentThread() == client && point == HookedTables.Point.BEFORE_MUTATE) {
                isThere.countDown();
                await(mayGo);
            }
        };
        client.start();
        isThere.await();
        stopped.close(); // as far as the oracle can see
        Cleaner cleaner = new Cleaner(world.oracle, world.tables);
        assertEquals(new Cleaner.Sweep(0, 0, 0, 0, 1), cleaner.sweep());
        Transaction reader = manager.begin(Isolation.SNAPSHOT);
        mayGo.countDown();
        client.join();
        assertEquals(1, world.contents().pending(), "the write has come");
        assertEquals("old", get(reader, rows, "a"));
        assertEquals("old", see(manager, rows, "a"));
        put(manager, rows, "a", "new");
        assertEquals("new", see(manager, rows, "a"));
        assertEquals(new Cleaner.Sweep(1, 0, 1, 0, 0), cleaner.sweep());
        assertEquals(0, world.contents().pending());
        assertEquals("old", get(reader, rows, "a"));
        reader.close();
    }

    /// The planted fault: rows of an open transaction go, and it commits without them.
    private String cleanAnOpenTransaction(Fault fault) {
        Transaction transaction = manager.begin(Isolation.SNAPSHOT);
        transaction.put(rows, Bytes.of("a"), VALUE, Bytes.of(fault.name()));
        world.hook = (point, table, row, mutation) -> {
            if (point == HookedTables.Point.AFTER_MUTATE) {
                world.hook = (otherPoint, otherTable, otherRow, otherMutation) -> {};
                new Cleaner(world.oracle, world.tables, System::nanoTime, fault).sweep();
            }
        };
        transaction.commit();
        return see(manager, rows, "a");
    }

    @Test
    void aCleanerLeavesOpenTransactionsAlone() {
        assertNull(cleanAnOpenTransaction(Fault.CLEAN_OPEN), "would be noticed");
        assertEquals("NONE", cleanAnOpenTransaction(Fault.NONE));
    }

    /// O7. A cleaner is held up before it changes a row; meanwhile the row is cleaned, deleted and pruned.
    private Contents holdUpACleaner(Fault fault) throws Exception {
        put(world.manager(NEVER, Fault.NONE), rows, "a", "ghost");
        CountDownLatch isThere = new CountDownLatch(1);
        CountDownLatch mayGo = new CountDownLatch(1);
        Thread stalled = new Thread(() -> new Cleaner(world.oracle, world.tables, System::nanoTime, fault).sweep());
        world.hook = (point, table, row, mutation) -> {
            if (Thread.currentThread() == stalled && mutation != null) {
                isThere.countDown();
                await(mayGo);
            }
        };
        stalled.start();
        isThere.await();
        assertEquals(1, new Cleaner(world.oracle, world.tables).sweep().committed());
        manager.runInTransaction(Isolation.SNAPSHOT, transaction -> {
            transaction.delete(rows, Bytes.of("a"));
            return null;
        });
        new Pruner(world.oracle, world.tables).prune();
        assertEquals(0, world.contents().rows());
        world.store.compact();
        mayGo.countDown();
        stalled.join();
        assertNull(see(manager, rows, "a"));
        return world.contents();
    }

    private static void await(CountDownLatch latch) {
        try {
            latch.await();
        } catch (InterruptedException impossible) {
            throw new AssertionError(impossible);
        }
    }

    /// O7.
    @Test
    void delayedCleanerRestoresNothing() throws Exception {
        assertEquals(new Contents(0, 0, 0, 0), holdUpACleaner(Fault.NONE));
        assertEquals(new Contents(1, 0, 0, 1), holdUpACleaner(Fault.UNCHECKED_CLEANER), "would be noticed");
    }

    @Test
    void versionsInUseAreNotPruned() {
        put(manager, rows, "a", "1");
        put(manager, rows, "a", "2");
        Transaction reader = manager.begin(Isolation.SNAPSHOT);
        put(manager, rows, "a", "3");
        put(manager, rows, "a", "4");
        Pruner.Pruned pruned = new Pruner(world.oracle, world.tables).prune();
        assertEquals(new Pruner.Pruned(reader.start().value(), 1, 1), pruned);
        assertEquals("2", get(reader, rows, "a"));
        new Pruner(world.oracle, world.tables, Fault.PRUNE_ABOVE_THE_MARK).prune();
        assertNull(get(reader, rows, "a"), "would be noticed");
        reader.close();
        assertEquals("4", see(manager, rows, "a"));
    }

    /// O7, P3: a version that was not stamped yet lies below a delete; without the delete it would be seen.
    @Test
    void deleteStaysAboveUnstampedVersion() {
        put(world.manager(NEVER, Fault.NONE), rows, "a", "ghost");
        manager.runInTransaction(Isolation.SNAPSHOT, transaction -> {
            transaction.delete(rows, Bytes.of("a"));
            return null;
        });
        Pruner pruner = new Pruner(world.oracle, world.tables);
        assertEquals(0, pruner.prune().versions());
        assertNull(see(manager, rows, "a"));
        new Cleaner(world.oracle, world.tables).sweep();
        assertEquals(2, pruner.prune().versions());
        assertEquals(0, world.contents().rows());
    }
}
