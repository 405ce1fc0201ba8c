package cedrat.persist;

import java.util.Arrays;

/// The objects that a transaction has made, in their order.
///
/// Their old values are not kept: after a rollback what was restored does not lead to them. What leads to
/// them otherwise, an exception that leaves the transaction or a table of the JDK's own, finds them as they
/// were left.
///
/// **Threads:** one at a time.
final class MadeObjects {
    private static final int CAPACITY = 64;

    private Object[] objects = new Object[CAPACITY];
    /// The next older object with the same hash, or -1.
    private int[] older = new int[CAPACITY];
    /// The newest object of each hash, or -1; as many as a power of two.
    private int[] newest = new int[CAPACITY];

    private int size;

    MadeObjects() {
        Arrays.fill(newest, -1);
    }

    /// How many there are.
    int size() {
        return size;
    }

    /// Whether the object was made since there were `mark`.
    boolean has(int mark, Object object) {
        if (size == mark) {
            return false;
        }
        int entry = newest[hash(object)];
        while (entry >= mark) {
            if (objects[entry] == object) {
                return true;
            }
            entry = older[entry];
        }
        return false;
    }

    /// One more.
    void add(Object object) {
        if (size == objects.length) {
            grow();
        }
        objects[size] = object;
        link(size++);
    }

    /// Forgets those that were made since there were `mark`.
    void truncate(int mark) {
        while (size > mark) {
            size--;
            newest[hash(objects[size])] = older[size];
            objects[size] = null;
        }
    }

    private int hash(Object object) {
        int hash = System.identityHashCode(object);
        return (hash ^ hash >>> 15) & (newest.length - 1);
    }

    private void link(int entry) {
        int hash = hash(objects[entry]);
        older[entry] = newest[hash];
        newest[hash] = entry;
    }

    private void grow() {
        int capacity = 2 * size;
        // Memory may run out at each of these, and the list is what it was then.
        Object[] moreObjects = Arrays.copyOf(objects, capacity);
        int[] moreOlder = new int[capacity];
        int[] moreNewest = new int[capacity];
        objects = moreObjects;
        older = moreOlder;
        newest = moreNewest;
        Arrays.fill(newest, -1);
        for (int entry = 0; entry < size; entry++) {
            link(entry);
        }
    }
}
