package cedrat.oracle.tables;

import java.io.DataOutputStream;
import java.io.IOException;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.NavigableMap;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.function.Predicate;
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
        /// Columns of older parts that are void, in their order.
        final List<Column> removed;
        final long at;
        final long length;

        Part(List<Column> columns, List<Column> removed, long at, long length) {
            this.columns = columns;
            this.removed = removed;
            this.at = at;
            this.length = length;
        }

        /// Reads the cells of some columns.
        void readInto(Map<Column, Bytes> cells, Predicate<Column> isWanted, SpillFile file) {
            file.read(at, length, in -> {
                for (Column column : columns) {
                    if (isWanted.test(column)) {
                        cells.put(column, SpillFile.readBytes(in));
                    } else {
                        SpillFile.skipBytes(in);
                    }
                }
                return null;
            });
        }
    }

    private final TreeMap<Column, Bytes> buffered = new TreeMap<>();
    /// Columns of parts that are void.
    private final TreeSet<Column> removed = new TreeSet<>();
    /// Number of cells.
    private long size;

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
        return size == 0;
    }

    boolean has(Column column) {
        return buffered.containsKey(column) || partOf(column) != null;
    }

    /// Returns the newest part that has the cell; `null` if none has, or it was removed.
    private Part partOf(Column column) {
        if (removed.contains(column)) {
            return null;
        }
        for (int index = parts.size() - 1; index >= 0; index--) {
            Part part = parts.get(index);
            if (Collections.binarySearch(part.columns, column) >= 0) {
                return part;
            }
            if (Collections.binarySearch(part.removed, column) >= 0) {
                return null;
            }
        }
        return null;
    }

    /// Returns the stored values of those cells that there are. Each part is read once at most.
    Map<Column, Bytes> get(Set<Column> columns, SpillFile file) {
        Map<Column, Bytes> values = new HashMap<>();
        Map<Part, Set<Column>> inFile = new HashMap<>();
        for (Column column : columns) {
            Bytes value = buffered.get(column);
            Part part = value == null ? partOf(column) : null;
            if (value != null) {
                values.put(column, value);
            } else if (part != null) {
                inFile.computeIfAbsent(part, none -> new HashSet<>()).add(column);
            }
        }
        inFile.forEach((part, some) -> part.readInto(values, some::contains, file));
        return values;
    }

    void put(Column column, Bytes value) {
        size += has(column) ? 0 : 1;
        Bytes before = buffered.put(column, value);
        bufferedBytes += bytes(column, value) - (before == null ? 0 : bytes(column, before));
        if (removed.remove(column)) {
            bufferedBytes -= bytes(column, Bytes.EMPTY);
        }
    }

    /// Removes a cell. One in the file is noted as void: it is not read, so that a return over many writes into large
    /// rows does not read and write them as often.
    void remove(Column column) {
        size -= has(column) ? 1 : 0;
        Bytes before = buffered.remove(column);
        bufferedBytes -= before == null ? 0 : bytes(column, before);
        if (size == 0) {
            parts = List.of();
            removed.clear();
            bufferedBytes = 0;
        } else if (partOf(column) != null) {
            removed.add(column);
            bufferedBytes += bytes(column, Bytes.EMPTY);
        }
    }

    /// Returns all cells, not to be changed.
    NavigableMap<Column, Bytes> cells(SpillFile file) {
        return parts.isEmpty() ? Collections.unmodifiableNavigableMap(buffered) : load(buffered, removed, parts, file);
    }

    /// Returns the present cells, also after later changes. What is in the file is read on demand.
    Supplier<NavigableMap<Column, Bytes>> copy(SpillFile file) {
        TreeMap<Column, Bytes> newest = new TreeMap<>(buffered);
        Set<Column> without = Set.copyOf(removed);
        List<Part> older = parts;
        return () -> load(newest, without, older, file);
    }

    private static NavigableMap<Column, Bytes> load(
            TreeMap<Column, Bytes> newest, Set<Column> without, List<Part> older, SpillFile file) {
        TreeMap<Column, Bytes> cells = new TreeMap<>();
        for (Part part : older) {
            part.removed.forEach(cells::remove);
            part.readInto(cells, column -> true, file);
        }
        without.forEach(cells::remove);
        cells.putAll(newest);
        return cells;
    }

    /// Returns the columns, in their order.
    Collection<Column> columns() {
        if (bufferedBytes == 0 && parts.size() == 1) {
            return parts.get(0).columns;
        }
        TreeSet<Column> all = new TreeSet<>();
        for (Part part : parts) {
            part.removed.forEach(all::remove);
            all.addAll(part.columns);
        }
        removed.forEach(all::remove);
        all.addAll(buffered.keySet());
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
        parts = List.of(new Part(shared.apply(List.copyOf(all.keySet())), List.of(), at, file.length() - at));
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
        all.add(new Part(shared.apply(List.copyOf(buffered.keySet())), List.copyOf(removed), at, length));
        parts = List.copyOf(all);
        dropBuffered();
        return at + length;
    }

    private void dropBuffered() {
        buffered.clear();
        removed.clear();
        bufferedBytes = 0;
    }
}
