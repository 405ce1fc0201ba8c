package cedrat.oracle.tables;

import cedrat.oracle.client.CommitTimestamp;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.NavigableMap;
import java.util.TreeSet;
import java.util.stream.Collectors;

/// The three things that happen to a row that a transaction has written.
final class Mutations {
    private Mutations() {}

    /// The write: versions of the start timestamp, and its marker.
    static Mutation write(long start, Map<Column, Bytes> cells) {
        List<Mutation.Version> puts = new ArrayList<>(cells.size());
        cells.forEach((column, value) -> puts.add(new Mutation.Version(column, start, value)));
        return new Mutation(puts, List.of(), List.of(), List.of(start), List.of(), List.of());
    }

    /// The clean-up after a commit: the commit timestamp replaces the marker. The versions stay as they are.
    static Mutation stamp(long start, CommitTimestamp commit) {
        return stamps(List.of(new Mutation.Stamp(start, commit.value())));
    }

    /// The same after commits of several transactions.
    static Mutation stamps(List<Mutation.Stamp> stamps) {
        return new Mutation(List.of(), List.of(), List.of(), List.of(), stamps, List.of());
    }

    /// The clean-up after an abort: versions and marker go.
    static Mutation erase(long start, Collection<Column> columns) {
        List<Mutation.CellVersion> erasures = columns.stream()
                .map(column -> new Mutation.CellVersion(column, start))
                .collect(Collectors.toUnmodifiableList());
        return new Mutation(List.of(), erasures, List.of(), List.of(), List.of(), List.of(start));
    }

    /// Returns the columns that a transaction has written in a row.
    static Collection<Column> columns(StoredRow row, long start) {
        Collection<Column> columns = new TreeSet<>();
        for (Map.Entry<Column, NavigableMap<Long, Bytes>> column :
                row.versions().entrySet()) {
            if (column.getValue().containsKey(start)) {
                columns.add(column.getKey());
            }
        }
        return columns;
    }
}
