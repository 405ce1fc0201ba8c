package cedrat.oracle.tables;

import java.util.NavigableMap;
import java.util.NavigableSet;
import java.util.Objects;

/// Stored content of a row at one moment. A version has the start timestamp of its transaction. If that is neither
/// pending nor has a commit timestamp, the transaction committed before all open ones began, and its start timestamp
/// serves as commit timestamp.
public final class StoredRow {
    private final Bytes key;
    private final NavigableMap<Column, NavigableMap<Long, Bytes>> versions;
    private final NavigableSet<Long> pending;
    private final NavigableMap<Long, Long> commits;

    /// The content of a row.
    ///
    /// @param key the row's
    /// @param versions for each column its versions, by timestamp
    /// @param pending the start timestamps whose marker is set: versions of these are not known to be committed
    /// @param commits the commit timestamps of others, by start timestamp
    public StoredRow(
            Bytes key,
            NavigableMap<Column, NavigableMap<Long, Bytes>> versions,
            NavigableSet<Long> pending,
            NavigableMap<Long, Long> commits) {
        this.key = key;
        this.versions = versions;
        this.pending = pending;
        this.commits = commits;
    }

    /// Returns its key.
    public Bytes key() {
        return key;
    }

    /// Returns for each column its versions, by timestamp.
    public NavigableMap<Column, NavigableMap<Long, Bytes>> versions() {
        return versions;
    }

    /// Returns the start timestamps whose marker is set.
    public NavigableSet<Long> pending() {
        return pending;
    }

    /// Returns commit timestamps, by start timestamp.
    public NavigableMap<Long, Long> commits() {
        return commits;
    }

    /// Returns the commit timestamp of a version that is not pending.
    long commit(long timestamp) {
        return commits.getOrDefault(timestamp, timestamp);
    }

    @Override
    public boolean equals(Object other) {
        if (!(other instanceof StoredRow)) {
            return false;
        }
        StoredRow storedRow = (StoredRow) other;
        return key.equals(storedRow.key)
                && versions.equals(storedRow.versions)
                && pending.equals(storedRow.pending)
                && commits.equals(storedRow.commits);
    }

    @Override
    public int hashCode() {
        return Objects.hash(key, versions, pending, commits);
    }

    @Override
    public String toString() {
        return "StoredRow[key=" + key + ", versions=" + versions + ", pending=" + pending + ", commits=" + commits
                + "]";
    }
}
