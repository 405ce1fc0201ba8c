package cedrat.oracle.state;

import java.util.Arrays;

/// Keys of rows, each with a number for its table, in arrays that are used again and again. Keys are ordered
/// by their bytes, without a sign.
public final class Keys {
    private long[] tables = new long[16];
    /// Where each key ends; it begins where the one before it ends.
    private int[] ends = new int[16];
    private byte[] bytes = new byte[256];
    private int count;

    /// None.
    public Keys() {}

    /// Empties it.
    public void clear() {
        count = 0;
    }

    /// Adds a key: `length` bytes from `at` on.
    public void add(long table, byte[] from, int at, int length) {
        if (count == tables.length) {
            tables = Arrays.copyOf(tables, 2 * count);
            ends = Arrays.copyOf(ends, 2 * count);
        }
        int begin = begin(count);
        if (bytes.length - begin < length) {
            bytes = Arrays.copyOf(bytes, Math.max(2 * bytes.length, begin + length));
        }
        System.arraycopy(from, at, bytes, begin, length);
        tables[count] = table;
        ends[count] = begin + length;
        count++;
    }

    /// Returns the number of keys.
    public int count() {
        return count;
    }

    /// The table of the key with this index.
    public long table(int index) {
        return tables[index];
    }

    /// Returns the offset in [#bytes] at which the key with this index begins.
    public int begin(int index) {
        return index == 0 ? 0 : ends[index - 1];
    }

    /// Returns the length in bytes of the key with this index.
    public int length(int index) {
        return ends[index] - begin(index);
    }

    /// The bytes of all keys; another array when one was added.
    public byte[] bytes() {
        return bytes;
    }
}
