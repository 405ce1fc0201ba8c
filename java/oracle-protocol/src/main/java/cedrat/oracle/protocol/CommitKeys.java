package cedrat.oracle.protocol;

import static cedrat.oracle.protocol.Protocol.LONG;
import static cedrat.oracle.protocol.Protocol.SHORT;

import java.util.Arrays;

/// Keys and ranges of a commit, of tables whose scans are checked: the keys that the transaction has
/// written there, and the ranges that it has scanned. Encoded as in a frame, so that they need only be copied.
/// For one thread at a time.
public final class CommitKeys {
    private byte[] keys = {};
    private int keysLength;
    private int keyCount;
    private byte[] ranges = {};
    private int rangesLength;
    private int rangeCount;

    /// None.
    public CommitKeys() {}

    /// Adds a key that was written.
    ///
    /// @param table the table's number, any that all clients have for it
    /// @throws IllegalArgumentException if it is longer than [Protocol#KEY_BYTES_MAX]
    public void write(long table, byte[] key) {
        check(key);
        int end = keysLength + lengthOf(key.length);
        keys = room(keys, end);
        LONG.set(keys, keysLength, table);
        SHORT.set(keys, keysLength + Long.BYTES, (short) key.length);
        System.arraycopy(key, 0, keys, end - key.length, key.length);
        keysLength = end;
        keyCount++;
    }

    /// Adds a range that was scanned: from `from` on, and before `to`; up to the last key if that is empty.
    ///
    /// @throws IllegalArgumentException if a key is longer than [Protocol#KEY_BYTES_MAX]
    public void scan(long table, byte[] from, byte[] to) {
        check(from);
        check(to);
        int lengths = rangesLength + Long.BYTES;
        int fromAt = lengths + 2 * Short.BYTES;
        int end = fromAt + from.length + to.length;
        ranges = room(ranges, end);
        LONG.set(ranges, rangesLength, table);
        SHORT.set(ranges, lengths, (short) from.length);
        SHORT.set(ranges, lengths + Short.BYTES, (short) to.length);
        System.arraycopy(from, 0, ranges, fromAt, from.length);
        System.arraycopy(to, 0, ranges, end - to.length, to.length);
        rangesLength = end;
        rangeCount++;
    }

    /// Returns the number of keys.
    public int keys() {
        return keyCount;
    }

    /// Returns the number of ranges.
    public int ranges() {
        return rangeCount;
    }

    /// Whether it has neither.
    public boolean isEmpty() {
        return keyCount + rangeCount == 0;
    }

    /// Returns the number of bytes that they add to a commit.
    public int length() {
        return isEmpty() ? 0 : 2 * Integer.BYTES + keysLength + rangesLength;
    }

    /// Returns the number of bytes that a written key of this length adds to a commit that already has keys.
    public static int lengthOf(int keyLength) {
        return Long.BYTES + Short.BYTES + keyLength;
    }

    /// Copies all behind the two counts to where there is room for it.
    void copyTo(byte[] bytes, int at) {
        System.arraycopy(keys, 0, bytes, at, keysLength);
        System.arraycopy(ranges, 0, bytes, at + keysLength, rangesLength);
    }

    private static void check(byte[] key) {
        if (key.length > Protocol.KEY_BYTES_MAX) {
            throw new IllegalArgumentException("cannot write a key of " + key.length + " bytes in a table whose scans "
                    + "are checked: at most " + Protocol.KEY_BYTES_MAX + " are possible");
        }
    }

    private static byte[] room(byte[] bytes, int end) {
        return bytes.length < end ? Arrays.copyOf(bytes, Math.max(2 * bytes.length, end)) : bytes;
    }
}
