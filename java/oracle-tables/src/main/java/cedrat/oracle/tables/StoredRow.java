package cedrat.oracle.tables;

import java.util.NavigableMap;
import java.util.NavigableSet;

/// Stored content of a row at one moment. A version has the start timestamp of its transaction. If that is neither
/// pending nor has a commit timestamp, the transaction committed before all open ones began, and its start timestamp
/// serves as commit timestamp.
///
/// @param key the row's
/// @param versions for each column its versions, by timestamp
/// @param pending the start timestamps whose marker is set: versions of these are not known to be committed
/// @param commits the commit timestamps of others, by start timestamp
public record StoredRow(
        Bytes key,
        NavigableMap<Column, NavigableMap<Long, Bytes>> versions,
        NavigableSet<Long> pending,
        NavigableMap<Long, Long> commits) {
    /// Returns the commit timestamp of a version that is not pending.
    long commit(long timestamp) {
        return commits.getOrDefault(timestamp, timestamp);
    }
}
