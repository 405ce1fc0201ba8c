package cedrat.oracle.tables;

import java.util.List;

/// Atomic change of a row.
///
/// @param puts versions to be written
/// @param erasures versions to be removed: exactly these, none older
/// @param cuts versions to be removed with all that are older
/// @param marks start timestamps whose pending marker is to be set
/// @param unmarks start timestamps whose pending marker is to be removed
public record Mutation(
        List<Version> puts, List<CellVersion> erasures, List<CellVersion> cuts, List<Long> marks, List<Long> unmarks) {
    /// A version of a cell, and its value.
    public record Version(Column column, long timestamp, Bytes value) {}

    /// A version of a cell.
    public record CellVersion(Column column, long timestamp) {}

    /// Keeps copies.
    public Mutation {
        puts = List.copyOf(puts);
        erasures = List.copyOf(erasures);
        cuts = List.copyOf(cuts);
        marks = List.copyOf(marks);
        unmarks = List.copyOf(unmarks);
    }
}
