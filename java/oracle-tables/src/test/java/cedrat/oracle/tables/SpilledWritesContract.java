package cedrat.oracle.tables;

import static cedrat.oracle.tables.World.OTHER;
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
import cedrat.oracle.client.RefusedException;
import cedrat.oracle.log.VolatileLog;
import cedrat.oracle.protocol.ErrorCode;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.stream.IntStream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/// O7m, O7n: transactions whose writes exceed their buffer, which has room for one row.
public abstract class SpilledWritesContract {
    private static final int ROWS = 40;

    /// For subclasses, which have a store.
    protected SpilledWritesContract() {}

    /// A fresh store.
    protected abstract TestStore store();

    @TempDir
    private Path folder;

    private World world;
    private TransactionManager manager;
    private Table rows;

    @BeforeEach
    void open() {
        world = new World(store());
        manager = spilling(world, world.oracle);
        rows = world.rows;
    }

    private TransactionManager spilling(World where, OracleClient oracle) {
        return new TransactionManager(
                oracle, where.tables, World.PROMPT.withWriteBufferBytes(0).withSpillDirectory(folder));
    }

    @AfterEach
    void close() throws IOException {
        world.close();
        requireNoFile();
    }

    private void requireNoFile() throws IOException {
        try (var left = Files.list(folder)) {
            assertEquals(List.of(), left.toList(), "temporary files have no names");
        }
    }

    private static Bytes key(int number) {
        return Bytes.of("k%03d".formatted(number));
    }

    private Transaction filled() {
        Transaction transaction = manager.begin(Isolation.SNAPSHOT);
        for (int number = 0; number < ROWS; number++) {
            transaction.put(rows, key(number), VALUE, Bytes.of("v" + number));
        }
        return transaction;
    }

    private static List<String> texts(Transaction transaction, Table table, Scan scan) {
        try (Rows found = transaction.scan(table, scan)) {
            return found.toList().stream()
                    .map(row -> row.get(VALUE).orElseThrow().toText())
                    .toList();
        }
    }

    private static List<String> values(IntStream numbers) {
        return numbers.mapToObj(number -> "v" + number).toList();
    }

    @Test
    void transactionReadsSpilledWrites() {
        put(manager, rows, "k005x", "stored");
        try (Transaction transaction = filled()) {
            assertEquals("v7", get(transaction, rows, "k007"));
            List<Row> some = transaction.get(rows, List.of(key(3), Bytes.of("k005x"), key(99)), Set.of(VALUE));
            assertEquals("v3", some.get(0).get(VALUE).orElseThrow().toText());
            assertEquals("stored", some.get(1).get(VALUE).orElseThrow().toText());
            assertTrue(some.get(2).isEmpty());
            transaction.delete(rows, Bytes.of("k005x"));
            transaction.delete(rows, key(0));
            transaction.put(rows, key(1), VALUE, Bytes.of("new"));
            transaction.put(rows, key(2), OTHER, Bytes.of("other"));
            transaction.delete(rows, key(3), VALUE);
            transaction.put(rows, key(0), VALUE, Bytes.of("again"));
            List<String> expected = new ArrayList<>(List.of("again", "new", "v2"));
            expected.addAll(values(IntStream.range(4, ROWS)));
            assertEquals(expected, texts(transaction, rows, Scan.ALL));
            assertEquals(expected.reversed(), texts(transaction, rows, Scan.ALL.reversed()));
            Scan ending = Scan.ALL.withFilter(
                    row -> row.get(VALUE).orElseThrow().toText().endsWith("9"));
            assertEquals(List.of("v9", "v19"), texts(transaction, rows, ending.withLimit(2)));
            assertEquals(2, transaction.get(rows, key(2)).cells().size());
            assertNull(see(manager, rows, "k007"), "others do not");
            transaction.commit();
        }
        assertEquals("again", see(manager, rows, "k000"));
        assertNull(see(manager, rows, "k003"));
        assertNull(see(manager, rows, "k005x"));
        assertEquals(0, world.contents().pending());
        assertEquals(ROWS + 3, world.contents().versions(), "each value is there once");
    }

    /// O7: each row is put once, even if the transaction writes to it before and after a spill.
    @Test
    void eachSpilledRowIsPutOnce() {
        Transaction transaction = filled();
        for (int number = 0; number < ROWS; number++) {
            transaction.put(rows, key(number), OTHER, Bytes.of("later"));
        }
        int[] puts = {0};
        world.hook = (point, table, row, mutation) -> {
            if (point == HookedTables.Point.BEFORE_MUTATE && !mutation.marks().isEmpty()) {
                puts[0]++;
                assertEquals(2, mutation.puts().size());
            }
        };
        assertEquals(new Contents(0, 0, 0, 0), world.contents(), "nothing is in the store before the commit");
        transaction.commit();
        assertEquals(ROWS, puts[0]);
    }

    @Test
    void scanReturnsOnlyEarlierWrites() {
        try (Transaction transaction = filled();
                Rows found = transaction.scan(rows, Scan.ALL)) {
            for (int number = 0; number < ROWS; number++) {
                assertEquals("v" + number, found.next().get(VALUE).orElseThrow().toText());
                transaction.put(rows, key(ROWS - 1 - number), VALUE, Bytes.of("later"));
                transaction.put(rows, key(ROWS + number), VALUE, Bytes.of("later"));
            }
            assertEquals(false, found.hasNext());
            assertEquals(2 * ROWS, texts(transaction, rows, Scan.ALL).size());
        }
    }

    @Test
    void savepointsRestoreSpilledWrites() {
        put(manager, rows, "k000", "stored");
        Transaction transaction = manager.begin(Isolation.SNAPSHOT);
        Savepoint begin = transaction.savepoint();
        for (int number = 0; number < ROWS; number++) {
            transaction.put(rows, key(number), VALUE, Bytes.of("v" + number));
        }
        Savepoint filled = transaction.savepoint();
        for (int number = 0; number < ROWS; number++) {
            transaction.put(rows, key(number), VALUE, Bytes.of("never"));
            transaction.put(rows, key(number + ROWS / 2), OTHER, Bytes.of("never"));
            transaction.delete(rows, key(number / 2));
        }
        transaction.rollBackTo(filled);
        assertEquals(values(IntStream.range(0, ROWS)), texts(transaction, rows, Scan.ALL));
        transaction.rollBackTo(begin);
        assertEquals(List.of("stored"), texts(transaction, rows, Scan.ALL));
        transaction.put(rows, key(1), VALUE, Bytes.of("last"));
        put(manager, rows, "k002", "of another"); // no conflict: that write was rolled back
        transaction.commit();
        assertEquals("stored", see(manager, rows, "k000"));
        assertEquals("last", see(manager, rows, "k001"));
        assertEquals("of another", see(manager, rows, "k002"));
        assertEquals(3, world.contents().versions());
    }

    @Test
    void abortOfSpilledWritesLeavesNothing() {
        filled().abort();
        assertEquals(new Contents(0, 0, 0, 0), world.contents());
        Transaction conflicting = filled();
        put(manager, rows, "k020", "another");
        AbortedException why = assertThrows(AbortedException.class, conflicting::commit);
        assertEquals(AbortReason.CONFLICT, why.reason());
        assertEquals(new Contents(1, 1, 0, 1), world.contents());
        Transaction failing = filled();
        world.hook = (point, table, row, mutation) -> {
            if (point == HookedTables.Point.BEFORE_MUTATE && row.equals(key(30))) {
                throw new TableException(TableException.Effect.NONE, "planted", null);
            }
        };
        assertThrows(TableException.class, failing::commit);
        assertEquals(new Contents(1, 1, 0, 1), world.contents());
    }

    /// A client that dies before the commit leaves nothing; one that dies during the commit leaves rows to a sweep.
    @Test
    void deadClientLeavesSpilledRowsToSweep() throws IOException {
        put(manager, rows, "k000", "old");
        OracleClient dying = world.client();
        manager = spilling(world, dying);
        Transaction before = filled();
        Transaction during = filled();
        during.write();
        requireNoFile();
        dying.close();
        assertEquals(ROWS, world.contents().pending());
        TransactionManager alive = world.manager();
        assertEquals("old", see(alive, rows, "k000"));
        assertEquals(ROWS, new Cleaner(world.oracle, world.tables).sweep().aborted());
        assertEquals(new Contents(1, 1, 0, 1), world.contents());
        // Its later commit fails.
        assertThrows(OutcomeUnknownException.class, before::commit);
        assertNull(see(alive, rows, "k001"));
        new Cleaner(world.oracle, world.tables).sweep();
        assertEquals(new Contents(1, 1, 0, 1), world.contents());
    }

    @Test
    void tooManyRowsAreRefusedBeforeCommit() {
        try (World small = new World(store(), 3, new VolatileLog())) {
            Transaction transaction = spilling(small, small.oracle).begin(Isolation.SERIALISABLE);
            transaction.put(small.rows, key(0), VALUE, Bytes.of("0"));
            transaction.put(small.cells, key(0), VALUE, Bytes.of("0"));
            transaction.put(small.cells, key(0), OTHER, Bytes.of("0"));
            RefusedException why = assertThrows(
                    RefusedException.class, () -> transaction.put(small.rows, key(1), VALUE, Bytes.of("1")));
            assertEquals(ErrorCode.TOO_MANY_ROWS, why.code());
            assertTrue(why.getMessage().contains("4 rows") && why.getMessage().contains("at most 3"), why.getMessage());
            Savepoint savepoint = transaction.savepoint();
            transaction.put(small.rows, key(0), OTHER, Bytes.of("the same row"));
            assertNull(get(transaction, small.rows, "k001"));
            assertThrows(RefusedException.class, transaction::commit, "a row that it has read counts as well");
            assertEquals(Transaction.State.OPEN, transaction.state());
            assertEquals(new Contents(0, 0, 0, 0), small.contents(), "none of them was written");
            transaction.rollBackTo(savepoint);
            transaction.abort();
            Transaction full = spilling(small, small.oracle).begin(Isolation.SNAPSHOT);
            IntStream.range(0, 3).forEach(number -> full.put(small.rows, key(number), VALUE, Bytes.of("x")));
            assertThrows(RefusedException.class, () -> full.put(small.rows, key(3), VALUE, Bytes.of("x")));
            full.commit();
            assertEquals(3, small.contents().versions());
        }
    }
}
