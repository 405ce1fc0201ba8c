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

/// Cells that a transaction has written into one row: the newest in memory, others in parts of the temporary file.
/// For a part, only the names of its columns are in memory. For one thread at a time, but several threads may call
/// [#cells] while nothing changes.
final class WrittenRow {
    /// A row with this many parts is written to the file as a whole at its next spill.
    static final int PARTS_MAX = 8;

    /// Approximate number of bytes that a cell in memory takes besides its names and value.
    private static final int CELL_BYTES = 100;

    /// Cells in the file; never changed.
    private static final class Part {
        /// In ascending order.
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
    /// Oldest first. The list is replaced, and never changed.
    private List<Part> parts = List.of();

    /// Returns the number of bytes that a cell takes in memory.
    static long bytes(Column column, Bytes value) {
        return CELL_BYTES + column.family().length() + column.qualifier().length() + (long) value.length();
    }

    /// Returns the number of bytes in memory.
    long bufferedBytes() {
        return bufferedBytes;
    }

    /// Returns the approximate number of bytes that all cells take in memory, or more if some were overwritten.
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

    /// Removes a cell. A cell in the file is noted as void and not read: otherwise a rollback of many writes into large
    /// rows would read and write each row as often.
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

    /// Returns all cells. The caller must not change the map.
    NavigableMap<Column, Bytes> cells(SpillFile file) {
        return parts.isEmpty() ? Collections.unmodifiableNavigableMap(buffered) : load(buffered, removed, parts, file);
    }

    /// Returns a supplier of the present cells, whatever changes later. Values in the file are read on demand.
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

    /// Returns the columns, in ascending order.
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

    /// Returns whether the next spill writes the whole row.
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

    /// Drops the cells in memory, which were written to the file at this position. Returns the position after them.
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
