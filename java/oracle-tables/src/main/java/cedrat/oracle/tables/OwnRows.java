package cedrat.oracle.tables;

import java.util.List;
import java.util.NavigableMap;
import java.util.TreeMap;

/// Rows of a transaction that the oracle has forgotten, read after it said so. They can show that the transaction has
/// aborted:
///
/// - V1  A marker is left. All markers of a committed one were gone when it was forgotten (K3), so this is of a write
///   that came late.
/// - V2  In a cell that it has written there is a stamped version from before it began, and the first one after is
///   not its own. Had it committed, then as the first after its start: another commit in between would have been a
///   conflict. Its version would have been stamped before the oracle forgot it (K3), and after those from before
///   it, as cleaners go by start timestamps. And a pruner that removes it removes all that are older.
///
/// They cannot show that it has committed: another transaction may have written the same values, and with the conflict
/// have aborted this one. Nor do they show anything when all before was pruned, or there was nothing.
final class OwnRows {
    private OwnRows() {}

    /// Whether the rows show that the transaction that began at `start`, and has written these, has aborted.
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
