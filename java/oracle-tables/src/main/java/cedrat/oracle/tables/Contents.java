package cedrat.oracle.tables;

import java.util.Map;
import java.util.Set;

/// Counts of what the tables of a store hold.
///
/// @param rows number of rows with any content
/// @param versions number of their versions
/// @param pending number of their markers
/// @param stamps number of their commit timestamps
public record Contents(long rows, long versions, long pending, long stamps) {
    /// Counts them, table by table: what changes meanwhile is counted, or not.
    ///
    /// @throws TableException if the store fails
    public static Contents of(Tables tables) {
        long rowCount = 0;
        long versions = 0;
        long pending = 0;
        long stamps = 0;
        for (Table table : tables.all()) {
            try (StoredRows rows = table.scan(KeyRange.ALL, Set.of(), Long.MAX_VALUE)) {
                while (rows.hasNext()) {
                    StoredRow row = rows.next();
                    long ofRow = row.versions().values().stream()
                            .mapToLong(Map::size)
                            .sum();
                    versions += ofRow;
                    pending += row.pending().size();
                    stamps += row.commits().size();
                    rowCount += ofRow + row.pending().size() + row.commits().size() == 0 ? 0 : 1;
                }
            }
        }
        return new Contents(rowCount, versions, pending, stamps);
    }

    /// Returns the number of all cells.
    public long cells() {
        return versions + pending + stamps;
    }
}
