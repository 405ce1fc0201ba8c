package cedrat.persist.codec;

import java.util.BitSet;
import java.util.function.IntPredicate;

/// The parts of a persistent map, or of a set that has its elements in a map, and which of them are loaded. Each part
/// is a number of neighbouring buckets of the hash table; buckets of other parts are null in memory.
///
/// It does not lead to the map, its table or its nodes: an identity leads to it, and would keep them.
///
/// **Threads:** any, under its monitor. The number of entries and the words are those of the last commit, and change
/// under the write lock of the map.
public final class Parts {
    /// Binary logarithm of the number of buckets of a part.
    private static final int BUCKET_BITS = 5;

    /// The number of unloaded parts that are looked at, whether the program has forgotten them, for each further one.
    private static final int LOOKS = 2;

    /// Number of buckets of the table.
    public final int buckets;
    /// Whether the collection is a map, and not a set.
    public final boolean hasValues;
    /// The references to the parts; 0 of those without entries.
    public final long[] words;
    /// Number of entries by the last commit.
    public int size;
    /// The collection's identity, by which it is found.
    public ObjectIdentity owner;

    /// Parts that are loaded, and parts that were unloaded and may have nodes that the program has yet.
    private final MapPart[] known;
    /// Unloaded parts, oldest first, each with the next one.
    private MapPart oldest;

    private MapPart youngest;
    private int unloads;

    public Parts(int buckets, int size, boolean hasValues) {
        this.buckets = buckets;
        this.size = size;
        this.hasValues = hasValues;
        words = new long[count(buckets)];
        known = new MapPart[words.length];
    }

    /// Returns the number of parts that a table has.
    public static int count(int buckets) {
        return (buckets - 1 >>> BUCKET_BITS) + 1;
    }

    /// Returns the part of a bucket.
    public static int part(int bucket) {
        return bucket >>> BUCKET_BITS;
    }

    /// Returns the first bucket of a part.
    public static int first(int part) {
        return part << BUCKET_BITS;
    }

    /// Returns the number of times that a part was unloaded.
    public synchronized int unloads() {
        return unloads;
    }

    /// Whether the buckets of a part are as the map has them.
    public synchronized boolean isLoaded(int part) {
        return known[part] != null && known[part].isLoaded;
    }

    /// Returns a part that is in memory, loaded or not, or null.
    public synchronized MapPart get(int part) {
        return known[part];
    }

    /// Returns which buckets are not loaded at present. What it returns leads to nothing.
    public synchronized IntPredicate unloaded() {
        BitSet unloaded = new BitSet(known.length);
        for (int part = 0; part < known.length; part++) {
            unloaded.set(part, !isLoaded(part));
        }
        return bucket -> unloaded.get(part(bucket));
    }

    /// Marks a part as loaded.
    public synchronized void loaded(MapPart part) {
        known[part.number] = part;
        part.parts = this;
        part.isLoaded = true;
    }

    /// Marks a part as unloaded.
    ///
    /// @param nodes the identities of its nodes, in their order
    public synchronized void unloaded(MapPart part, PartIdentity[] nodes) {
        part.isLoaded = false;
        part.left = nodes;
        unloads++;
        enqueue(part);
        for (int i = 0; i < LOOKS && oldest != null; i++) {
            MapPart first = oldest;
            oldest = first.next;
            youngest = oldest == null ? null : youngest;
            first.next = null;
            if (known[first.number] == first && !first.isLoaded) {
                if (first.isForgotten()) {
                    known[first.number] = null;
                } else {
                    enqueue(first);
                }
            }
        }
    }

    private void enqueue(MapPart part) {
        if (part.next != null || part == youngest) {
            return;
        }
        if (youngest == null) {
            oldest = part;
        } else {
            youngest.next = part;
        }
        youngest = part;
    }
}
