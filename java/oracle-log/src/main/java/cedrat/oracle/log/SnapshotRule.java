package cedrat.oracle.log;

import java.util.ArrayDeque;

/// Says from which snapshot on a log must be kept, and when the next one is due (O5). It is told of each
/// entry of the log, in their order, and which of them begin and end snapshots.
///
/// An oracle that is made from a snapshot and from what follows it in the log has the rows that were
/// committed since the snapshot was begun, and calls all others forgotten. So the log should reach back to
/// the newest snapshot since which as many rows were committed as the oracle keeps: the rows before it are
/// then forgotten anyway, and T_max is not raised. A snapshot counts once all its parts are acknowledged, and
/// so do rows: what is not may be gone at the next opening.
///
/// Where few rows are committed and much else is asked, such a log would grow for ever. So it reaches back no
/// further than to the newest snapshot that has `bytesMax` behind it. An oracle that is made from that one
/// misses no conflict, but T_max is raised to where the log begins: a transaction that began before, is still
/// open and writes a row that was not written since, aborts for it.
///
/// Snapshots are taken each time an eighth of the rows that are kept, or of `bytesMax`, has come anew. A log
/// then holds so much, and an eighth more at most, and two snapshots.
///
/// For one thread at a time.
public final class SnapshotRule {
    private static final int SNAPSHOTS_IN_WINDOW = 8;

    /// What an entry may take beside its own bytes: a block, where each is written alone.
    private static final long ENTRY_BYTES = 4096;

    /// Entries and bytes up to the first part, and the last part.
    private record Snapshot(long firstEntry, long firstBytes, long position, long lastEntry) {}

    private final long window;
    private final long bytesMax;
    private long entries;
    private long bytes;
    /// Whole ones, the oldest first: those that may still be needed.
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

    /// How many entries it was told of: the number of the newest one.
    public long entries() {
        return entries;
    }

    /// How many rows were committed since the newest whole snapshot was begun, when the oracle is at this
    /// position.
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
