package cedrat.oracle.tables;

import cedrat.oracle.client.CommitTimestamp;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.NavigableMap;
import java.util.TreeMap;

/// The three things that happen to a row that a transaction has written.
final class Mutations {
    private Mutations() {}

    /// The write: versions of the start timestamp, and its marker.
    static Mutation write(long start, Map<Column, Bytes> cells) {
        List<Mutation.Version> puts = new ArrayList<>(cells.size());
        cells.forEach((column, value) -> puts.add(new Mutation.Version(column, start, value)));
        return new Mutation(puts, List.of(), List.of(), List.of(start), List.of());
    }

    /// The clean-up after a commit: the versions get the commit timestamp, the marker goes.
    static Mutation restamp(long start, CommitTimestamp commit, Map<Column, Bytes> cells) {
        List<Mutation.Version> puts = new ArrayList<>(cells.size());
        cells.forEach((column, value) -> puts.add(new Mutation.Version(column, commit.value(), value)));
        return new Mutation(puts, versions(start, cells), List.of(), List.of(), List.of(start));
    }

    /// The clean-up after an abort: versions and marker go.
    static Mutation erase(long start, Map<Column, Bytes> cells) {
        return new Mutation(List.of(), versions(start, cells), List.of(), List.of(), List.of(start));
    }

    /// Returns the values that a transaction has written into a row.
    static Map<Column, Bytes> cells(StoredRow row, long start) {
        Map<Column, Bytes> cells = new TreeMap<>();
        for (Map.Entry<Column, NavigableMap<Long, Bytes>> column :
                row.versions().entrySet()) {
            Bytes value = column.getValue().get(start);
            if (value != null) {
                cells.put(column.getKey(), value);
            }
        }
        return cells;
    }

    private static List<Mutation.CellVersion> versions(long start, Map<Column, Bytes> cells) {
        return cells.keySet().stream()
                .map(column -> new Mutation.CellVersion(column, start))
                .toList();
    }
}
