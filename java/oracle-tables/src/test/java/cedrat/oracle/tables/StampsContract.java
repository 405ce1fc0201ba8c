package cedrat.oracle.tables;

import static cedrat.oracle.tables.World.NEVER;
import static cedrat.oracle.tables.World.OTHER;
import static cedrat.oracle.tables.World.VALUE;
import static cedrat.oracle.tables.World.get;
import static cedrat.oracle.tables.World.put;
import static cedrat.oracle.tables.World.see;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cedrat.oracle.client.OracleClient;
import cedrat.oracle.client.Outcome;
import cedrat.oracle.client.StartTimestamp;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/// Commit timestamps in rows: they replace markers, and pruners remove them.
public abstract class StampsContract {
    private static final HookedTables.Hook NOTHING = (point, table, row, mutation) -> {};

    private World world;
    private TransactionManager manager;
    private Table rows;
    private Pruner pruner;

    /// For those who have a store.
    protected StampsContract() {}

    /// A fresh store.
    protected abstract TestStore store();

    @BeforeEach
    void open() {
        world = new World(store());
        manager = world.manager();
        rows = world.rows;
        pruner = new Pruner(world.oracle, world.tables);
    }

    @AfterEach
    void close() {
        world.close();
    }

    // ---- what is written
    // --------------------------------------------------------------------------------------------

    /// O7g.
    @Test
    void transactionWritesValuesOnceAndRemovesNothing() {
        put(manager, rows, "a", "before");
        List<Mutation> all = new ArrayList<>();
        world.hook = (point, table, row, mutation) -> {
            boolean isBefore =
                    point == HookedTables.Point.BEFORE_MUTATE || point == HookedTables.Point.BEFORE_MUTATE_IF_MARKED;
            if (isBefore) {
                all.add(mutation);
            }
        };
        manager.runInTransaction(Isolation.SNAPSHOT, transaction -> {
            for (String row : List.of("a", "b")) {
                transaction.put(rows, Bytes.of(row), VALUE, Bytes.of("x"));
                transaction.put(rows, Bytes.of(row), OTHER, Bytes.of("y"));
            }
            return null;
        });
        world.hook = NOTHING;
        assertEquals(4, all.stream().mapToInt(each -> each.puts().size()).sum());
        assertEquals(2, all.stream().mapToInt(each -> each.marks().size()).sum());
        assertEquals(2, all.stream().mapToInt(each -> each.stamps().size()).sum(), "one of all columns of a row");
        for (Mutation each : all) {
            assertEquals(
                    0,
                    each.erasures().size() + each.cuts().size() + each.unmarks().size());
        }
        assertEquals(new Contents(2, 5, 0, 3), world.contents());
        pruner.prune();
        assertEquals(new Contents(2, 4, 0, 0), world.contents());
    }

    // ---- what is read
    // -----------------------------------------------------------------------------------------------

    /// Commits and stamps a write while a reader is open that began after its writer: the reader keeps open.
    private Transaction readerWithin(Fault fault) {
        put(manager, rows, "a", "before");
        Transaction writer = manager.begin(Isolation.SNAPSHOT);
        writer.put(rows, Bytes.of("a"), VALUE, Bytes.of("after"));
        Transaction reader = world.manager(fault).begin(Isolation.SNAPSHOT);
        writer.commit();
        assertEquals(0, world.contents().pending());
        return reader;
    }

    @Test
    void stampedVersionIsVisibleFromItsCommit() {
        try (Transaction reader = readerWithin(Fault.NONE)) {
            assertEquals("before", get(reader, rows, "a"));
            assertEquals("after", see(manager, rows, "a"));
        }
        try (Transaction wrong = readerWithin(Fault.START_FOR_COMMIT)) {
            assertEquals("after", get(wrong, rows, "a"), "would be noticed");
        }
    }

    /// O7h, P1: the writer began below the mark, and has committed above it.
    @Test
    void versionCommittedAboveTheMarkKeepsStamp() {
        try (Transaction reader = readerWithin(Fault.NONE)) {
            assertEquals(new Pruner.Pruned(reader.start().value(), 1, 0), pruner.prune());
            assertEquals(new Contents(1, 2, 0, 1), world.contents());
            assertEquals("before", get(reader, rows, "a"));
            assertEquals("after", see(manager, rows, "a"));
            new Pruner(world.oracle, world.tables, Fault.SETTLE_ABOVE_THE_MARK).prune();
            assertEquals("after", get(reader, rows, "a"), "would be noticed");
        }
        assertEquals(1, pruner.prune().versions());
        assertEquals(new Contents(1, 1, 0, 0), world.contents());
        assertEquals("after", see(manager, rows, "a"));
    }

    /// Writes a row as a transaction does whose client sends another id for it: nothing conflicts with it.
    private StartTimestamp written(String row, String value) {
        StartTimestamp start = world.oracle.begin();
        rows.mutate(Bytes.of(row), Mutations.write(start.value(), Map.of(VALUE, Values.stored(Bytes.of(value)))));
        return start;
    }

    private Mutation stamp(StartTimestamp start, Outcome outcome) {
        return Mutations.stamp(start.value(), outcome.commitTimestamp());
    }

    /// Of two writers that ran side by side the last to begin is the first to commit. No granularity allows that;
    /// what is pruned does not depend on it.
    private void commitInOppositeOrder(boolean isFirstStamped, boolean isSecondStamped) {
        StartTimestamp first = written("a", "first");
        StartTimestamp second = written("a", "second");
        Outcome ofSecond = world.oracle.commit(second, 1);
        Outcome ofFirst = world.oracle.commit(first, 2);
        if (isSecondStamped) {
            assertTrue(rows.mutateIfMarked(Bytes.of("a"), second.value(), stamp(second, ofSecond)));
        }
        if (isFirstStamped) {
            assertTrue(rows.mutateIfMarked(Bytes.of("a"), first.value(), stamp(first, ofFirst)));
        }
    }

    /// P1.
    @Test
    void newestCommitStaysBelowOlderStart() {
        put(manager, rows, "a", "before");
        commitInOppositeOrder(true, true);
        assertEquals("first", see(manager, rows, "a"));
        assertEquals(2, pruner.prune().versions());
        assertEquals("first", see(manager, rows, "a"));
        assertEquals(new Contents(1, 1, 0, 0), world.contents());
    }

    /// P4.
    @Test
    void markerBelowTheMarkKeepsStamps() {
        for (boolean isFirst : List.of(true, false)) {
            commitInOppositeOrder(isFirst, !isFirst);
            pruner.prune();
            assertEquals(1, world.contents().stamps());
            assertEquals("first", see(manager, rows, "a"));
            assertEquals(1, new Cleaner(world.oracle, world.tables).sweep().committed());
            assertEquals("first", see(manager, rows, "a"));
            pruner.prune();
            assertEquals(new Contents(1, 1, 0, 0), world.contents());
            assertEquals("first", see(manager, rows, "a"));
        }
    }

    // ---- what comes late
    // --------------------------------------------------------------------------------------------

    /// O4d: the write of a forgotten transaction arrives below versions that were pruned, stamps and all.
    @Test
    void lateWriteBelowPrunedStampsIsInvisible() {
        List<StartTimestamp> late = new ArrayList<>();
        for (String value : List.of("1", "2", "3")) {
            late.add(world.oracle.begin());
            put(manager, rows, "a", value);
            put(manager, rows, "b", value);
            manager.runInTransaction(Isolation.SNAPSHOT, transaction -> {
                transaction.delete(rows, Bytes.of("b"), VALUE);
                return null;
            });
        }
        late.forEach(world.oracle::abort);
        world.oracle.cleaned(late);
        pruner.prune();
        assertEquals(new Contents(1, 1, 0, 0), world.contents());
        for (StartTimestamp start : late) {
            for (String row : List.of("a", "b")) {
                Map<Column, Bytes> ghosts =
                        Map.of(VALUE, Values.stored(Bytes.of("ghost")), OTHER, Values.stored(Bytes.EMPTY));
                rows.mutate(Bytes.of(row), Mutations.write(start.value(), ghosts));
                try (Transaction reader = manager.begin(Isolation.SNAPSHOT)) {
                    Map<Column, Bytes> cells = row.equals("a") ? Map.of(VALUE, Bytes.of("3")) : Map.of();
                    assertEquals(cells, reader.get(rows, Bytes.of(row)).cells());
                }
            }
        }
        pruner.prune();
        assertEquals("3", see(manager, rows, "a"));
        assertNull(see(manager, rows, "b"));
        assertEquals(6, new Cleaner(world.oracle, world.tables).sweep().aborted());
        assertEquals(new Contents(1, 1, 0, 0), world.contents());
    }

    /// Commits a write of which the clean-up waits, and completes it by a sweep, as another client does.
    private World.Later commitAndSweep(String value) {
        World.Later waiting = new World.Later();
        put(world.manager(waiting, Fault.NONE), rows, "a", value);
        assertEquals(1, new Cleaner(world.oracle, world.tables).sweep().committed());
        return waiting;
    }

    private int scanned() {
        try (Transaction reader = manager.begin(Isolation.SNAPSHOT);
                Rows all = reader.scan(rows, Scan.ALL)) {
            return all.toList().size();
        }
    }

    /// O7k: the version was replaced and pruned.
    @Test
    void lateStampOfPrunedVersionIsOrphan() {
        World.Later waiting = commitAndSweep("old");
        put(manager, rows, "a", "new");
        pruner.prune();
        world.store.compact();
        assertEquals(new Contents(1, 1, 0, 0), world.contents());
        waiting.runOne();
        assertEquals(new Contents(1, 1, 0, 1), world.contents());
        assertEquals("new", see(manager, rows, "a"));
        assertEquals(0, new Cleaner(world.oracle, world.tables).sweep().rows());
        put(manager, rows, "a", "newest");
        assertEquals("newest", see(manager, rows, "a"));
        pruner.prune();
        assertEquals(new Contents(1, 1, 0, 0), world.contents());
        assertEquals("newest", see(manager, rows, "a"));
    }

    /// O7k: the version stays, and its commit timestamp was pruned.
    @Test
    void lateStampOfSettledVersionIsTrue() {
        World.Later waiting = commitAndSweep("x");
        pruner.prune();
        world.store.compact();
        waiting.runOne();
        assertEquals(new Contents(1, 1, 0, 1), world.contents());
        assertEquals("x", see(manager, rows, "a"));
        pruner.prune();
        assertEquals(new Contents(1, 1, 0, 0), world.contents());
        assertEquals("x", see(manager, rows, "a"));
    }

    /// O7k: the row was deleted, pruned, and then written by another.
    @Test
    void lateStampOfDeletedRowIsOrphan() {
        World.Later waiting = commitAndSweep("ghost");
        manager.runInTransaction(Isolation.SNAPSHOT, transaction -> {
            transaction.delete(rows, Bytes.of("a"));
            return null;
        });
        pruner.prune();
        world.store.compact();
        assertEquals(0, world.contents().rows());
        waiting.runOne();
        assertEquals(new Contents(1, 0, 0, 1), world.contents());
        assertNull(see(manager, rows, "a"));
        assertEquals(0, scanned());
        assertEquals(0, new Cleaner(world.oracle, world.tables).sweep().rows());
        put(manager, rows, "a", "new");
        assertEquals("new", see(manager, rows, "a"));
        manager.runInTransaction(Isolation.SNAPSHOT, transaction -> {
            transaction.delete(rows, Bytes.of("a"));
            return null;
        });
        pruner.prune();
        assertEquals(0, world.contents().rows());
    }

    /// O7k: a client and a sweep clean up at the same time, in either order.
    @Test
    void twoCleanersWriteTheSame() {
        for (HookedTables.Point held : List.of(HookedTables.Point.BEFORE_MUTATE, HookedTables.Point.AFTER_MUTATE)) {
            world.hook = (point, table, row, mutation) -> {
                if (point == held && !mutation.stamps().isEmpty()) {
                    world.hook = NOTHING;
                    boolean isFirst = held == HookedTables.Point.BEFORE_MUTATE;
                    assertEquals(
                            isFirst ? 1 : 0,
                            new Cleaner(world.oracle, world.tables).sweep().committed());
                }
            };
            put(manager, rows, "a", held.name());
            assertEquals(held.name(), see(manager, rows, "a"));
        }
        assertEquals(new Contents(1, 2, 0, 2), world.contents());
        pruner.prune();
        assertEquals(new Contents(1, 1, 0, 0), world.contents());
    }

    /// O7k: an orphan below the mark of a reader that is open, and markers of another row's writer beside it.
    @Test
    void orphansHideNoVersionFromReaders() {
        List<World.Later> all = new ArrayList<>();
        for (int count = 0; count < 10; count++) {
            all.add(commitAndSweep("" + count));
        }
        pruner.prune();
        world.store.compact();
        put(manager, rows, "a", "last");
        try (Transaction reader = manager.begin(Isolation.SNAPSHOT)) {
            all.forEach(World.Later::runOne);
            assertEquals(new Contents(1, 2, 0, 11), world.contents());
            assertEquals("last", get(reader, rows, "a"));
            put(manager, rows, "a", "after");
            pruner.prune();
            assertEquals("last", get(reader, rows, "a"));
        }
        assertEquals("after", see(manager, rows, "a"));
        pruner.prune();
        assertEquals(new Contents(1, 1, 0, 0), world.contents());
    }

    /// K2: a cleaner has read the marker, and asks the oracle when others have stamped the row, and the oracle has
    /// forgotten its writer: what is forgotten is taken for aborted.
    private String cleanWhatIsForgotten(Fault fault) {
        put(world.manager(NEVER, Fault.NONE), rows, "a", fault.name());
        Thread held = Thread.currentThread();
        long start =
                rows.read(Bytes.of("a"), Set.of(), Long.MAX_VALUE).pending().first();
        world.hook = (point, table, row, mutation) -> {
            if (point == HookedTables.Point.AFTER_READ && table.equals(rows) && Thread.currentThread() == held) {
                world.hook = NOTHING;
                assertEquals(1, new Cleaner(world.oracle, world.tables).sweep().committed());
                assertEquals(1, world.oracle.cleaned(List.of(new StartTimestamp(start))));
            }
        };
        assertEquals(
                0,
                new Cleaner(world.oracle, world.tables, System::nanoTime, fault)
                        .sweep()
                        .committed());
        return see(manager, rows, "a");
    }

    @Test
    void delayedCleanerErasesNothing() {
        assertEquals("NONE", cleanWhatIsForgotten(Fault.NONE));
        assertEquals(
                "NONE", cleanWhatIsForgotten(Fault.UNCHECKED_CLEANER), "it erases the new version: would be noticed");
    }

    // ---- crashes
    // ----------------------------------------------------------------------------------------------------

    /// Is not caught where clients expect failures.
    private static final class Death extends Error {
        private static final long serialVersionUID = 1L;
    }

    /// Ends all calls of this thread to the store from a certain one on, before it or after it.
    private static final class Crash implements HookedTables.Hook {
        private final Thread victim = Thread.currentThread();
        private int steps;

        Crash(int step) {
            steps = step;
        }

        @Override
        public void reached(HookedTables.Point point, Table table, Bytes row, Mutation mutation) {
            if (Thread.currentThread() == victim && --steps < 0) {
                throw new Death();
            }
        }

        boolean hasHappened() {
            return steps < 0;
        }
    }

    /// Runs something up to a crash. Returns whether it has come to its end.
    private boolean survives(int step, Runnable work) {
        Crash crash = new Crash(step);
        world.hook = crash;
        try {
            work.run();
        } catch (Death happened) {
            return false;
        } finally {
            world.hook = NOTHING;
        }
        return !crash.hasHappened();
    }

    private static void putBoth(TransactionManager client, Table table, String value) {
        client.runInTransaction(Isolation.SNAPSHOT, transaction -> {
            for (String row : List.of("a", "b")) {
                transaction.put(table, Bytes.of(row), VALUE, Bytes.of(value));
                transaction.put(table, Bytes.of(row), OTHER, Bytes.of(value));
            }
            return null;
        });
    }

    /// A client that dies at a step, and a cleaner and a pruner that do.
    private boolean dieAt(int step, int cleanerStep, int prunerStep) {
        String value = step + "," + cleanerStep + "," + prunerStep;
        String before = see(manager, rows, "a");
        OracleClient dying = world.client();
        CleanUps none = new CleanUps(dying, world.tables, (delay, work) -> {}, System::nanoTime);
        TransactionManager mortal = new TransactionManager(
                dying, world.tables, TransactionManager.Options.DEFAULTS.withCleanUp(Runnable::run), none, Fault.NONE);
        boolean isAlive = survives(step, () -> putBoth(mortal, rows, value));
        dying.close();
        String after = see(manager, rows, "a");
        assertTrue(after.equals(value) || !isAlive && after.equals(before), after);
        survives(cleanerStep, () -> new Cleaner(world.oracle, world.tables).sweep());
        assertEquals(after, see(manager, rows, "b"));
        survives(prunerStep, pruner::prune);
        assertEquals(after, see(manager, rows, "b"));
        new Cleaner(world.oracle, world.tables).sweep();
        assertEquals(after, see(manager, rows, "a"));
        pruner.prune();
        assertEquals(new Contents(2, 4, 0, 0), world.contents());
        for (Column column : List.of(VALUE, OTHER)) {
            for (String row : List.of("a", "b")) {
                try (Transaction reader = manager.begin(Isolation.SNAPSHOT)) {
                    assertEquals(
                            after,
                            reader.get(rows, Bytes.of(row), column)
                                    .orElseThrow()
                                    .toText());
                }
            }
        }
        return isAlive;
    }

    /// O7: every step of a client, of a cleaner after it and of a pruner after that is the last one once.
    @Test
    void crashesBetweenStepsLoseNothing() {
        putBoth(manager, rows, "first");
        int steps = 0;
        while (!dieAt(steps, Integer.MAX_VALUE, Integer.MAX_VALUE)) {
            steps++;
        }
        assertTrue(steps >= 8, steps + " steps");
        for (int step = 0; step <= steps; step++) {
            for (int other = 0; other <= steps; other += world.store.scale() > 1 ? 4 : 1) {
                dieAt(step, other, steps - other);
            }
        }
    }
}
