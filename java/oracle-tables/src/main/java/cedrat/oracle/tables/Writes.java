package cedrat.oracle.tables;

import cedrat.oracle.client.RowIds;
import cedrat.oracle.protocol.CommitKeys;
import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.NavigableMap;
import java.util.TreeMap;
import java.util.stream.LongStream;

/// Pending writes of a transaction: stored values, also deleted ones. For one thread at a time.
final class Writes {
    /// Pending writes into one row.
    static final class RowWrite {
        final Table table;
        final Bytes row;
        final NavigableMap<Column, Bytes> cells;

        RowWrite(Table table, Bytes row, NavigableMap<Column, Bytes> cells) {
            this.table = table;
            this.row = row;
            this.cells = cells;
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

    private static final class TableWrites {
        final Table table;
        final TreeMap<Bytes, TreeMap<Column, Bytes>> rows = new TreeMap<>();

        TableWrites(Table table) {
            this.table = table;
        }
    }

    /// The value before a write.
    private static final class Replaced {
        final Table table;
        final Bytes row;
        final Column column;
        /// `null` if there was nothing.
        final Bytes before;

        Replaced(Table table, Bytes row, Column column, Bytes before) {
            this.table = table;
            this.row = row;
            this.column = column;
            this.before = before;
        }
    }

    private final Map<String, TableWrites> tables = new LinkedHashMap<>();
    private final List<Savepoint> savepoints = new ArrayList<>();
    /// The values before the writes since the first savepoint.
    private final List<Replaced> replaced = new ArrayList<>();

    void put(Table table, Bytes row, Column column, Bytes stored) {
        Bytes before = tables.computeIfAbsent(table.name(), name -> new TableWrites(table))
                .rows
                .computeIfAbsent(row, none -> new TreeMap<>())
                .put(column, stored);
        if (!savepoints.isEmpty()) {
            replaced.add(new Replaced(table, row, column, before));
        }
    }

    Savepoint savepoint() {
        Savepoint savepoint = new Savepoint(replaced.size());
        savepoints.add(savepoint);
        return savepoint;
    }

    void rollBackTo(Savepoint savepoint) {
        int index = savepoints.indexOf(savepoint);
        if (index < 0) {
            throw new IllegalArgumentException(
                    "the savepoint was given up by a return to an earlier one, or is of another transaction");
        }
        savepoints.subList(index + 1, savepoints.size()).clear();
        while (replaced.size() > savepoint.writes) {
            restore(replaced.remove(replaced.size() - 1));
        }
    }

    /// Rows and tables without a write are removed: they conflict with nothing, and a transaction without any
    /// only reads.
    private void restore(Replaced write) {
        String name = write.table.name();
        TreeMap<Bytes, TreeMap<Column, Bytes>> rows = tables.get(name).rows;
        TreeMap<Column, Bytes> cells = rows.get(write.row);
        if (write.before != null) {
            cells.put(write.column, write.before);
            return;
        }
        cells.remove(write.column);
        if (cells.isEmpty()) {
            rows.remove(write.row);
        }
        if (rows.isEmpty()) {
            tables.remove(name);
        }
    }

    boolean isEmpty() {
        return tables.isEmpty();
    }

    /// Returns the pending writes into a row; empty if there are none.
    NavigableMap<Column, Bytes> of(Table table, Bytes row) {
        TableWrites writes = tables.get(table.name());
        NavigableMap<Column, Bytes> cells = writes == null ? null : writes.rows.get(row);
        return cells == null ? Collections.emptyNavigableMap() : cells;
    }

    /// A copy of what is written into rows of a range.
    TreeMap<Bytes, NavigableMap<Column, Bytes>> in(Table table, KeyRange range) {
        TreeMap<Bytes, NavigableMap<Column, Bytes>> copy = new TreeMap<>();
        TableWrites writes = tables.get(table.name());
        if (writes != null) {
            NavigableMap<Bytes, TreeMap<Column, Bytes>> part = range.to().length() == 0
                    ? writes.rows.tailMap(range.from(), true)
                    : writes.rows.subMap(range.from(), true, range.to(), false);
            part.forEach((row, cells) -> copy.put(row, new TreeMap<>(cells)));
        }
        return copy;
    }

    List<RowWrite> rows() {
        List<RowWrite> all = new ArrayList<>();
        for (TableWrites writes : tables.values()) {
            writes.rows.forEach((row, cells) -> all.add(new RowWrite(writes.table, row, cells)));
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

    /// Returns the ids of the written rows or cells at the oracle, each once.
    long[] ids() {
        return rows().stream().flatMapToLong(Writes::ids).distinct().toArray();
    }

    private static LongStream ids(RowWrite write) {
        byte[] table = Bytes.of(write.table.name()).raw();
        return write.cells.keySet().stream()
                .mapToLong(column -> write.table.granularity().id(table, write.row, column));
    }
}
