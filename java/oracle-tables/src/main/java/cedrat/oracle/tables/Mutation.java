package cedrat.oracle.tables;

import java.util.List;

/// Atomic change of a row.
///
/// @param puts versions to be written
/// @param erasures versions to be removed: exactly these, none older
/// @param cuts versions to be removed with all that are older
/// @param marks start timestamps whose pending marker is to be set
/// @param stamps commit timestamps, each of which replaces the pending marker of its start timestamp
/// @param unmarks start timestamps whose pending marker or commit timestamp is to be removed: exactly these
public record Mutation(
        List<Version> puts,
        List<CellVersion> erasures,
        List<CellVersion> cuts,
        List<Long> marks,
        List<Stamp> stamps,
        List<Long> unmarks) {
    /// A version of a cell, and its value.
    public record Version(Column column, long timestamp, Bytes value) {}

    /// A version of a cell.
    public record CellVersion(Column column, long timestamp) {}

    /// The commit timestamp of all versions that a transaction has written into the row.
    public record Stamp(long start, long commit) {}

    /// Keeps copies.
    public Mutation {
        puts = List.copyOf(puts);
        erasures = List.copyOf(erasures);
        cuts = List.copyOf(cuts);
        marks = List.copyOf(marks);
        stamps = List.copyOf(stamps);
        unmarks = List.copyOf(unmarks);
    }

    /// Whether it writes nothing.
    public boolean onlyRemoves() {
        return puts.isEmpty() && marks.isEmpty() && stamps.isEmpty();
    }
}
