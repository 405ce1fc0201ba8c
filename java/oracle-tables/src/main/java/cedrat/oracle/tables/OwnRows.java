package cedrat.oracle.tables;

import java.util.List;
import java.util.NavigableMap;
import java.util.Set;

/// Rows of a transaction that the oracle has forgotten, read after the oracle has answered so. They show
/// that the transaction has aborted in two cases:
///
/// - V1  A marker is left. All markers of a committed transaction were gone when the oracle forgot it (K3),
///   so this marker belongs to a write that arrived late.
/// - V2  A cell that it has written has no version of its own, and a version from before its start without a marker.
///   If it had committed, only a pruner could have removed its version, after it was stamped. It was stamped before the
///   oracle forgot the transaction (K3), and after all older versions, as cleaners proceed by start timestamps. A
///   pruner that removes it removes all older versions too.
///
/// A version of its own without a marker shows that it has committed, which is not made use of: its commit timestamp
/// may be gone (P4). They show nothing if all older versions were pruned, or there were none.
final class OwnRows {
    private OwnRows() {}

    /// Whether the rows show that the transaction that began at `start` and has made these writes has
    /// aborted.
    ///
    /// @throws TableException if the store fails
    static boolean showAbort(List<Writes.RowWrite> writes, long start) {
        return writes.stream().anyMatch(write -> showsAbort(write, start));
    }

    private static boolean showsAbort(Writes.RowWrite write, long start) {
        StoredRow row = write.table.read(write.row, Set.copyOf(write.columns()), Long.MAX_VALUE);
        if (row.pending().contains(start)) {
            return true; // V1
        }
        for (Column cell : write.columns()) {
            NavigableMap<Long, Bytes> versions = row.versions().get(cell);
            if (versions != null
                    && !versions.containsKey(start)
                    && !row.pending().containsAll(versions.headMap(start).keySet())) {
                return true; // V2
            }
        }
        return false;
    }
}
