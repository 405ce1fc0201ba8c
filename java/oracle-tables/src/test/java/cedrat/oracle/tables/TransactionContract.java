package cedrat.oracle.tables;

import static cedrat.oracle.tables.World.OTHER;
import static cedrat.oracle.tables.World.VALUE;
import static cedrat.oracle.tables.World.get;
import static cedrat.oracle.tables.World.put;
import static cedrat.oracle.tables.World.see;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cedrat.oracle.client.AbortReason;
import cedrat.oracle.client.Outcome;
import cedrat.oracle.client.RefusedException;
import cedrat.oracle.client.StartTimestamp;
import cedrat.oracle.log.VolatileLog;
import java.lang.reflect.Proxy;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.NavigableMap;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Supplier;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/// Reads of one transaction, and the effects of another on it.
public abstract class TransactionContract {
    /// For those who have a store.
    protected TransactionContract() {}

    /// A fresh store.
    protected abstract TestStore store();

    private World world;
    private TransactionManager manager;
    private Table rows;

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

    @Test
    void aTransactionReadsWhatItWrites() {
        put(manager, rows, "a", "old");
        try (Transaction transaction = manager.begin(Isolation.SNAPSHOT)) {
            transaction.put(rows, Bytes.of("a"), VALUE, Bytes.of("new"));
            assertEquals("new", get(transaction, rows, "a"));
            transaction.delete(rows, Bytes.of("a"), VALUE);
            assertNull(get(transaction, rows, "a"));
            transaction.put(rows, Bytes.of("a"), OTHER, Bytes.EMPTY);
            assertEquals(
                    Set.of(OTHER), transaction.get(rows, Bytes.of("a")).cells().keySet());
            assertEquals("old", see(manager, rows, "a"), "others do not");
        }
        assertEquals("old", see(manager, rows, "a"), "it was closed without a commit");
        assertEquals(1, world.contents().versions(), "nothing is left of it");
    }

    private List<String> getAll(Transaction transaction, String... keys) {
        List<Bytes> names = Arrays.stream(keys).map(Bytes::of).toList();
        return transaction.get(rows, names, Set.of(VALUE)).stream()
                .map(row -> row.get(VALUE).map(Bytes::toString).orElse("none"))
                .toList();
    }

    @Test
    void manyRowsAreReadTogether() {
        put(manager, rows, "a", "1");
        put(manager, rows, "c", "3");
        try (Transaction transaction = manager.begin(Isolation.SERIALISABLE)) {
            put(manager, rows, "a", "later");
            transaction.put(rows, Bytes.of("d"), VALUE, Bytes.of("own"));
            transaction.put(rows, Bytes.of("c"), OTHER, Bytes.of("not asked for"));
            assertEquals(List.of("3", "none", "1", "own", "3"), getAll(transaction, "c", "b", "a", "d", "c"));
            assertEquals(List.of(), getAll(transaction));
            assertThrows(AbortedException.class, transaction::commit, "a row that it has read was written");
        }
    }

    @Test
    void pendingRowsAreResolvedTogether() {
        Transaction pending = manager.begin(Isolation.SNAPSHOT);
        for (String key : List.of("a", "b", "c")) {
            put(manager, rows, key, "old");
            pending.put(rows, Bytes.of(key), VALUE, Bytes.of("new"));
        }
        pending.write();
        try (Transaction later = manager.begin(Isolation.SNAPSHOT)) {
            assertEquals(List.of("old", "old", "old"), getAll(later, "a", "b", "c"));
        }
        pending.abort();
    }

    @Test
    void writesSinceASavepointAreForgotten() {
        put(manager, rows, "a", "1");
        Transaction transaction = manager.begin(Isolation.SNAPSHOT);
        transaction.put(rows, Bytes.of("a"), VALUE, Bytes.of("2"));
        Savepoint first = transaction.savepoint();
        transaction.put(rows, Bytes.of("a"), VALUE, Bytes.of("3"));
        transaction.put(rows, Bytes.of("b"), VALUE, Bytes.of("3"));
        Savepoint second = transaction.savepoint();
        transaction.delete(rows, Bytes.of("a"), VALUE);
        transaction.rollBackTo(second);
        assertEquals("3", get(transaction, rows, "a"));
        transaction.rollBackTo(first);
        assertEquals("2", get(transaction, rows, "a"));
        assertNull(get(transaction, rows, "b"));
        assertThrows(IllegalArgumentException.class, () -> transaction.rollBackTo(second));
        transaction.put(rows, Bytes.of("b"), VALUE, Bytes.of("4"));
        transaction.rollBackTo(first);
        put(manager, rows, "b", "of another"); // conflicts with nothing of it
        transaction.commit();
        assertEquals("2", see(manager, rows, "a"));
        assertEquals("of another", see(manager, rows, "b"));
        assertThrows(IllegalStateException.class, transaction::savepoint);
    }

    /// A part of the writes must not commit without the others.
    @Test
    void failedReturnToSavepointAborts() {
        boolean[] isBroken = {false};
        Table broken = (Table) Proxy.newProxyInstance(
                Table.class.getClassLoader(), new Class<?>[] {Table.class}, (self, method, of) -> {
                    if (isBroken[0]) {
                        throw new OutOfMemoryError("planted");
                    }
                    return method.invoke(rows, of);
                });
        Transaction transaction = manager.begin(Isolation.SNAPSHOT);
        Savepoint begin = transaction.savepoint();
        transaction.put(broken, Bytes.of("a"), VALUE, Bytes.of("1"));
        transaction.put(broken, Bytes.of("b"), VALUE, Bytes.of("1"));
        isBroken[0] = true;
        assertThrows(OutOfMemoryError.class, () -> transaction.rollBackTo(begin));
        assertEquals(Transaction.State.ABORTED, transaction.state());
    }

    @Test
    void transactionReturnedToItsBeginningOnlyReads() {
        Transaction transaction = manager.begin(Isolation.SNAPSHOT);
        Savepoint begin = transaction.savepoint();
        transaction.put(rows, Bytes.of("a"), VALUE, Bytes.of("1"));
        transaction.rollBackTo(begin);
        transaction.write();
        assertEquals(0, world.contents().pending(), "no row has its marker");
        assertEquals(transaction.start().value(), transaction.commit().value(), "it commits when it began");
        assertEquals(0, world.contents().versions());
    }

    /// Rows that were read before the failure are returned after it.
    @Test
    void scanContinuesAfterFailedRead() {
        List.of("a", "b", "c", "d").forEach(key -> put(manager, rows, key, key));
        try (Transaction transaction = manager.begin(Isolation.SNAPSHOT);
                Rows found = transaction.scan(rows, Scan.ALL)) {
            int[] reads = {0};
            world.hook = (point, table, row, mutation) -> {
                if (point == HookedTables.Point.BEFORE_READ && row == null && ++reads[0] == 3) {
                    throw new TableException(TableException.Effect.NONE, "planted", null);
                }
            };
            assertThrows(TableException.class, found::hasNext);
            assertEquals(4, found.toList().size());
        }
    }

    /// The same of own writes, which may be in a file, and of what the store has of their rows.
    @Test
    void scanContinuesAfterUnreadableOwnWrite() {
        put(manager, rows, "a", "stored");
        Transaction transaction = manager.begin(Isolation.SNAPSHOT);
        Snapshot snapshot = new Snapshot(world.oracle, transaction.start(), Fault.NONE);
        boolean[] isReadable = {false};
        TreeMap<Bytes, Supplier<NavigableMap<Column, Bytes>>> own = new TreeMap<>();
        own.put(Bytes.of("a"), () -> {
            if (!isReadable[0]) {
                isReadable[0] = true;
                throw new TableException(TableException.Effect.NONE, "planted", null);
            }
            return new TreeMap<>(Map.of(OTHER, Values.stored(Bytes.of("own"))));
        });
        try (transaction;
                Rows found = new Rows(
                        rows, Scan.ALL, snapshot, snapshot.scan(rows, Scan.ALL), own, () -> true, Fault.NONE)) {
            assertThrows(TableException.class, found::hasNext);
            assertEquals(Set.of(VALUE, OTHER), found.next().cells().keySet());
            assertFalse(found.hasNext());
        }
    }

    @Test
    void aSnapshotStays() {
        put(manager, rows, "a", "1");
        try (Transaction reader = manager.begin(Isolation.SNAPSHOT)) {
            put(manager, rows, "a", "2");
            assertEquals("1", get(reader, rows, "a"));
            put(manager, rows, "b", "2");
            assertNull(get(reader, rows, "b"));
        }
        assertEquals("2", see(manager, rows, "a"));
    }

    @Test
    void aWholeRowIsDeleted() {
        put(manager, rows, "a", "1");
        try (Transaction reader = manager.begin(Isolation.SNAPSHOT)) {
            manager.runInTransaction(Isolation.SNAPSHOT, transaction -> {
                transaction.put(rows, Bytes.of("a"), OTHER, Bytes.of("x"));
                transaction.delete(rows, Bytes.of("a"));
                return null;
            });
            assertEquals("1", get(reader, rows, "a"), "a delete is a version");
        }
        assertNull(see(manager, rows, "a"));
        manager.runInTransaction(Isolation.SNAPSHOT, transaction -> {
            assertTrue(transaction.get(rows, Bytes.of("a")).isEmpty());
            assertFalse(transaction.scan(rows, Scan.ALL).hasNext());
            return null;
        });
    }

    @Test
    void theSecondToCommitARowAborts() {
        Transaction first = manager.begin(Isolation.SNAPSHOT);
        Transaction second = manager.begin(Isolation.SNAPSHOT);
        first.put(rows, Bytes.of("a"), VALUE, Bytes.of("first"));
        second.put(rows, Bytes.of("a"), OTHER, Bytes.of("second"));
        second.put(rows, Bytes.of("b"), OTHER, Bytes.of("second"));
        first.commit();
        AbortedException aborted = assertThrows(AbortedException.class, second::commit);
        assertEquals(AbortReason.CONFLICT, aborted.reason());
        assertTrue(aborted.getMessage().contains("committed a row that it has written since"), aborted.getMessage());
        assertFalse(aborted.getMessage().contains("session"), aborted.getMessage());
        assertEquals(Transaction.State.ABORTED, second.state());
        assertEquals("first", see(manager, rows, "a"));
        assertEquals(1, world.contents().versions());
        assertEquals(0, world.contents().pending());
        assertThrows(IllegalStateException.class, () -> get(second, rows, "a"));
    }

    /// R004.
    @Test
    void cellConflictsSpareTheirRow() {
        Transaction first = manager.begin(Isolation.SNAPSHOT);
        Transaction second = manager.begin(Isolation.SNAPSHOT);
        Transaction third = manager.begin(Isolation.SNAPSHOT);
        first.put(world.cells, Bytes.of("a"), VALUE, Bytes.of("first"));
        second.put(world.cells, Bytes.of("a"), OTHER, Bytes.of("second"));
        third.put(world.cells, Bytes.of("a"), OTHER, Bytes.of("third"));
        first.commit();
        second.commit();
        assertThrows(AbortedException.class, third::commit);
        manager.runInTransaction(Isolation.SNAPSHOT, transaction -> {
            Row row = transaction.get(world.cells, Bytes.of("a"));
            assertEquals("first", row.get(VALUE).orElseThrow().toText());
            assertEquals("second", row.get(OTHER).orElseThrow().toText());
            return null;
        });
    }

    /// O7: a scan meets own writes, pending versions of committed, open and aborted transactions; filter and
    /// limit count what is seen.
    @Test
    void aScanSeesWhatIsVisible() {
        for (int number = 0; number < 300; number++) {
            put(number % 3 == 0 ? world.manager(World.NEVER, Fault.NONE) : manager, rows, key(number), "" + number);
        }
        Transaction open = manager.begin(Isolation.SNAPSHOT);
        for (int number = 0; number < 300; number += 7) {
            open.put(rows, Bytes.of(key(number)), VALUE, Bytes.of("open"));
        }
        open.put(rows, Bytes.of("a"), VALUE, Bytes.of("open"));
        open.write();
        try (Transaction transaction = manager.begin(Isolation.SNAPSHOT)) {
            List<String> expected = new ArrayList<>();
            for (int number = 0; number < 300; number++) {
                if (number % 5 == 0) {
                    transaction.delete(rows, Bytes.of(key(number)));
                } else {
                    expected.add("" + number);
                }
            }
            transaction.put(rows, Bytes.of(key(5) + "x"), VALUE, Bytes.of("own"));
            expected.add(4, "own");
            transaction.put(rows, Bytes.of("z"), VALUE, Bytes.of("last"));
            expected.add("last");
            assertEquals(expected, texts(transaction, Scan.ALL));
            assertEquals(expected.subList(0, 9), texts(transaction, Scan.ALL.withLimit(9)));
            assertEquals(
                    List.of("6", "16"),
                    texts(
                            transaction,
                            Scan.ALL
                                    .withFilter(row -> row.get(VALUE)
                                            .orElseThrow()
                                            .toText()
                                            .endsWith("6"))
                                    .withLimit(2)));
            assertEquals(
                    expected.subList(8, 11),
                    texts(transaction, Scan.ALL.withRange(new KeyRange(Bytes.of(key(9)), Bytes.of(key(13))))));
            assertEquals(List.of(), texts(transaction, Scan.ALL.withColumns(Set.of(OTHER))));
            assertEquals(expected.reversed(), texts(transaction, Scan.ALL.reversed()));
            assertEquals(
                    expected.reversed().subList(0, 9),
                    texts(transaction, Scan.ALL.withLimit(9).reversed()));
            assertEquals(
                    expected.subList(8, 11).reversed(),
                    texts(
                            transaction,
                            Scan.ALL
                                    .withRange(new KeyRange(Bytes.of(key(9)), Bytes.of(key(13))))
                                    .reversed()));
        }
        open.abort();
    }

    /// Invisible rows must not use up the limit of rows.
    @Test
    void limitCountingInvisibleRowsIsDetected() {
        Transaction open = manager.begin(Isolation.SNAPSHOT);
        open.put(rows, Bytes.of("a"), VALUE, Bytes.of("open"));
        open.write();
        put(manager, rows, "b", "1");
        try (Transaction right = manager.begin(Isolation.SNAPSHOT);
                Transaction wrong = world.manager(Fault.LIMIT_BEFORE_VISIBILITY).begin(Isolation.SNAPSHOT)) {
            assertEquals(List.of("1"), texts(right, Scan.ALL.withLimit(1)));
            assertEquals(List.of(), texts(wrong, Scan.ALL.withLimit(1)));
        }
    }

    private static String key(int number) {
        return String.format("k%04d", number);
    }

    private List<String> texts(Transaction transaction, Scan scan) {
        try (Rows found = transaction.scan(rows, scan)) {
            return found.toList().stream()
                    .map(row -> row.get(VALUE).orElseThrow().toText())
                    .toList();
        }
    }

    /// Both read both rows, each writes one.
    private boolean bothCommit(TransactionManager manager, Isolation isolation, Table table) {
        Transaction first = manager.begin(isolation);
        Transaction second = manager.begin(isolation);
        for (Transaction each : List.of(first, second)) {
            get(each, table, "a");
            get(each, table, "b");
        }
        first.put(table, Bytes.of("a"), VALUE, Bytes.of("x"));
        second.put(table, Bytes.of("b"), VALUE, Bytes.of("x"));
        first.commit();
        try {
            second.commit();
            return true;
        } catch (AbortedException aborted) {
            return false;
        }
    }

    /// O9.
    @Test
    void writeSkewPassesSnapshotIsolationOnly() {
        for (Table table : List.of(rows, world.cells)) {
            assertTrue(bothCommit(manager, Isolation.SNAPSHOT, table));
            assertFalse(bothCommit(manager, Isolation.SERIALISABLE, table));
            assertTrue(
                    bothCommit(world.manager(Fault.FORGET_READS), Isolation.SERIALISABLE, table), "would be noticed");
        }
    }

    /// Each counts the rows of a table, and adds one where the other has none.
    private boolean bothAdd(TransactionManager manager, Isolation isolation, Table table) {
        String prefix = "" + manager.begin(isolation).start().value(); // unused rows
        KeyRange range = new KeyRange(Bytes.of(prefix), Bytes.of(prefix + "z"));
        Transaction first = manager.begin(isolation);
        Transaction second = manager.begin(isolation);
        for (Transaction each : List.of(first, second)) {
            try (Rows found = each.scan(table, Scan.ALL.withRange(range))) {
                assertEquals(List.of(), found.toList());
            }
        }
        first.put(table, Bytes.of(prefix + "a"), VALUE, Bytes.of("x"));
        second.put(table, Bytes.of(prefix + "b"), VALUE, Bytes.of("x"));
        first.commit();
        try {
            second.commit();
            return true;
        } catch (AbortedException aborted) {
            return false;
        }
    }

    /// O9: a phantom is write skew with a row that was not there.
    @Test
    void phantomsAreSnapshotIsolationAndNotSerialisable() {
        for (Table table : List.of(rows, world.cells)) {
            assertTrue(bothAdd(manager, Isolation.SNAPSHOT, table));
            assertFalse(bothAdd(manager, Isolation.SERIALISABLE, table));
            for (Fault fault : List.of(Fault.FORGET_SCANS, Fault.FORGET_KEYS)) {
                assertTrue(bothAdd(world.manager(fault), Isolation.SERIALISABLE, table), "would be noticed");
            }
        }
    }

    /// Whether a serialisable transaction that scans commits, if a transaction under snapshot isolation writes
    /// this row meanwhile.
    private boolean commitsBeside(Scan scan, int returned, String written) {
        Transaction reader = manager.begin(Isolation.SERIALISABLE);
        try (Rows found = reader.scan(rows, scan)) {
            for (int count = 0; count < returned; count++) {
                found.next();
            }
            put(manager, rows, written, "theirs");
            reader.put(rows, Bytes.of("z"), VALUE, Bytes.of("mine"));
            reader.commit();
            return true;
        } catch (AbortedException aborted) {
            return false;
        }
    }

    /// O9: what counts is what was looked at, by whichever transaction it was written.
    @Test
    void scanConflictsOnlyWithinItsReadRange() {
        for (String row : List.of("b", "d", "f")) {
            put(manager, rows, row, "x");
        }
        Scan scan = Scan.ALL.withRange(new KeyRange(Bytes.of("b"), Bytes.of("h")));
        assertTrue(commitsBeside(scan, 0, "c"), "nothing was looked at");
        assertFalse(commitsBeside(scan, 2, "bb"), "passed over");
        assertFalse(commitsBeside(scan, 2, "bb"), "returned");
        assertTrue(commitsBeside(scan, 2, "e"), "not reached");
        assertTrue(commitsBeside(scan, 1, "a"), "before it");
        assertTrue(commitsBeside(scan.withLimit(1), 1, "ba"), "behind the limit");
        assertTrue(commitsBeside(scan.reversed(), 0, "c"), "nothing was looked at");
        assertFalse(commitsBeside(scan.reversed(), 1, "g"), "passed over");
        assertFalse(commitsBeside(scan.reversed(), 2, "f"), "returned");
        assertTrue(commitsBeside(scan.reversed(), 1, "da"), "not reached");
        assertTrue(commitsBeside(scan.reversed(), 3, "h"), "behind it");
        Scan none = scan.withFilter(row -> false);
        try (Transaction reader = manager.begin(Isolation.SERIALISABLE)) {
            assertFalse(reader.scan(rows, none).hasNext());
            put(manager, rows, "gg", "theirs");
            reader.put(rows, Bytes.of("z"), VALUE, Bytes.of("mine"));
            assertThrows(AbortedException.class, reader::commit, "looked at, and not returned");
        }
    }

    /// O9: a whole row where cells conflict is a range with one key.
    @Test
    void addedColumnAbortsSerialisableReader() {
        Transaction reader = manager.begin(Isolation.SERIALISABLE);
        reader.get(world.cells, Bytes.of("a"));
        reader.put(world.cells, Bytes.of("z"), VALUE, Bytes.of("mine"));
        manager.runInTransaction(Isolation.SNAPSHOT, transaction -> {
            transaction.put(world.cells, Bytes.of("a"), OTHER, Bytes.of("theirs"));
            return null;
        });
        assertThrows(AbortedException.class, reader::commit);
    }

    /// More ranges than a commit carries become one, and their keys are checked all the same.
    @Test
    void manyScans() {
        for (String written : List.of("099", "100", "150", "298", "300")) {
            Transaction reader = manager.begin(Isolation.SERIALISABLE);
            for (int row = 100; row < 300; row += 2) {
                KeyRange range = new KeyRange(Bytes.of("" + row), Bytes.of("" + (row + 1)));
                assertTrue(reader.scan(rows, Scan.ALL.withRange(range)).toList().size() <= 1);
            }
            put(manager, rows, written, "theirs");
            reader.put(rows, Bytes.of("z"), VALUE, Bytes.of("mine"));
            if (written.equals("099") || written.equals("300")) {
                reader.commit();
            } else {
                assertThrows(AbortedException.class, reader::commit, written);
            }
        }
    }

    @Test
    void uncheckableOperationIsRefused() {
        world.store.create("unchecked", Granularity.CELL, false);
        Table unchecked = world.only("unchecked");
        try (Transaction transaction = manager.begin(Isolation.SERIALISABLE)) {
            assertThrows(UnsupportedOperationException.class, () -> transaction.scan(unchecked, Scan.ALL));
            assertThrows(UnsupportedOperationException.class, () -> transaction.get(unchecked, Bytes.of("a")));
            assertThrows(UnsupportedOperationException.class, () -> transaction.delete(unchecked, Bytes.of("a")));
            assertTrue(transaction.get(unchecked, Bytes.of("a"), VALUE).isEmpty());
            transaction.put(rows, Bytes.of("k".repeat(1 << 15)), VALUE, Bytes.of("x"));
            assertThrows(IllegalArgumentException.class, transaction::commit);
            assertEquals(Transaction.State.OPEN, transaction.state());
        }
    }

    @Test
    void workIsRunAgainUntilItCommits() {
        AtomicInteger runs = new AtomicInteger();
        TransactionManager quick = new TransactionManager(
                world.oracle,
                world.tables,
                TransactionManager.Options.DEFAULTS
                        .withAttempts(3)
                        .withBackOff(Duration.ofNanos(1), Duration.ofNanos(1)));
        TransactionManager.Work<Integer> disturbed = transaction -> {
            transaction.put(rows, Bytes.of("a"), VALUE, Bytes.of("mine"));
            if (runs.incrementAndGet() < 3) {
                put(manager, rows, "a", "theirs");
            }
            return runs.get();
        };
        assertEquals(3, quick.runInTransaction(Isolation.SNAPSHOT, disturbed));
        assertEquals("mine", see(manager, rows, "a"));
        runs.set(-9);
        assertThrows(AbortedException.class, () -> quick.runInTransaction(Isolation.SNAPSHOT, disturbed));
        assertEquals(-6, runs.get());
        assertEquals("theirs", see(manager, rows, "a"));
    }

    @Test
    void exceptionAborts() {
        IllegalStateException why = new IllegalStateException();
        assertSame(
                why,
                assertThrows(
                        IllegalStateException.class,
                        () -> manager.runInTransaction(Isolation.SNAPSHOT, transaction -> {
                            transaction.put(rows, Bytes.of("a"), VALUE, Bytes.of("x"));
                            throw why;
                        })));
        assertNull(see(manager, rows, "a"));
        assertEquals(0, world.contents().versions());
        StartTimestamp newest = world.oracle.begin();
        assertEquals(newest, world.oracle.lowWaterMark(), "nothing was left open");
    }

    /// Nothing of the write can arrive later: the transaction is cleaned up and forgotten.
    @Test
    void aWriteThatHasFailedAborts() {
        Transaction transaction = manager.begin(Isolation.SNAPSHOT);
        transaction.put(rows, Bytes.of("a"), VALUE, Bytes.of("x"));
        transaction.put(rows, Bytes.of("b"), VALUE, Bytes.of("x"));
        world.hook = (point, table, row, mutation) -> {
            if (mutation != null && row.equals(Bytes.of("b"))) { // nor would it take the clean-up
                throw new TableException(TableException.Effect.NONE, "full", null);
            }
        };
        assertThrows(TableException.class, transaction::commit);
        assertEquals(0, world.contents().versions());
        assertEquals(
                Outcome.Kind.UNKNOWN, world.oracle.resolve(transaction.start()).kind());
    }

    /// An error that no store throws ends a commit half-way.
    @Test
    void transactionInterruptedByErrorIsCleanedUp() {
        world.hook = (point, table, row, mutation) -> {
            if (point == HookedTables.Point.AFTER_MUTATE) {
                throw new StackOverflowError();
            }
        };
        StartTimestamp[] start = new StartTimestamp[1];
        assertThrows(
                StackOverflowError.class,
                () -> manager.runInTransaction(Isolation.SNAPSHOT, transaction -> {
                    start[0] = transaction.start();
                    transaction.put(rows, Bytes.of("a"), VALUE, Bytes.of("x"));
                    return null;
                }));
        assertEquals(0, world.contents().versions() + world.contents().pending());
        assertEquals(Outcome.Kind.ABORTED, world.oracle.resolve(start[0]).kind(), "a write may still come");
    }

    /// The commit was sent, and something was thrown before the answer came.
    @Test
    void lateAbortReportsCommittedState() {
        Transaction transaction = manager.begin(Isolation.SNAPSHOT);
        transaction.put(rows, Bytes.of("a"), VALUE, Bytes.of("x"));
        transaction.write();
        world.oracle.commit(transaction.start(), 1);
        transaction.close();
        assertEquals(Transaction.State.COMMITTED, transaction.state());
        assertEquals(0, world.contents().pending());
        assertEquals("x", see(manager, rows, "a"));
    }

    /// O4. A write fails, and arrives when all is over.
    private Outcome lateWrite(Fault fault) {
        Transaction transaction = world.manager(fault).begin(Isolation.SNAPSHOT);
        transaction.put(rows, Bytes.of("a"), VALUE, Bytes.of("x"));
        List<Mutation> late = new ArrayList<>();
        world.hook = (point, table, row, mutation) -> {
            if (point == HookedTables.Point.BEFORE_MUTATE) {
                late.add(mutation);
                throw new TableException(TableException.Effect.UNKNOWN, "no answer", null);
            }
        };
        assertThrows(TableException.class, transaction::commit);
        world.hook = (point, table, row, mutation) -> {};
        rows.mutate(Bytes.of("a"), late.getFirst());
        assertNull(see(manager, rows, "a"), "it has aborted");
        return world.oracle.resolve(transaction.start());
    }

    @Test
    void transactionWithUnknownWriteIsNotForgotten() {
        assertEquals(Outcome.Kind.ABORTED, lateWrite(Fault.NONE).kind());
        assertEquals(Outcome.Kind.UNKNOWN, lateWrite(Fault.CLEANED_IN_FLIGHT).kind(), "would be noticed");
        assertEquals(2, new Cleaner(world.oracle, world.tables).sweep().aborted());
        assertEquals(0, world.contents().versions() + world.contents().pending());
    }

    /// The clean-up of a committed transaction fails: the oracle must go on knowing it.
    @Test
    void uncleanedRowKeepsItsTransactionKnown() {
        for (Fault fault : List.of(Fault.NONE, Fault.CLEANED_IN_FLIGHT)) {
            AtomicBoolean fail = new AtomicBoolean(true);
            world.hook = (point, table, row, mutation) -> {
                if (World.isCleanUp(point, mutation) && fail.get()) {
                    throw new TableException(TableException.Effect.NONE, "no", null);
                }
            };
            put(world.manager(fault), rows, "a", fault.name());
            fail.set(false);
            assertEquals(fault == Fault.NONE, fault.name().equals(see(manager, rows, "a")));
        }
    }

    /// Between the reader's look at the row and its question, the writer cleans up and the oracle forgets.
    private String readWhileItIsCleaned(Fault fault) {
        World.Later later = new World.Later();
        put(world.manager(later, Fault.NONE), rows, "a", "x");
        Transaction reader = world.manager(fault).begin(Isolation.SNAPSHOT);
        world.hook = (point, table, row, mutation) -> {
            if (point == HookedTables.Point.AFTER_READ && !later.tasks.isEmpty()) {
                later.runOne();
                world.oracle.lowWaterMark(); // behind `cleaned` on the same connection
            }
        };
        return get(reader, rows, "a");
    }

    @Test
    void rowCleanedMeanwhileIsReadAgain() {
        assertEquals("x", readWhileItIsCleaned(Fault.NONE));
        world.hook = (point, table, row, mutation) -> {};
        manager.runInTransaction(Isolation.SNAPSHOT, transaction -> {
            transaction.delete(rows, Bytes.of("a"));
            return null;
        });
        assertNull(readWhileItIsCleaned(Fault.NO_SECOND_READ), "would be noticed");
    }

    /// A reader that began between a writer's start and its commit.
    private String readBetween(Fault fault) {
        put(manager, rows, "a", "before");
        Transaction writer = world.manager(World.NEVER, Fault.NONE).begin(Isolation.SNAPSHOT);
        writer.put(rows, Bytes.of("a"), VALUE, Bytes.of("after"));
        Transaction reader = world.manager(fault).begin(Isolation.SNAPSHOT);
        writer.commit();
        return get(reader, rows, "a");
    }

    @Test
    void commitTimestampsCount() {
        assertEquals("before", readBetween(Fault.NONE));
        assertEquals("after", readBetween(Fault.START_FOR_COMMIT), "would be noticed");
    }

    /// Two writers of a row send different ids to the oracle: the last to commit is visible, not the last to
    /// begin.
    @Test
    void theLargestCommitTimestampIsSeen() {
        StartTimestamp first = world.oracle.begin();
        StartTimestamp second = world.oracle.begin();
        for (StartTimestamp start : List.of(first, second)) {
            rows.mutate(
                    Bytes.of("a"),
                    Mutations.write(
                            start.value(),
                            java.util.Map.of(
                                    VALUE, Values.stored(Bytes.of(start.equals(first) ? "first" : "second")))));
        }
        world.oracle.commit(second, 1);
        world.oracle.commit(first, 2);
        assertEquals("first", see(manager, rows, "a"));
        assertEquals("second", see(world.manager(Fault.LARGEST_START), rows, "a"), "would be noticed");
    }

    @Test
    void closedClientLeavesResolvableOutcome() {
        var dying = world.client();
        Transaction transaction = new TransactionManager(dying, world.tables).begin(Isolation.SNAPSHOT);
        transaction.put(rows, Bytes.of("a"), VALUE, Bytes.of("x"));
        dying.close();
        OutcomeUnknownException unknown = assertThrows(OutcomeUnknownException.class, transaction::commit);
        assertEquals(transaction.start(), unknown.start());
        assertEquals(Transaction.State.UNKNOWN, transaction.state());
        assertThrows(OutcomeUnknownException.class, transaction::resolve);
        assertEquals(
                Outcome.Kind.ABORTED, world.oracle.resolve(transaction.start()).kind());
        assertNull(see(manager, rows, "a"));
    }

    @Test
    void refusedCommitLeavesNothing() {
        try (World small = new World(store(), 2, new VolatileLog())) {
            Transaction transaction = small.manager(Fault.FORGET_LIMIT).begin(Isolation.SNAPSHOT);
            for (String row : List.of("a", "b", "c")) {
                transaction.put(small.rows, Bytes.of(row), VALUE, Bytes.of("x"));
            }
            assertThrows(RefusedException.class, transaction::commit);
            assertEquals(Transaction.State.ABORTED, transaction.state());
            assertEquals(0, small.contents().rows());
        }
    }

    /// No answer comes to the commit, nor to the question after it; later one does.
    @Test
    void lostOutcomeIsRequestedAgain() {
        HeldLog log = new HeldLog();
        try (World silent = new World(store(), 10, log)) {
            Transaction transaction = new TransactionManager(
                            silent.client(Duration.ofSeconds(2)), silent.tables, World.PROMPT)
                    .begin(Isolation.SNAPSHOT);
            transaction.put(silent.rows, Bytes.of("a"), VALUE, Bytes.of("x"));
            log.hold();
            assertThrows(OutcomeUnknownException.class, transaction::commit);
            assertEquals(Transaction.State.UNKNOWN, transaction.state());
            assertEquals(1, silent.contents().pending(), "the outcome is not guessed");
            log.go();
            assertEquals(Transaction.State.COMMITTED, transaction.resolve());
            assertEquals(0, silent.contents().pending());
            assertEquals("x", see(silent.manager(), silent.rows, "a"));
        }
    }

    /// The same of one that has only read: the oracle remembers nothing of it, and it may end twice.
    @Test
    void lostEndIsRequestedAgain() {
        HeldLog log = new HeldLog();
        try (World silent = new World(store(), 10, log)) {
            Transaction transaction = new TransactionManager(silent.client(Duration.ofSeconds(2)), silent.tables)
                    .begin(Isolation.SNAPSHOT);
            log.hold();
            assertThrows(OutcomeUnknownException.class, transaction::commit);
            log.go();
            assertEquals(Transaction.State.COMMITTED, transaction.resolve());
        }
    }
}
