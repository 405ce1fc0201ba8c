package cedrat.oracle.tables;

import java.util.List;
import java.util.NavigableMap;
import java.util.TreeMap;

/// Rows of a transaction that the oracle has forgotten, read after the oracle has answered so. They show
/// that the transaction has aborted in two cases:
///
/// - V1  A marker is left. All markers of a committed transaction were gone when the oracle forgot it (K3),
///   so this marker belongs to a write that arrived late.
/// - V2  A cell that it has written has a stamped version from before its start, and the first one after
///   its start is missing or not its own. If it had committed, its version would be that first one, as
///   another commit in between would have been a conflict. That version would have been stamped before the
///   oracle forgot the transaction (K3), and after all older versions, as cleaners proceed by start
///   timestamps. A pruner that removes it removes all older versions too.
///
/// They cannot show that it has committed: another transaction may have written the same values, and that
/// conflict may have aborted this one. They show nothing if all older versions were pruned, or there were
/// none.
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
        StoredRow row = write.table().read(write.row(), write.cells().keySet(), Long.MAX_VALUE);
        if (row.pending().contains(start)) {
            return true; // V1
        }
        for (var cell : write.cells().entrySet()) {
            NavigableMap<Long, Bytes> versions = row.versions().get(cell.getKey());
            if (versions == null) {
                continue;
            }
            NavigableMap<Long, Bytes> stamped = new TreeMap<>(versions);
            stamped.keySet().removeAll(row.pending());
            var after = stamped.higherEntry(start);
            if (stamped.lowerKey(start) != null
                    && (after == null || !after.getValue().equals(cell.getValue()))) {
                return true; // V2
            }
        }
        return false;
    }
}
