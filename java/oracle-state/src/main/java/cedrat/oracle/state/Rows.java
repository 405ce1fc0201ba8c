package cedrat.oracle.state;

import java.util.Arrays;

/// Ids of rows, in an array that is used again and again. An id is any number; two rows with the same id conflict.
public final class Rows {
    private long[] ids = new long[32];
    private int count;

    /// None.
    public Rows() {}

    /// Empties it.
    public void clear() {
        count = 0;
    }

    /// Adds an id.
    public void add(long id) {
        if (count == ids.length) {
            ids = Arrays.copyOf(ids, 2 * count);
        }
        ids[count++] = id;
    }

    /// How many there are.
    public int count() {
        return count;
    }

    /// The id with this index.
    public long get(int index) {
        return ids[index];
    }
}
