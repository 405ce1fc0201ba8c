package cedrat.persist.record;

import cedrat.persist.memory.Slot;
import java.util.Arrays;
import java.util.Collections;
import java.util.IdentityHashMap;
import java.util.Set;

/// Before-images of a transaction, oldest first: places and their old values (Transactions for Java,
/// §3.3).
///
/// A place is kept once for each level of nesting, however often it is stored to: what was there when
/// the level began is all that its rollback needs. Entries are in parallel arrays. A few are looked through; of
/// more they are found by chains from a table of hashes, where an entry is always the first of its chain when it
/// is added, so that entries can be taken off the end again without searching.
///
/// **Threads:** one at a time.
public final class UndoLog {
    /// Most transactions are small, and each makes its arrays anew. So many entries are looked through sooner than
    /// an object is given a hash, to which the virtual machine has to be called.
    private static final int CAPACITY = 8;

    private Object[] bases = new Object[CAPACITY];
    private Slot[] slots = new Slot[CAPACITY];
    private int[] indexes = new int[CAPACITY];
    private long[] bits = new long[CAPACITY];
    private Object[] values = new Object[CAPACITY];
    /// The next older entry with the same hash, or -1. Null while there are few.
    private int[] older;
    /// The newest entry of each hash, or -1; as many as a power of two. Null while there are few.
    private int[] newest;

    private int size;

    /// Returns the number of old values.
    public int size() {
        return size;
    }

    /// Returns the owner of an entry's place: an object, an array or a class.
    public Object base(int entry) {
        return bases[entry];
    }

    /// The kind of an entry's place.
    public Slot slot(int entry) {
        return slots[entry];
    }

    /// The first element of an entry's place in its array.
    public int index(int entry) {
        return indexes[entry];
    }

    /// An entry's old value, of a primitive type; or how many elements the place has.
    public long bits(int entry) {
        return bits[entry];
    }

    /// An entry's old value or values.
    public Object value(int entry) {
        return values[entry];
    }

    /// Whether a place was kept since the log had `mark` entries.
    public boolean has(int mark, Object base, Slot slot, int index) {
        return find(mark, base, slot, index) >= 0;
    }

    /// Whether these elements of an array were kept at once since the log had `mark` entries.
    boolean hasElements(int mark, Object array, int from, int length) {
        int entry = find(mark, array, Slot.ELEMENTS, from);
        return entry >= 0 && bits[entry] >= length;
    }

    /// The objects of a class of which a place was kept since the log had `mark` entries.
    Set<Object> kept(int mark, Class<?> type) {
        Set<Object> kept = Collections.newSetFromMap(new IdentityHashMap<>());
        for (int entry = mark; entry < size; entry++) {
            if (type.isInstance(bases[entry])) {
                kept.add(bases[entry]);
            }
        }
        return kept;
    }

    private int find(int mark, Object base, Slot slot, int index) {
        if (newest == null) {
            return lookThrough(mark, base, slot, index);
        }
        int entry = newest[hash(base, slot, index)];
        while (entry >= mark) {
            if (bases[entry] == base && slots[entry] == slot && indexes[entry] == index) {
                return entry;
            }
            entry = older[entry];
        }
        return -1;
    }

    private int lookThrough(int mark, Object base, Slot slot, int index) {
        int entry = size - 1;
        while (entry >= mark && !(bases[entry] == base && slots[entry] == slot && indexes[entry] == index)) {
            entry--;
        }
        return entry >= mark ? entry : -1;
    }

    private int hash(Object base, Slot slot, int index) {
        int hash = (System.identityHashCode(base) * 31 + System.identityHashCode(slot)) * 31 + index;
        return (hash ^ hash >>> 15) & (newest.length - 1);
    }

    /// Keeps the old value of a place.
    public void add(Object base, Slot slot, int index, long oldBits, Object oldValue) {
        if (size == bases.length) {
            grow();
        }
        bases[size] = base;
        slots[size] = slot;
        indexes[size] = index;
        bits[size] = oldBits;
        values[size] = oldValue;
        link(size++);
    }

    private void link(int entry) {
        if (newest == null) {
            return;
        }
        int hash = hash(bases[entry], slots[entry], indexes[entry]);
        older[entry] = newest[hash];
        newest[hash] = entry;
    }

    private void unlink(int entry) {
        if (newest == null) {
            return;
        }
        newest[hash(bases[entry], slots[entry], indexes[entry])] = older[entry];
    }

    private void grow() {
        int capacity = 2 * size;
        // Memory may run out at each of these, and the log is what it was then.
        Object[] moreBases = Arrays.copyOf(bases, capacity);
        Slot[] moreSlots = Arrays.copyOf(slots, capacity);
        int[] moreIndexes = Arrays.copyOf(indexes, capacity);
        long[] moreBits = Arrays.copyOf(bits, capacity);
        Object[] moreValues = Arrays.copyOf(values, capacity);
        int[] moreOlder = new int[capacity];
        int[] moreNewest = new int[capacity];
        bases = moreBases;
        slots = moreSlots;
        indexes = moreIndexes;
        bits = moreBits;
        values = moreValues;
        older = moreOlder;
        newest = moreNewest;
        Arrays.fill(newest, -1);
        for (int entry = 0; entry < size; entry++) {
            link(entry);
        }
    }

    /// Puts back, newest first, what was overwritten since the log had `mark` entries, and forgets it.
    ///
    /// If one place cannot be restored, all others are; what the first such place has said is thrown then.
    void restore(int mark) {
        Throwable failure = null;
        while (size > mark) {
            int entry = size - 1;
            unlink(entry);
            try {
                slots[entry].restore(bases[entry], indexes[entry], bits[entry], values[entry]);
            } catch (RuntimeException | Error e) {
                if (failure == null) {
                    failure = e;
                } else if (failure != e) {
                    failure.addSuppressed(e);
                }
            }
            forget(entry);
            size = entry;
        }
        switch (failure) {
            case null -> {}
            case Error error -> throw error;
            case RuntimeException problem -> throw problem;
            default -> throw new AssertionError(failure);
        }
    }

    /// A nested transaction that began with `mark` entries becomes a part of the one around it, which began
    /// with `outerMark`: of a place that both have written the older value is enough.
    void merge(int outerMark, int mark) {
        int end = size;
        for (int entry = end - 1; entry >= mark; entry--) {
            unlink(entry);
        }
        size = mark;
        for (int entry = mark; entry < end; entry++) {
            Object base = bases[entry];
            Slot slot = slots[entry];
            int index = indexes[entry];
            boolean isKnown = slot == Slot.ELEMENTS
                    ? hasElements(outerMark, base, index, (int) bits[entry])
                    : has(outerMark, base, slot, index);
            if (!isKnown) {
                add(base, slot, index, bits[entry], values[entry]);
            }
        }
        for (int entry = size; entry < end; entry++) {
            forget(entry);
        }
    }

    private void forget(int entry) {
        bases[entry] = null;
        slots[entry] = null;
        values[entry] = null;
    }
}
