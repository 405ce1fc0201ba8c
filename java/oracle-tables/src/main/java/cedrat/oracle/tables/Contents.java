package cedrat.oracle.tables;

import java.util.Map;
import java.util.Objects;
import java.util.Set;

/// Counts of what the tables of a store hold.
public final class Contents {
    private final long rows;
    private final long versions;
    private final long pending;
    private final long stamps;

    /// The counts.
    ///
    /// @param rows number of rows with any content
    /// @param versions number of their versions
    /// @param pending number of their markers
    /// @param stamps number of their commit timestamps
    public Contents(long rows, long versions, long pending, long stamps) {
        this.rows = rows;
        this.versions = versions;
        this.pending = pending;
        this.stamps = stamps;
    }

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

    /// Returns the number of rows with any content.
    public long rows() {
        return rows;
    }

    /// Returns the number of versions.
    public long versions() {
        return versions;
    }

    /// Returns the number of markers.
    public long pending() {
        return pending;
    }

    /// Returns the number of commit timestamps.
    public long stamps() {
        return stamps;
    }

    /// Returns the number of all cells.
    public long cells() {
        return versions + pending + stamps;
    }

    @Override
    public boolean equals(Object other) {
        if (!(other instanceof Contents)) {
            return false;
        }
        Contents contents = (Contents) other;
        return rows == contents.rows
                && versions == contents.versions
                && pending == contents.pending
                && stamps == contents.stamps;
    }

    @Override
    public int hashCode() {
        return Objects.hash(rows, versions, pending, stamps);
    }

    @Override
    public String toString() {
        return "Contents[rows=" + rows + ", versions=" + versions + ", pending=" + pending + ", stamps=" + stamps + "]";
    }
}
