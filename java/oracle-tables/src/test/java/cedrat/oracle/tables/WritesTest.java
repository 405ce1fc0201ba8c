package cedrat.oracle.tables;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cedrat.oracle.protocol.CommitKeys;
import java.nio.file.Path;
import java.util.AbstractMap;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.NavigableMap;
import java.util.Optional;
import java.util.SplittableRandom;
import java.util.TreeMap;
import java.util.function.Supplier;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/// O7m: pending writes in memory and in a temporary file, compared with a model in memory.
class WritesTest {
    private static final int RUNS = 400;
    private static final int STEPS = 150;
    private static final int ROWS = 6;
    private static final int VALUE_MAX = 50;
    private static final List<Column> COLUMNS = List.of(World.VALUE, World.OTHER, Column.of("g", "third"));
    /// More than a row of three such cells takes with its before-images.
    private static final int ROW_BYTES_MAX = 2000;

    private final MemoryTables tables = new MemoryTables();
    private final List<Table> all = List.of(
            tables.create("checked", Granularity.ROW, true),
            tables.create("rows", Granularity.ROW),
            tables.create("cells", Granularity.CELL, true));

    /// Expected writes, now and at the savepoints.
    private static final class Model {
        TreeMap<String, TreeMap<Bytes, TreeMap<Column, Bytes>>> tables = new TreeMap<>();
        final List<Map.Entry<Savepoint, TreeMap<String, TreeMap<Bytes, TreeMap<Column, Bytes>>>>> savepoints =
                new ArrayList<>();

        TreeMap<Bytes, TreeMap<Column, Bytes>> rows(Table table) {
            return tables.computeIfAbsent(table.name(), none -> new TreeMap<>());
        }

        TreeMap<String, TreeMap<Bytes, TreeMap<Column, Bytes>>> copy() {
            TreeMap<String, TreeMap<Bytes, TreeMap<Column, Bytes>>> copy = new TreeMap<>();
            tables.forEach((name, rows) -> {
                TreeMap<Bytes, TreeMap<Column, Bytes>> copied = new TreeMap<>();
                rows.forEach((row, cells) -> copied.put(row, new TreeMap<>(cells)));
                copy.put(name, copied);
            });
            return copy;
        }
    }

    private final SplittableRandom random = new SplittableRandom(1);
    private long[] required = {0, 0};

    private Bytes row() {
        return Bytes.of("row-" + random.nextInt(ROWS));
    }

    private Map<Column, Bytes> cells() {
        Map<Column, Bytes> cells = new HashMap<>();
        for (int count = random.nextInt(1, 4); count > 0; count--) {
            Bytes value = Bytes.of("" + random.nextInt(1000) + "x".repeat(random.nextInt(VALUE_MAX - 3)));
            cells.put(COLUMNS.get(random.nextInt(3)), random.nextInt(5) == 0 ? Values.DELETED : Values.stored(value));
        }
        return cells;
    }

    private void put(Writes writes, Model model, long bufferMax) {
        Table table = all.get(random.nextInt(3));
        Bytes row = row();
        Map<Column, Bytes> cells = cells();
        writes.put(table, row, cells);
        model.rows(table).computeIfAbsent(row, none -> new TreeMap<>()).putAll(cells);
        assertTrue(writes.bufferedBytes() <= bufferMax / 4 * 5 + ROW_BYTES_MAX, () -> "" + writes.bufferedBytes());
    }

    private void rollBack(Writes writes, Model model) {
        if (model.savepoints.isEmpty()) {
            return;
        }
        int index = random.nextInt(model.savepoints.size());
        var savepoint = model.savepoints.get(index);
        writes.rollBackTo(savepoint.getKey());
        model.savepoints.subList(index + 1, model.savepoints.size()).clear();
        model.tables = savepoint.getValue();
        savepoint.setValue(model.copy());
    }

    private void check(Writes writes, Model model) {
        Table table = all.get(random.nextInt(3));
        Bytes row = row();
        TreeMap<Column, Bytes> cells = model.rows(table).getOrDefault(row, new TreeMap<>());
        assertEquals(cells, writes.of(table, row));
        assertEquals(List.copyOf(cells.keySet()), List.copyOf(writes.columns(table, row)));
        assertEquals(
                model.tables.values().stream().allMatch(TreeMap::isEmpty), writes.isEmpty(), "nothing else is left");
    }

    private static TreeMap<Bytes, NavigableMap<Column, Bytes>> load(
            TreeMap<Bytes, Supplier<NavigableMap<Column, Bytes>>> rows) {
        TreeMap<Bytes, NavigableMap<Column, Bytes>> loaded = new TreeMap<>();
        rows.forEach((row, cells) -> loaded.put(row, cells.get()));
        return loaded;
    }

    /// Compares all writes with the same writes in memory.
    private void checkAll(Writes writes, Model model) {
        Writes expected = new Writes(
                Long.MAX_VALUE, Optional.empty(), (rows, keyBytes) -> required = new long[] {rows, keyBytes});
        required = new long[] {0, 0};
        for (Table table : all) {
            model.rows(table).forEach((row, cells) -> expected.put(table, row, cells));
            assertEquals(model.rows(table), load(writes.in(table, KeyRange.ALL)));
        }
        assertEquals(expected.units(), writes.units());
        assertArrayEquals(
                Arrays.stream(expected.ids()).sorted().toArray(),
                Arrays.stream(writes.ids()).sorted().toArray());
        CommitKeys keys = new CommitKeys();
        writes.addKeysTo(keys);
        assertEquals(required[0], writes.units());
        assertEquals(required[1], Math.max(0, keys.length() - 2 * Integer.BYTES));
        for (Writes.RowWrite write : writes.rows()) {
            assertEquals(model.rows(write.table).get(write.row), write.cells());
        }
    }

    private void run(long bufferMax) {
        long[] last = {0, 0};
        Writes writes = new Writes(bufferMax, Optional.empty(), (rows, keyBytes) -> {
            last[0] = rows;
            last[1] = keyBytes;
        });
        Model model = new Model();
        for (int step = 0; step < STEPS; step++) {
            switch (random.nextInt(10)) {
                case 0 -> model.savepoints.add(new AbstractMap.SimpleEntry<>(writes.savepoint(), model.copy()));
                case 1 -> rollBack(writes, model);
                case 2 -> {
                    Table table = all.get(random.nextInt(3));
                    KeyRange range = new KeyRange(row(), Bytes.EMPTY);
                    var before = model.copy().getOrDefault(table.name(), new TreeMap<>());
                    var copy = writes.in(table, range);
                    put(writes, model, bufferMax);
                    assertEquals(before.tailMap(range.from(), true), load(copy), "as it was");
                }
                case 3, 4 -> check(writes, model);
                default -> put(writes, model, bufferMax);
            }
        }
        checkAll(writes, model);
        assertTrue(bufferMax > 100 || writes.spilledBytes() > 0);
        writes.close();
    }

    @Test
    void spilledWritesEqualThoseInMemory() {
        for (int run = 0; run < RUNS; run++) {
            run(run % 4 == 0 ? 0 : random.nextInt(4000));
        }
    }

    /// The file has each value once, however many writes there are.
    @Test
    void largeRowIsSpilledInParts() {
        Writes writes = new Writes(10_000, Optional.empty(), (rows, keyBytes) -> {});
        Table table = all.getFirst();
        int cells = 2000;
        for (int cell = 0; cell < cells; cell++) {
            writes.put(table, Bytes.of("a"), Column.of("f", "" + cell), Bytes.of("" + cell));
            writes.put(table, Bytes.of("b" + cell % 100), World.VALUE, Bytes.of("" + cell));
        }
        assertEquals(cells, writes.of(table, Bytes.of("a")).size());
        // After eight parts the row is merged, and each part is written again.
        assertTrue(writes.spilledBytes() < 40L * cells * 8, () -> "" + writes.spilledBytes());
    }

    /// Each of these rows is larger than the buffer, and many writes into both are undone in turns.
    @Test
    void rollBackOfLargeRowsSpillsLittle() {
        Writes writes = new Writes(10_000, Optional.empty(), (rows, keyBytes) -> {});
        Table table = all.getFirst();
        Bytes kept = Bytes.of("a0");
        writes.put(table, kept, World.VALUE, Bytes.of("kept"));
        Savepoint savepoint = writes.savepoint();
        int cells = 2000;
        for (int cell = 0; cell < cells; cell++) {
            writes.put(table, Bytes.of("a" + cell % 2), Column.of("f", "" + cell), Bytes.of("" + cell));
        }
        long before = writes.spilledBytes();
        writes.rollBackTo(savepoint);
        assertTrue(writes.spilledBytes() - before < 40L * cells, () -> "" + (writes.spilledBytes() - before));
        assertEquals(Map.of(World.VALUE, Bytes.of("kept")), writes.of(table, kept));
        assertEquals(1, writes.rows().size());
        writes.close();
    }

    @Test
    void refusedWriteChangesNothing() {
        Writes writes = new Writes(0, Optional.empty(), (rows, keyBytes) -> {
            if (rows > 3) {
                throw new IllegalArgumentException("" + rows);
            }
        });
        Table cells = all.getLast();
        writes.put(cells, Bytes.of("a"), Map.of(World.VALUE, Values.DELETED, World.OTHER, Values.DELETED));
        Map<Column, Bytes> more = Map.of(COLUMNS.get(2), Values.DELETED, Column.of("g", "fourth"), Values.DELETED);
        assertThrows(IllegalArgumentException.class, () -> writes.put(cells, Bytes.of("a"), more));
        assertEquals(2, writes.of(cells, Bytes.of("a")).size());
        writes.put(all.getFirst(), Bytes.of("a"), World.VALUE, Values.DELETED);
        writes.put(all.getFirst(), Bytes.of("a"), World.OTHER, Values.DELETED);
        assertThrows(
                IllegalArgumentException.class,
                () -> writes.put(all.get(1), Bytes.of("a"), World.VALUE, Values.DELETED));
        assertEquals(3, writes.units());
    }

    /// An interrupt would close a channel, so the file is none.
    @Test
    void interruptedThreadKeepsSpilledWrites() {
        Writes writes = new Writes(0, Optional.empty(), (rows, keyBytes) -> {});
        Table table = all.getFirst();
        Thread.currentThread().interrupt();
        writes.put(table, Bytes.of("a"), World.VALUE, Bytes.of("1"));
        writes.put(table, Bytes.of("b"), World.VALUE, Bytes.of("2"));
        assertEquals(Map.of(World.VALUE, Bytes.of("1")), writes.of(table, Bytes.of("a")));
        assertTrue(Thread.interrupted());
    }

    @Test
    void unwritableFileChangesNothing(@TempDir Path folder) {
        Writes writes = new Writes(0, Optional.of(folder.resolve("missing")), (rows, keyBytes) -> {});
        Table table = all.getFirst();
        writes.put(table, Bytes.of("a"), World.VALUE, Bytes.of("1"));
        TableException why =
                assertThrows(TableException.class, () -> writes.put(table, Bytes.of("b"), World.VALUE, Bytes.of("2")));
        assertEquals(TableException.Effect.NONE, why.effect());
        assertTrue(why.getMessage().contains("missing"), why.getMessage());
        assertEquals(1, writes.rows().size());
        assertEquals(1, writes.units());
        assertEquals(Map.of(World.VALUE, Bytes.of("1")), writes.of(table, Bytes.of("a")));
    }
}
