package cedrat.persist.codec;

import java.util.Arrays;

/// Which cells the stored form of a collection has, and which of them are free. An entry of the collection keeps
/// its cell as long as it is there, so that a change of few entries is a change of few cells. Whenever the whole
/// collection is written, its cells are others.
///
/// **Threads:** as the collection, whose write lock the commit has.
public final class Cells {
    /// Number of cells, free ones included.
    private int count;

    private int[] free = {};
    private int freeCount;
    /// Cell of the first entry, for a form that has an order of its own; otherwise -1.
    public int first;
    /// Number of buckets of the hash table for which it was found that the collection stays in cells.
    public int buckets;

    /// As many as there are entries, one after the other.
    public Cells(int count) {
        this.count = count;
        first = count == 0 ? -1 : 0;
    }

    public int count() {
        return count;
    }

    public int freeCount() {
        return freeCount;
    }

    /// The cell that is free since the `back`th last time that one became free.
    public int free(int back) {
        return free[freeCount - 1 - back];
    }

    public void addFree(int cell) {
        if (freeCount == free.length) {
            free = Arrays.copyOf(free, Math.max(8, 2 * freeCount));
        }
        free[freeCount++] = cell;
    }

    /// Some of the free ones that became free last are taken, and others are added.
    public void take(int ofFree, int count) {
        freeCount -= ofFree;
        this.count = count;
    }
}
