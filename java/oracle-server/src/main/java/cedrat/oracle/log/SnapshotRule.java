package cedrat.oracle.log;

import java.util.ArrayDeque;

/// Decides from which snapshot on a log must be kept, and when the next one is due (O5). It receives each
/// entry of the log, in their order, and the beginnings and ends of snapshots among them.
///
/// An oracle that is restored from a snapshot and the entries after it has the rows that were committed since
/// the snapshot was begun, and treats all others as forgotten. So the log should reach back to the newest
/// snapshot since which as many rows were committed as the oracle keeps: the rows before it are forgotten in
/// any case, and T_max is not raised. A snapshot counts once all its parts are acknowledged, and so do rows:
/// an entry that is not acknowledged may be missing at the next opening.
///
/// Where few rows are committed among many other decisions, such a log would grow without bound. So it
/// reaches back no further than to the newest snapshot with `bytesMax` after it. An oracle that is restored
/// from that one misses no conflict, but T_max is raised to the beginning of the log: an open transaction
/// that began before, and writes a row that was not written since, aborts for it.
///
/// A snapshot is taken each time an eighth of the rows that are kept, or of `bytesMax`, is new. So a log
/// holds at most that amount, an eighth more, and two snapshots.
///
/// For one thread at a time.
public final class SnapshotRule {
    private static final int SNAPSHOTS_IN_WINDOW = 8;

    /// Largest overhead of an entry on disk: a block, if each entry is written alone.
    private static final long ENTRY_BYTES = 4096;

    /// Entries and bytes up to the first part, and the last part.
    private record Snapshot(long firstEntry, long firstBytes, long position, long lastEntry) {}

    private final long window;
    private final long bytesMax;
    private long entries;
    private long bytes;
    /// Complete snapshots that may still be needed, the oldest first.
    private final ArrayDeque<Snapshot> snapshots = new ArrayDeque<>();
    private long kept;

    // The newest that was begun.
    private long begunEntry;
    private long begunBytes;
    private long begunPosition;

    // The newest that has ended.
    private long newestBytes;
    private long newestPosition;

    /// For an oracle that keeps so many rows, and a log that is to have about so many bytes at most.
    public SnapshotRule(long window, long bytesMax) {
        this.window = window;
        this.bytesMax = bytesMax;
    }

    /// Returns to the state before the first entry.
    void restart() {
        entries = 0;
        bytes = 0;
        snapshots.clear();
        kept = 0;
        begunEntry = 0;
        begunBytes = 0;
        begunPosition = 0;
        newestBytes = 0;
        newestPosition = 0;
    }

    /// The next entry of the log has so many bytes.
    public void entry(int length) {
        entries++;
        bytes += length + ENTRY_BYTES;
    }

    /// The newest entry is the first part of a snapshot that was begun at this position. One that has not
    /// ended never will.
    public void begun(long position) {
        begunEntry = entries;
        begunBytes = bytes;
        begunPosition = position;
    }

    /// The newest entry is the last part of the snapshot that was begun.
    public void ended() {
        snapshots.addLast(new Snapshot(begunEntry, begunBytes, begunPosition, entries));
        newestBytes = begunBytes;
        newestPosition = begunPosition;
    }

    /// Returns the number of entries so far, which is the number of the newest one.
    public long entries() {
        return entries;
    }

    /// Returns the number of rows that were committed since the newest complete snapshot was begun, when the
    /// oracle is at this position.
    public long age(long position) {
        return position - newestPosition;
    }

    /// Whether a snapshot should be taken of an oracle at this position, if none is being taken.
    public boolean isDue(long position) {
        return position - newestPosition >= Math.max(1, window / SNAPSHOTS_IN_WINDOW)
                || bytes - newestBytes >= Math.max(1, bytesMax / SNAPSHOTS_IN_WINDOW);
    }

    /// Returns the entry from which on the log must be kept, when all up to `acknowledged` are, and the
    /// oracle was at `position` behind that one. 0 if every entry must. It never goes back.
    public long keepFrom(long acknowledged, long position) {
        while (!snapshots.isEmpty() && isEnough(snapshots.peekFirst(), acknowledged, position)) {
            kept = snapshots.removeFirst().firstEntry;
        }
        return kept;
    }

    private boolean isEnough(Snapshot snapshot, long acknowledged, long position) {
        return snapshot.lastEntry <= acknowledged
                && (snapshot.position <= position - window || bytes - snapshot.firstBytes >= bytesMax);
    }
}
