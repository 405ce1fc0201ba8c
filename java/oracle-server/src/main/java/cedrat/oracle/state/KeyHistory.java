package cedrat.oracle.state;

/// Keys that the newest commits have written, of tables whose scans are checked (O9). A row's id does not
/// show whether its key lies in a scanned range, so writers of such tables send keys as well.
///
/// The history keeps as many of the newest keys as fit its ring ([KeyRing]). So its content depends on the keys
/// alone, and a replay keeps the same. A forgotten key may have been in any range; [#forgottenBefore] says so,
/// as T_max does for rows. A key that was put again since is forgotten without a trace: the newer one is kept.
///
/// - H1  A key that was put is found until it is forgotten. A forgotten key was put below [#forgottenBefore],
///   which never goes back.
/// - H2  The check of a range visits a number of keys that is logarithmic in the number of kept keys, in whatever
///   order they were put, and however many of them are too old to matter. So does each put.
///
/// For one thread at a time.
final class KeyHistory {
    /// Maximum number of keys, as a power of two: their bytes then take 1 GiB.
    private static final int KEYS_LOG2_MAX = 24;

    /// Number of keys, as a power of two, up to which the history keeps one for each row.
    private static final int KEYS_LOG2_MIN = 16;

    /// A key takes about six times as much memory as a row, so there are fewer of them.
    private static final int ROWS_PER_KEY_LOG2 = 2;

    private final KeyRing ring;
    private final KeyTree tree;
    private byte[] forgotten = {};
    private long forgottenBefore;

    /// Of at most so many keys, a power of two. `position` is the position of the next row.
    KeyHistory(int capacity, long position) {
        this(new KeyRing(capacity, KeyRing.CHUNK_KEYS), position);
    }

    KeyHistory(KeyRing ring, long position) {
        this.ring = ring;
        tree = new KeyTree(ring);
        forgottenBefore = position;
    }

    /// Returns the capacity of the history beside a map of `2^rowsLog2` rows: a quarter as many keys, but no
    /// fewer than 2^16, or than rows.
    static int capacity(int rowsLog2) {
        int least = Math.min(rowsLog2, KEYS_LOG2_MIN);
        return 1 << Math.clamp(rowsLog2 - ROWS_PER_KEY_LOG2, least, KEYS_LOG2_MAX);
    }

    /// Begins anew: everything that was put before this position is forgotten.
    void restart(long position) {
        ring.clear();
        tree.clear();
        forgottenBefore = position;
    }

    /// Above the position of every key that was forgotten, except keys that were put again.
    long forgottenBefore() {
        return forgottenBefore;
    }

    /// Returns the number of keys that are kept.
    long count() {
        return ring.end() - ring.first();
    }

    /// Returns the number of kept keys that were visited so far.
    long visited() {
        return tree.visited();
    }

    /// The memory it takes.
    long bytes() {
        return ring.bytes();
    }

    /// Puts keys of a commit whose first row has this position, which is above all before.
    void put(Keys keys, long position) {
        for (int index = 0; index < keys.count(); index++) {
            put(keys, index, position);
        }
    }

    private void put(Keys keys, int index, long position) {
        while (count() > 0 && !ring.fits(keys.length(index))) {
            forgetOldest();
        }
        if (!ring.fits(keys.length(index))) {
            forgottenBefore = position + 1; // it does not fit at all
            return;
        }
        int slot = ring.add(keys, index, position);
        tree.insert(slot, keys.table(index), keys.bytes(), keys.begin(index), keys.length(index));
    }

    private void forgetOldest() {
        int oldest = ring.slot(ring.first());
        if (tree.contains(oldest)) {
            int length = ring.length(oldest);
            if (forgotten.length < length) {
                forgotten = new byte[length];
            }
            ring.copy(oldest, forgotten);
            tree.remove(oldest, ring.table(oldest), forgotten, length);
            forgottenBefore = ring.position(oldest) + 1;
        }
        ring.removeFirst();
    }

    /// Whether a key in one of these ranges was put at this position or later, or may have been and is
    /// forgotten.
    boolean isWritten(KeyRanges ranges, long since) {
        if (forgottenBefore > since) {
            return true;
        }
        long entry = ring.firstSince(since);
        for (int range = 0; entry < ring.end() && range < ranges.count(); range++) {
            if (tree.hasSince(entry, ranges, range)) {
                return true;
            }
        }
        return false;
    }
}
