package cedrat.oracle.log;

import java.util.ArrayDeque;

/// Says from which snapshot on a log must be kept, and when the next one is due (O5).
///
/// An oracle that is made from a snapshot and from what follows it in the log has the rows that were committed since
/// the snapshot was begun, and calls all others forgotten. So the log must reach back to the newest snapshot since
/// which as many rows were committed as the oracle keeps: the rows before it are then forgotten anyway, and T_max is
/// not raised. A snapshot counts once all its parts are acknowledged, and so do rows: what is not may be gone at the
/// next opening.
///
/// Snapshots are taken each time an eighth of the rows that are kept has been committed anew. A log then holds the
/// commits of that many rows, and of an eighth more at most, and what was decided besides. As long as fewer rows were
/// committed than are kept, all of it is needed.
///
/// For one thread at a time.
public final class SnapshotRule {
    private static final int SNAPSHOTS_IN_WINDOW = 8;

    private record Snapshot(long firstEntry, long lastEntry, long position) {}

    private final long window;
    /// Whole ones, the oldest first: those that may still be needed.
    private final ArrayDeque<Snapshot> snapshots = new ArrayDeque<>();
    private long newestPosition;
    private long kept;

    /// For an oracle that keeps so many rows.
    public SnapshotRule(long window) {
        this.window = window;
    }

    /// Whether a snapshot should be taken of an oracle at this position.
    public boolean isDue(long position) {
        return position - newestPosition >= Math.max(1, window / SNAPSHOTS_IN_WINDOW);
    }

    /// A snapshot that was begun at this position lies in the log, its first part and its last part as these entries.
    /// Snapshots are told of in the order of the log; those that came to no end, not at all.
    public void taken(long firstEntry, long lastEntry, long position) {
        snapshots.addLast(new Snapshot(firstEntry, lastEntry, position));
        newestPosition = position;
    }

    /// Returns the entry from which on the log must be kept, when all up to `acknowledged` are, and the oracle was at
    /// `position` behind that one. 0 if every entry must. It never goes back.
    public long keepFrom(long acknowledged, long position) {
        while (!snapshots.isEmpty() && isEnough(snapshots.peekFirst(), acknowledged, position)) {
            kept = snapshots.removeFirst().firstEntry;
        }
        return kept;
    }

    private boolean isEnough(Snapshot snapshot, long acknowledged, long position) {
        return snapshot.lastEntry <= acknowledged && snapshot.position <= position - window;
    }
}
