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

import cedrat.oracle.client.CommitTimestamp;
import cedrat.oracle.client.StartTimestamp;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/// O7e and O7j: how many versions a snapshot reads, and that these are enough.
public abstract class VersionsContract {
    private static final int VERSIONS = 1000;
    private static final Bytes ROW = Bytes.of("a");

    private World world;
    private TransactionManager manager;
    private Table rows;

    /// For those who have a store.
    protected VersionsContract() {}

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

    /// Stores a version that is committed and cleaned, as fast as the store permits.
    private void commit(Column column, String value) {
        StartTimestamp start = world.oracle.begin();
        rows.mutate(ROW, Mutations.write(start.value(), Map.of(column, Values.stored(Bytes.of(value)))));
        CommitTimestamp commit = world.oracle.commit(start, 1).commitTimestamp();
        rows.mutateIfMarked(ROW, start.value(), Mutations.stamp(start.value(), commit));
        world.oracle.cleaned(List.of(start));
    }

    /// Stores a version of an open transaction.
    private StartTimestamp write(Column column, String value) {
        StartTimestamp start = world.oracle.begin();
        rows.mutate(ROW, Mutations.write(start.value(), Map.of(column, Values.stored(Bytes.of(value)))));
        return start;
    }

    private Table counted(CountingTables counting) {
        return counting.all().stream()
                .filter(table -> table.name().equals(rows.name()))
                .findFirst()
                .orElseThrow();
    }

    @Test
    void snapshotReadsNewestFewVersions() {
        for (int count = 0; count < VERSIONS; count++) {
            commit(VALUE, "v" + count);
        }
        CountingTables counting = new CountingTables(world.store.tables());
        Table counted = counted(counting);
        TransactionManager reader = new TransactionManager(world.oracle, counting);
        String newest = "v" + (VERSIONS - 1);
        List<String> counts = new ArrayList<>();
        reader.runInTransaction(Isolation.SNAPSHOT, transaction -> {
            assertEquals(newest, get(transaction, counted, "a"));
            counts.add("get " + counting.takeCounts());
            List<Row> several = transaction.get(counted, List.of(ROW, Bytes.of("none")), Set.of(VALUE));
            assertEquals(newest, several.get(0).get(VALUE).orElseThrow().toText());
            counts.add("several " + counting.takeCounts());
            assertEquals(1, transaction.scan(counted, Scan.ALL).toList().size());
            counts.add("scan " + counting.takeCounts());
            return null;
        });
        assertEquals(List.of("get cells 8 calls 1", "several cells 8 calls 1", "scan cells 8 calls 1"), counts, "O7j");
    }

    /// A snapshot that is older than many versions: the store passes over them.
    @Test
    void oldSnapshotReadsItsVersion() {
        commit(VALUE, "old");
        Transaction reader = manager.begin(Isolation.SNAPSHOT);
        StartTimestamp early = write(VALUE, "early");
        for (int count = 0; count < 10; count++) {
            commit(VALUE, "new");
        }
        assertEquals("old", get(reader, rows, "a"));
        assertEquals("new", see(manager, rows, "a"));
        reader.abort();
        world.oracle.resolve(early);
    }

    private void assertReadsBehindUncommitted(int count) {
        commit(VALUE, "old");
        List<StartTimestamp> open = new ArrayList<>();
        for (int each = 0; each < count; each++) {
            open.add(write(VALUE, "uncommitted"));
        }
        assertEquals("old", see(manager, rows, "a"));
        manager.runInTransaction(Isolation.SNAPSHOT, transaction -> {
            assertEquals(
                    "old",
                    transaction
                            .get(rows, List.of(ROW), Set.of())
                            .get(0)
                            .get(VALUE)
                            .orElseThrow()
                            .toText());
            for (Row row : transaction.scan(rows, Scan.ALL).toList()) {
                assertEquals("old", row.get(VALUE).orElseThrow().toText());
            }
            return null;
        });
        assertNull(see(world.manager(Fault.FEW_VERSIONS), rows, "a"), "would be noticed");
        open.forEach(world.oracle::resolve);
        assertEquals("old", see(manager, rows, "a"), "they have aborted");
    }

    @Test
    void uncommittedVersionsAreReadPast() {
        assertReadsBehindUncommitted(5);
    }

    @Test
    void hundredUncommittedVersionsAreReadPast() {
        assertReadsBehindUncommitted(100);
    }

    /// A transaction that has begun before the reader, and commits after it began.
    @Test
    void versionsCommittedAboveSnapshotAreReadPast() {
        commit(VALUE, "old");
        List<StartTimestamp> open = new ArrayList<>();
        for (int each = 0; each < 8; each++) {
            open.add(write(VALUE, "above"));
        }
        Transaction reader = manager.begin(Isolation.SNAPSHOT);
        for (int each = 0; each < open.size(); each++) {
            world.oracle.commit(open.get(each), 100 + each);
        }
        assertEquals("old", get(reader, rows, "a"));
        assertEquals("above", see(manager, rows, "a"));
        reader.abort();
    }

    /// The markers of other columns' writers are newer than the one that matters.
    @Test
    void markerOfRarelyWrittenColumnIsRead() {
        StartTimestamp open = write(OTHER, "uncommitted");
        for (int count = 0; count < 10; count++) {
            commit(VALUE, "v");
        }
        assertEquals(1, read(manager).size());
        assertEquals(2, read(world.manager(Fault.FEW_STAMPS)).size(), "would be noticed");
        world.oracle.commit(open, 100);
        assertEquals(2, read(manager).size());
    }

    private Map<Column, Bytes> read(TransactionManager with) {
        return with.runInTransaction(
                Isolation.SNAPSHOT, transaction -> transaction.get(rows, ROW).cells());
    }

    /// A deleted cell of which only the newest versions are read does not come back.
    @Test
    void newestDeleteHidesOlderVersions() {
        for (int count = 0; count < 10; count++) {
            put(manager, rows, "a", "v" + count);
        }
        manager.runInTransaction(Isolation.SNAPSHOT, transaction -> {
            transaction.delete(rows, ROW, VALUE);
            return null;
        });
        TransactionManager dying = world.manager(NEVER, Fault.NONE);
        assertNull(see(dying, rows, "a"));
        assertEquals(0, read(manager).size());
    }

    /// Only the columns with the prefix are read, and their markers with them.
    @Test
    void scanReadsColumnsWithPrefix() {
        int others = 100;
        manager.runInTransaction(Isolation.SNAPSHOT, transaction -> {
            for (int count = 0; count < others; count++) {
                transaction.put(rows, ROW, Column.of("f", "other" + count), Bytes.of("x"));
                transaction.put(rows, Bytes.of("b" + count), OTHER, Bytes.of("x"));
            }
            transaction.put(rows, ROW, VALUE, Bytes.of("old"));
            return null;
        });
        Scan scan = Scan.ALL.withColumnPrefixes(Set.of(Column.of("f", "val")));
        CountingTables counting = new CountingTables(world.store.tables());
        Table table = counted(counting);
        List<StartTimestamp> open = new ArrayList<>();
        for (int writers : List.of(1, 10)) {
            while (open.size() < writers) {
                open.add(write(VALUE, "uncommitted"));
            }
            for (Scan each : List.of(scan, scan.reversed())) {
                TransactionManager reader = new TransactionManager(world.oracle, counting);
                try (Transaction transaction = reader.begin(Isolation.SNAPSHOT)) {
                    transaction.put(table, Bytes.of("own"), OTHER, Bytes.of("x"));
                    transaction.put(table, Bytes.of("own"), Column.of("f", "val"), Bytes.of("y"));
                    List<Row> found = transaction.scan(table, each).toList();
                    assertEquals(2, found.size());
                    Row row = found.get(each.isReversed() ? 1 : 0);
                    assertEquals(Map.of(VALUE, Bytes.of("old")), row.cells());
                    assertEquals(1, found.get(each.isReversed() ? 0 : 1).cells().size());
                }
            }
            if (writers == 1) {
                // A store may return the commit timestamps of rows without such a column.
                assertTrue(counting.cells.get() <= 2 * (others + 4), counting.takeCounts());
            }
        }
        open.forEach(world.oracle::resolve);
    }
}
