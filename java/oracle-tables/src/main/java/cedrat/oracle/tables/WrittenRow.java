package cedrat.oracle.tables;

import java.io.DataOutputStream;
import java.io.IOException;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.List;
import java.util.NavigableMap;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.function.Supplier;
import java.util.function.UnaryOperator;

/// Cells that a transaction has written into one row: the newest in memory, others in parts of the temporary file. Of a
/// part only the names of its columns are in memory. For one thread at a time; [#cells] may be called by several while
/// nothing changes.
final class WrittenRow {
    /// A row with so many parts is written into the file as a whole when it is spilled again.
    static final int PARTS_MAX = 8;

    /// Bytes that the objects of a cell in memory take besides names and value, about.
    private static final int CELL_BYTES = 100;

    /// Cells in the file; never changed.
    private static final class Part {
        /// In their order.
        final List<Column> columns;
        final long at;
        final long length;

        Part(List<Column> columns, long at, long length) {
            this.columns = columns;
            this.at = at;
            this.length = length;
        }

        void readInto(TreeMap<Column, Bytes> cells, SpillFile file) {
            file.read(at, length, in -> {
                for (Column column : columns) {
                    cells.put(column, SpillFile.readBytes(in));
                }
                return null;
            });
        }
    }

    private final TreeMap<Column, Bytes> buffered = new TreeMap<>();
    private long bufferedBytes;
    /// Oldest first; replaced, and never changed.
    private List<Part> parts = List.of();

    /// Returns the number of bytes that a cell takes in memory.
    static long bytes(Column column, Bytes value) {
        return CELL_BYTES + column.family().length() + column.qualifier().length() + (long) value.length();
    }

    /// Returns the number of bytes in memory.
    long bufferedBytes() {
        return bufferedBytes;
    }

    /// Returns the number of bytes that all its cells take in memory, about, or more where cells were overwritten.
    long bytes() {
        long bytes = bufferedBytes;
        for (Part part : parts) {
            bytes += part.length + (long) CELL_BYTES * part.columns.size();
        }
        return bytes;
    }

    boolean isEmpty() {
        return buffered.isEmpty() && parts.isEmpty();
    }

    boolean has(Column column) {
        return buffered.containsKey(column) || partOf(column) != null;
    }

    private Part partOf(Column column) {
        for (int index = parts.size() - 1; index >= 0; index--) {
            if (Collections.binarySearch(parts.get(index).columns, column) >= 0) {
                return parts.get(index);
            }
        }
        return null;
    }

    /// Returns the stored value of a cell; `null` if there is none.
    Bytes get(Column column, SpillFile file) {
        Bytes value = buffered.get(column);
        Part part = value == null ? partOf(column) : null;
        if (part == null) {
            return value;
        }
        TreeMap<Column, Bytes> cells = new TreeMap<>();
        part.readInto(cells, file);
        return cells.get(column);
    }

    void put(Column column, Bytes value) {
        Bytes before = buffered.put(column, value);
        bufferedBytes += bytes(column, value) - (before == null ? 0 : bytes(column, before));
    }

    /// Removes a cell. What the file has of the row comes into memory before, where a cell can be removed.
    void remove(Column column, SpillFile file) {
        if (!parts.isEmpty()) {
            NavigableMap<Column, Bytes> all = load(buffered, parts, file);
            parts = List.of();
            all.forEach(this::put);
        }
        Bytes before = buffered.remove(column);
        bufferedBytes -= before == null ? 0 : bytes(column, before);
    }

    /// Returns all cells, not to be changed.
    NavigableMap<Column, Bytes> cells(SpillFile file) {
        return parts.isEmpty() ? Collections.unmodifiableNavigableMap(buffered) : load(buffered, parts, file);
    }

    /// Returns the present cells, also after later changes. What is in the file is read on demand.
    Supplier<NavigableMap<Column, Bytes>> copy(SpillFile file) {
        TreeMap<Column, Bytes> newest = new TreeMap<>(buffered);
        List<Part> older = parts;
        return () -> load(newest, older, file);
    }

    private static NavigableMap<Column, Bytes> load(TreeMap<Column, Bytes> newest, List<Part> older, SpillFile file) {
        TreeMap<Column, Bytes> cells = new TreeMap<>();
        for (Part part : older) {
            part.readInto(cells, file);
        }
        cells.putAll(newest);
        return cells;
    }

    /// Returns the columns, in their order.
    Collection<Column> columns() {
        if (buffered.isEmpty() && parts.size() == 1) {
            return parts.get(0).columns;
        }
        TreeSet<Column> all = new TreeSet<>(buffered.keySet());
        parts.forEach(part -> all.addAll(part.columns));
        return all;
    }

    /// Whether it is to be spilled as a whole.
    boolean hasManyParts() {
        return parts.size() >= PARTS_MAX;
    }

    /// Writes all cells into the file, as one part.
    void spillWhole(SpillFile file, UnaryOperator<List<Column>> shared) {
        NavigableMap<Column, Bytes> all = cells(file);
        long at = file.append(out -> encode(all, out));
        parts = List.of(new Part(shared.apply(List.copyOf(all.keySet())), at, file.length() - at));
        dropBuffered();
    }

    /// Writes the cells in memory to the file.
    void encode(DataOutputStream out) throws IOException {
        encode(buffered, out);
    }

    private static void encode(NavigableMap<Column, Bytes> cells, DataOutputStream out) throws IOException {
        for (Bytes value : cells.values()) {
            SpillFile.write(out, value);
        }
    }

    /// Drops the cells in memory, which the file has at this position; returns the position behind them.
    long endSpill(long at, UnaryOperator<List<Column>> shared) {
        long length = 0;
        for (Bytes value : buffered.values()) {
            length += Integer.BYTES + value.length();
        }
        List<Part> all = new ArrayList<>(parts);
        all.add(new Part(shared.apply(List.copyOf(buffered.keySet())), at, length));
        parts = List.copyOf(all);
        dropBuffered();
        return at + length;
    }

    private void dropBuffered() {
        buffered.clear();
        bufferedBytes = 0;
    }
}
