package cedrat.persist.codec;

import java.util.Arrays;
import java.util.function.IntFunction;

/// Changes of a transaction to a persistent object: some of its places, or the whole of it.
///
/// Places are ranges; of an object of a woven class those of its bytes, of an array those of its elements, and
/// of a list too. Assignments to the parts of a collection are in the undo log.
///
/// **Threads:** one at a time.
public final class Change {
    private static final int RANGE_BITS = 32;
    private static final int[] NO_ENTRIES = {};

    public final ObjectIdentity identity;
    public final Object object;
    /// The action after a change of few entries was stored, or null: the whole object was.
    public Runnable written;
    /// How one gets to what it leads to, by the number of a reference, or null: as its shape says.
    public IntFunction<String> steps;

    /// How the object is stored from this commit on, or null: as before.
    public Shape shape;

    private boolean isWhole;
    private long[] ranges = new long[2];
    private int count;
    private int[] entries = NO_ENTRIES;
    private int entryCount;

    public Change(ObjectIdentity identity, Object object) {
        this.identity = identity;
        this.object = object;
    }

    /// How one gets to a reference of it.
    public String step(int reference) {
        return steps == null ? identity.shape.step(object, reference) : steps.apply(reference);
    }

    public void addWhole() {
        isWhole = true;
    }

    public boolean isWhole() {
        return isWhole;
    }

    public void add(int from, int to) {
        if (from >= to) {
            return;
        }
        if (count == ranges.length) {
            ranges = Arrays.copyOf(ranges, 2 * count);
        }
        ranges[count++] = (long) from << RANGE_BITS | to;
    }

    /// Adds an entry of the undo log that belongs to a Java collection.
    public void addEntry(int entry) {
        if (entryCount == entries.length) {
            entries = Arrays.copyOf(entries, Math.max(4, 2 * entryCount));
        }
        entries[entryCount++] = entry;
    }

    /// Returns the changed entries, oldest first.
    public int[] entries() {
        return Arrays.copyOf(entries, entryCount);
    }

    /// Returns the number of places of the ranges; shared places count twice.
    public long size() {
        long size = 0;
        for (int i = 0; i < count; i++) {
            size += (int) ranges[i] - (int) (ranges[i] >>> RANGE_BITS);
        }
        return size;
    }

    /// Puts the ranges into their order, and makes one of those with less than `gap` between them.
    ///
    /// @return how many there are now
    public int merge(int gap) {
        if (count > 1) {
            Arrays.sort(ranges, 0, count);
        }
        int merged = 0;
        for (int i = 0; i < count; i++) {
            if (merged > 0 && from(i) <= (long) to(merged - 1) + gap) {
                int to = Math.max(to(merged - 1), to(i));
                ranges[merged - 1] = (long) from(merged - 1) << RANGE_BITS | to;
            } else {
                ranges[merged++] = ranges[i];
            }
        }
        count = merged;
        return merged;
    }

    /// Where a range begins, by its number.
    public int from(int range) {
        return (int) (ranges[range] >>> RANGE_BITS);
    }

    /// And where it ends.
    public int to(int range) {
        return (int) ranges[range];
    }
}
