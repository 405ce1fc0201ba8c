package cedrat.persist;

import java.util.Arrays;

/// Which cells the stored form of a collection has, and which of them are free. An entry of the collection keeps
/// its cell as long as it is there, so that a change of few entries is a change of few cells. Whenever the whole
/// collection is written, its cells are others.
///
/// **Threads:** as the collection, whose write lock the commit has.
final class Cells {
    /// Number of cells, free ones included.
    private int count;

    private int[] free = {};
    private int freeCount;
    /// Cell of the first entry, for a form that has an order of its own; otherwise -1.
    int first;

    /// As many as there are entries, one after the other.
    Cells(int count) {
        this.count = count;
        first = count == 0 ? -1 : 0;
    }

    int count() {
        return count;
    }

    int freeCount() {
        return freeCount;
    }

    /// The cell that is free since the `back`th last time that one became free.
    int free(int back) {
        return free[freeCount - 1 - back];
    }

    void addFree(int cell) {
        if (freeCount == free.length) {
            free = Arrays.copyOf(free, Math.max(8, 2 * freeCount));
        }
        free[freeCount++] = cell;
    }

    /// Some of the free ones that became free last are taken, and others are added.
    void take(int ofFree, int count) {
        freeCount -= ofFree;
        this.count = count;
    }
}
