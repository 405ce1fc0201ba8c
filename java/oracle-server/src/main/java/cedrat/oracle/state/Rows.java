package cedrat.oracle.state;

import java.util.Arrays;

/// Ids of rows, in an array that is used again and again. An id is any number; two rows with the same id
/// conflict.
public final class Rows {
    private long[] ids = new long[32];
    private int count;

    /// Where a conflict map looks for them. It is kept here, so that it can be found out before the map
    /// looks.
    private int[] homes = new int[32];

    private long[] keys = new long[32];
    private ConflictMap hashedBy;

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
        hashedBy = null;
    }

    /// Returns the number of rows.
    public int count() {
        return count;
    }

    /// The id with this index.
    public long get(int index) {
        return ids[index];
    }

    boolean isHashedBy(ConflictMap map) {
        return hashedBy == map;
    }

    /// A map is going to write where it looks for them; there is room.
    void hashedBy(ConflictMap map) {
        if (homes.length < count) {
            homes = new int[ids.length];
            keys = new long[ids.length];
        }
        hashedBy = map;
    }

    int[] homes() {
        return homes;
    }

    long[] keys() {
        return keys;
    }
}
