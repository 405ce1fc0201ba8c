package cedrat.oracle.state;

/// Keys that the newest commits have written, of tables whose scans are checked (O9). A row's id does not
/// show whether its key lies in a scanned range, so writers of such tables send keys as well.
///
/// The history is a ring of entries and a ring of bytes. It keeps as many of the newest keys as fit both. So
/// its content depends on the keys alone, and a replay keeps the same. A forgotten key may have been in any
/// range; [#forgottenBefore] says so, as T_max does for rows.
///
/// - H1  A key that was put is found until it is forgotten. A forgotten key was put below [#forgottenBefore],
///   which never goes back.
///
/// A lookup takes time proportional to the keys that were put since; ranges are few, and a transaction is
/// short. Memory is allocated when the first key is put. For one thread at a time.
final class KeyHistory {
    /// Bytes for each key of the ring. Where keys are longer, there are fewer of them.
    private static final int BYTES_PER_KEY = 64;

    private final int capacity;
    private long[] positions = {};
    private long[] tables;
    private int[] begins;
    private int[] lengths;
    private byte[] bytes;

    /// Numbers of entries and bytes only increase; each lies at its number modulo the capacity. The bytes that
    /// are kept end at `endByte`.
    private long first;
    private long end;
    private long endByte;
    private long keptBytes;
    /// A key whose bytes go over the end of the ring.
    private byte[] wrapped = {};

    private long forgottenBefore;

    /// Of at most so many keys, a power of two. `position` is the position of the next row.
    KeyHistory(int capacity, long position) {
        this.capacity = capacity;
        forgottenBefore = position;
    }

    /// Begins anew: everything that was put before this position is forgotten.
    void restart(long position) {
        first = end;
        keptBytes = 0;
        forgottenBefore = position;
    }

    /// Above the position of every key that was forgotten.
    long forgottenBefore() {
        return forgottenBefore;
    }

    /// Returns the number of keys that are kept.
    long count() {
        return end - first;
    }

    /// The memory it takes.
    long bytes() {
        return positions.length == 0 ? 0 : (long) capacity * (2 * Long.BYTES + 2 * Integer.BYTES + BYTES_PER_KEY);
    }

    /// Puts keys of a commit whose first row has this position, which is above all before.
    void put(Keys keys, long position) {
        if (keys.count() > 0 && positions.length == 0) {
            positions = new long[capacity];
            tables = new long[capacity];
            begins = new int[capacity];
            lengths = new int[capacity];
            bytes = new byte[capacity * BYTES_PER_KEY];
        }
        for (int index = 0; index < keys.count(); index++) {
            put(keys, index, position);
        }
    }

    private void put(Keys keys, int index, long position) {
        int length = keys.length(index);
        while (first < end && (end - first == capacity || keptBytes + length > bytes.length)) {
            int oldest = at(first++);
            keptBytes -= lengths[oldest];
            forgottenBefore = positions[oldest] + 1;
        }
        if (length > bytes.length) {
            forgottenBefore = position + 1; // it does not fit at all
            return;
        }
        int at = at(end++);
        positions[at] = position;
        tables[at] = keys.table(index);
        lengths[at] = length;
        begins[at] = (int) endByte & bytes.length - 1;
        int untilEnd = Math.min(length, bytes.length - begins[at]);
        System.arraycopy(keys.bytes(), keys.begin(index), bytes, begins[at], untilEnd);
        System.arraycopy(keys.bytes(), keys.begin(index) + untilEnd, bytes, 0, length - untilEnd);
        endByte += length;
        keptBytes += length;
    }

    /// Whether a key in one of these ranges was put at this position or later, or may have been and is
    /// forgotten.
    boolean isWritten(KeyRanges ranges, long since) {
        if (forgottenBefore > since) {
            return true;
        }
        for (long entry = end - 1; entry >= first && positions[at(entry)] >= since; entry--) {
            if (isIn(ranges, at(entry))) {
                return true;
            }
        }
        return false;
    }

    private boolean isIn(KeyRanges ranges, int at) {
        int begin = begins[at];
        int length = lengths[at];
        int untilEnd = bytes.length - begin;
        if (length <= untilEnd) {
            return ranges.contain(tables[at], bytes, begin, length);
        }
        if (wrapped.length < length) {
            wrapped = new byte[length];
        }
        System.arraycopy(bytes, begin, wrapped, 0, untilEnd);
        System.arraycopy(bytes, 0, wrapped, untilEnd, length - untilEnd);
        return ranges.contain(tables[at], wrapped, 0, length);
    }

    private int at(long entry) {
        return (int) entry & capacity - 1;
    }
}
