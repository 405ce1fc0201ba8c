package cedrat.oracle.state;

import java.util.Arrays;

/// Ranges of keys of tables: from a key on, and before another; where that one is empty, up to the last. In
/// arrays that are used again and again.
public final class KeyRanges {
    private final Keys from = new Keys();
    private final Keys to = new Keys();

    /// None.
    public KeyRanges() {}

    /// Empties it.
    public void clear() {
        from.clear();
        to.clear();
    }

    /// Adds a range. Both keys lie in `bytes`.
    public void add(long table, byte[] bytes, int fromAt, int fromLength, int toAt, int toLength) {
        from.add(table, bytes, fromAt, fromLength);
        to.add(table, bytes, toAt, toLength);
    }

    /// Returns the number of ranges.
    public int count() {
        return from.count();
    }

    /// Whether a key lies in one of them.
    boolean contain(long table, byte[] bytes, int at, int length) {
        for (int index = 0; index < from.count(); index++) {
            if (from.table(index) == table
                    && compare(bytes, at, length, from, index) >= 0
                    && (to.length(index) == 0 || compare(bytes, at, length, to, index) < 0)) {
                return true;
            }
        }
        return false;
    }

    private static int compare(byte[] bytes, int at, int length, Keys keys, int index) {
        int begin = keys.begin(index);
        return Arrays.compareUnsigned(bytes, at, at + length, keys.bytes(), begin, begin + keys.length(index));
    }
}
