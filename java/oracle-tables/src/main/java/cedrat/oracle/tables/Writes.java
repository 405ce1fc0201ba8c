package cedrat.oracle.tables;

import cedrat.oracle.client.RefusedException;
import cedrat.oracle.client.RowIds;
import cedrat.oracle.protocol.CommitKeys;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.NavigableMap;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.function.Supplier;
import java.util.stream.LongStream;

/// Pending writes of a transaction: values to store, and deletions. Writes that exceed the buffer are in a temporary
/// file. The keys of their rows and the names of their columns stay in memory. For one thread at a time, but several
/// threads may read the cells of [#rows] while nothing is written.
///
/// **Failure:** [TableException] of effect `NONE` if the file cannot be written or read. A failed [#put] has changed
/// nothing. After a failed [#rollBackTo] the writes are unusable.
final class Writes implements AutoCloseable {
    /// Pending writes into one row.
    static final class RowWrite {
        final Table table;
        final Bytes row;
        private final WrittenRow written;
        private final Writes all;

        private RowWrite(Table table, Bytes row, WrittenRow written, Writes all) {
            this.table = table;
            this.row = row;
            this.written = written;
            this.all = all;
        }

        /// Returns the values to store, and reads them from the file if necessary.
        NavigableMap<Column, Bytes> cells() {
            return written.cells(all.file);
        }

        /// Returns the columns, from memory. Rows with the same columns share one list.
        Collection<Column> columns() {
            return all.shared(List.copyOf(written.columns()));
        }

        /// Returns the approximate number of bytes that the cells take in memory.
        long bytes() {
            return written.bytes();
        }

        /// Whether it is the same row: a transaction writes it once.
        @Override
        public boolean equals(Object other) {
            return other instanceof RowWrite && table == ((RowWrite) other).table && row.equals(((RowWrite) other).row);
        }

        @Override
        public int hashCode() {
            return row.hashCode();
        }
    }

    /// Limit of one commit.
    @FunctionalInterface
    interface Limit {
        /// @throws RefusedException if one commit cannot have so many rows, or so many bytes of keys
        void require(long rows, long keyBytes);
    }

    private static final class TableWrites {
        final Table table;
        final TreeMap<Bytes, WrittenRow> rows = new TreeMap<>();

        TableWrites(Table table) {
            this.table = table;
        }
    }

    /// Before-images may take one part in so many of the buffer.
    private static final int UNDO_PART = 4;

    private final long bufferMax;
    private final Limit limit;
    private final SpillFile file;
    private final Map<String, TableWrites> tables = new LinkedHashMap<>();
    private final List<Savepoint> savepoints = new ArrayList<>();
    private final UndoLog undo;
    /// Rows with cells in memory.
    private final Set<WrittenRow> buffered = new LinkedHashSet<>();
    /// Number of bytes of these cells.
    private long bufferedBytes;
    /// Columns of the rows in the file. Most rows have the same columns, so they share a list.
    private final Map<List<Column>, List<Column>> columns = new HashMap<>();
    /// Number of rows, or of cells with granularity `CELL`, that the commit will have.
    private long units;
    /// Number of bytes of keys that the commit will have.
    private long keyBytes;

    /// Creates an empty set of writes.
    ///
    /// @param bufferMax number of bytes that are kept in memory, besides the row that was written last
    /// @param directory directory of the temporary file; empty for the default of the JVM
    Writes(long bufferMax, Optional<Path> directory, Limit limit) {
        this.bufferMax = bufferMax;
        this.limit = limit;
        file = new SpillFile(directory);
        undo = new UndoLog(file);
    }

    /// Writes a cell.
    void put(Table table, Bytes row, Column column, Bytes stored) {
        put(table, row, Map.of(column, stored));
    }

    /// Writes cells of a row: all or none.
    ///
    /// @throws RefusedException if one commit cannot have so many rows
    void put(Table table, Bytes row, Map<Column, Bytes> stored) {
        if (stored.isEmpty()) {
            return;
        }
        TableWrites writes = tables.get(table.name());
        WrittenRow known = writes == null ? null : writes.rows.get(row);
        long added = added(table, known, stored.keySet());
        long keys = known == null && table.checksScans() ? CommitKeys.lengthOf(row.length()) : 0;
        if (added > 0) {
            limit.require(units + added, keyBytes + keys);
        }
        List<UndoLog.BeforeImage> images = new ArrayList<>();
        if (!savepoints.isEmpty()) {
            Map<Column, Bytes> before = known == null ? Map.of() : known.get(stored.keySet(), file);
            for (Column column : stored.keySet()) {
                images.add(new UndoLog.BeforeImage(table, row, column, before.get(column)));
            }
        }
        makeRoom(known, stored);
        WrittenRow written = known != null
                ? known
                : tables.computeIfAbsent(table.name(), name -> new TableWrites(table))
                        .rows
                        .computeIfAbsent(row, none -> new WrittenRow());
        change(written, () -> stored.forEach(written::put));
        images.forEach(undo::add);
        units += added;
        keyBytes += keys;
    }

    /// Returns the number of units of conflict that these cells add.
    private static long added(Table table, WrittenRow known, Set<Column> stored) {
        if (known == null) {
            return table.granularity() == Granularity.ROW ? 1 : stored.size();
        }
        return table.granularity() == Granularity.ROW
                ? 0
                : stored.stream().filter(column -> !known.has(column)).count();
    }

    private void change(WrittenRow row, Runnable how) {
        long before = row.bufferedBytes();
        how.run();
        bufferedBytes += row.bufferedBytes() - before;
        if (row.bufferedBytes() == 0) {
            buffered.remove(row);
        } else {
            buffered.add(row);
        }
    }

    // ---- the buffer

    /// Spills the cells in memory if these cells do not fit into the buffer. Their own row stays in memory:
    /// otherwise each of many writes into one large row would add a part to the file.
    private void makeRoom(WrittenRow row, Map<Column, Bytes> stored) {
        long more = 0;
        for (Map.Entry<Column, Bytes> cell : stored.entrySet()) {
            more += WrittenRow.bytes(cell.getKey(), cell.getValue());
        }
        if (bufferedBytes + undo.bytes() + more > bufferMax) {
            spill(row);
        }
        if (undo.bytes() > bufferMax / UNDO_PART) {
            undo.spill();
        }
    }

    /// Writes all rows in memory to the file, except one.
    private void spill(WrittenRow except) {
        List<WrittenRow> few = new ArrayList<>();
        for (WrittenRow row : List.copyOf(buffered)) {
            if (row != except && row.hasManyParts()) {
                change(row, () -> row.spillWhole(file, this::shared));
            } else if (row != except) {
                few.add(row);
            }
        }
        if (few.isEmpty()) {
            return;
        }
        long at = file.append(out -> {
            for (WrittenRow row : few) {
                row.encode(out);
            }
        });
        for (WrittenRow row : few) {
            long from = at;
            long[] end = new long[1];
            change(row, () -> end[0] = row.endSpill(from, this::shared));
            at = end[0];
        }
    }

    private List<Column> shared(List<Column> some) {
        return columns.computeIfAbsent(some, same -> same);
    }

    /// Returns the number of bytes of values and names in memory, except the names of rows in the file.
    long bufferedBytes() {
        return bufferedBytes + undo.bytes();
    }

    /// Returns the length of the temporary file.
    long spilledBytes() {
        return file.length();
    }

    /// Removes the temporary file. Its values can no longer be read; rows and columns still can.
    @Override
    public void close() {
        file.close();
    }

    // ---- savepoints

    Savepoint savepoint() {
        Savepoint savepoint = new Savepoint(undo.size());
        savepoints.add(savepoint);
        return savepoint;
    }

    /// @throws IllegalArgumentException if it is none to return to
    void require(Savepoint savepoint) {
        if (!savepoints.contains(savepoint)) {
            throw new IllegalArgumentException(
                    "the savepoint was given up by a return to an earlier one, or is of another transaction");
        }
    }

    /// Returns to a savepoint that [#require] accepts.
    void rollBackTo(Savepoint savepoint) {
        savepoints.subList(savepoints.indexOf(savepoint) + 1, savepoints.size()).clear();
        while (undo.size() > savepoint.writes) {
            restore(undo.removeLast());
            // Before-images return from the file in large chunks, which are not counted.
            if (bufferedBytes > bufferMax) {
                spill(null);
            }
        }
    }

    /// Rows and tables without a write are removed: they conflict with nothing, and a transaction without any
    /// only reads.
    private void restore(UndoLog.BeforeImage image) {
        String name = image.table.name();
        TreeMap<Bytes, WrittenRow> rows = tables.get(name).rows;
        WrittenRow written = rows.get(image.row);
        if (image.before != null) {
            change(written, () -> written.put(image.column, image.before));
            return;
        }
        change(written, () -> written.remove(image.column));
        boolean isRow = image.table.granularity() == Granularity.ROW;
        if (!isRow || written.isEmpty()) {
            units--;
        }
        if (written.isEmpty()) {
            rows.remove(image.row);
            keyBytes -= image.table.checksScans() ? CommitKeys.lengthOf(image.row.length()) : 0;
        }
        if (rows.isEmpty()) {
            tables.remove(name);
        }
    }

    // ---- what was written

    boolean isEmpty() {
        return tables.isEmpty();
    }

    private WrittenRow written(Table table, Bytes row) {
        TableWrites writes = tables.get(table.name());
        return writes == null ? null : writes.rows.get(row);
    }

    /// Returns the pending writes into a row; empty if there are none.
    NavigableMap<Column, Bytes> of(Table table, Bytes row) {
        WrittenRow written = written(table, row);
        return written == null ? Collections.emptyNavigableMap() : written.cells(file);
    }

    /// Returns the columns of the pending writes into a row.
    Collection<Column> columns(Table table, Bytes row) {
        WrittenRow written = written(table, row);
        return written == null ? Set.of() : written.columns();
    }

    /// Returns a copy of the pending writes into a range of rows. Values in the file are read on demand.
    TreeMap<Bytes, Supplier<NavigableMap<Column, Bytes>>> in(Table table, KeyRange range) {
        TreeMap<Bytes, Supplier<NavigableMap<Column, Bytes>>> copy = new TreeMap<>();
        TableWrites writes = tables.get(table.name());
        if (writes != null) {
            NavigableMap<Bytes, WrittenRow> part = range.to().length() == 0
                    ? writes.rows.tailMap(range.from(), true)
                    : writes.rows.subMap(range.from(), true, range.to(), false);
            part.forEach((row, written) -> copy.put(row, written.copy(file)));
        }
        return copy;
    }

    List<RowWrite> rows() {
        List<RowWrite> all = new ArrayList<>();
        for (TableWrites writes : tables.values()) {
            writes.rows.forEach((row, written) -> all.add(new RowWrite(writes.table, row, written, this)));
        }
        return all;
    }

    /// Adds the keys of rows of tables whose scans are checked to what a commit carries.
    void addKeysTo(CommitKeys keys) {
        for (TableWrites writes : tables.values()) {
            if (writes.table.checksScans()) {
                long number = RowIds.ofTable(Bytes.of(writes.table.name()).raw());
                writes.rows.keySet().forEach(row -> keys.write(number, row.raw()));
            }
        }
    }

    /// Returns the number of written rows, or of cells with granularity `CELL`.
    long units() {
        return units;
    }

    /// Returns the ids of the written rows or cells at the oracle, each once.
    long[] ids() {
        return rows().stream().flatMapToLong(Writes::ids).distinct().toArray();
    }

    private static LongStream ids(RowWrite write) {
        byte[] table = Bytes.of(write.table.name()).raw();
        if (write.table.granularity() == Granularity.ROW) {
            return LongStream.of(Granularity.ROW.id(table, write.row, null));
        }
        return write.columns().stream().mapToLong(column -> Granularity.CELL.id(table, write.row, column));
    }
}
