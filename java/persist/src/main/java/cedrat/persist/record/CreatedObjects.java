package cedrat.persist.record;

import cedrat.persist.memory.Cursors;
import java.lang.ref.WeakReference;
import java.util.ArrayDeque;
import java.util.Arrays;
import java.util.Set;

/// The objects that a transaction has made and that are still there, in their order.
///
/// Their old values are not kept: after a rollback what was restored does not lead to them. What leads to
/// them otherwise, an exception that leaves the transaction or a table of the JDK's own, finds them as they
/// were left.
///
/// The newest are held as they are, which costs least; those before them weakly, and those that are gone make
/// room: what a long transaction makes and drops is collected before its end.
///
/// **Threads:** one at a time.
public final class CreatedObjects {
    /// Most transactions make few, and each makes its arrays anew. So many are looked through sooner than an
    /// object is given a hash, to which the virtual machine has to be called.
    private static final int CAPACITY = 8;

    private static final int STRONG_MAX = 1024;

    /// Objects, and weak references to others.
    private Object[] objects = new Object[CAPACITY];

    /// Null, as the two below, while there are few.
    private int[] hashes;
    /// The next older object with the same hash, or -1.
    private int[] older;
    /// The newest object of each hash, or -1; as many as a power of two.
    private int[] newest;

    private int size;
    /// Number of the first object that is held strongly; those before are held weakly.
    private int strong;

    private static final class Weak extends WeakReference<Object> {
        Weak(Object object) {
            super(object);
        }
    }

    /// Returns the number of objects.
    int size() {
        return size;
    }

    /// Whether the object was made since there were `mark`.
    public boolean has(int mark, Object object) {
        if (size == mark) {
            return false;
        }
        if (newest == null) {
            int entry = size - 1;
            while (entry >= mark && objects[entry] != object) {
                entry--;
            }
            return entry >= mark;
        }
        int entry = newest[hash(object) & newest.length - 1];
        while (entry >= mark) {
            if (objects[entry] == object || objects[entry] instanceof Weak weak && weak.refersTo(object)) {
                return true;
            }
            entry = older[entry];
        }
        return false;
    }

    /// One more.
    ///
    /// @param innermost whose mark, and whose outer ones' marks, change when those are left out that are gone
    void add(Object object, TransactionLevel innermost) {
        if (size - strong == STRONG_MAX) {
            weaken();
        }
        if (size == objects.length) {
            forgetGone(innermost);
            if (size > objects.length / 2) {
                grow();
            }
        }
        objects[size] = object;
        if (newest != null) {
            hashes[size] = hash(object);
            link(size);
        }
        size++;
    }

    /// Forgets those that were made since there were `mark`, which is rolled back.
    void truncate(int mark) {
        try {
            // What shows a part of a collection was made before what runs over that part.
            for (int entry = mark; entry < size; entry++) {
                Object object = objects[entry] instanceof Weak weak ? weak.get() : objects[entry];
                if (object != null) {
                    Cursors.outdate(object);
                }
            }
        } finally {
            forget(mark);
        }
    }

    /// Invalidates the objects made since there were `mark` that run over a Java collection without a modification
    /// count that the log is about to restore.
    void outdateUncounted(int mark, UndoLog log, int logMark) {
        Set<Object> restored = null;
        for (int entry = mark; entry < size; entry++) {
            Object object = objects[entry] instanceof Weak weak ? weak.get() : objects[entry];
            Object deque = object == null ? null : Cursors.deque(object);
            if (deque == null) {
                continue;
            }
            if (restored == null) {
                restored = log.kept(logMark, ArrayDeque.class);
            }
            if (restored.contains(deque)) {
                Cursors.outdateUncounted(object);
            }
        }
    }

    private void forget(int mark) {
        while (size > mark) {
            size--;
            if (newest != null) {
                newest[hashes[size] & newest.length - 1] = older[size];
            }
            objects[size] = null;
        }
        strong = Math.min(strong, size);
    }

    private static int hash(Object object) {
        int hash = System.identityHashCode(object);
        return hash ^ hash >>> 15;
    }

    private void link(int entry) {
        int bucket = hashes[entry] & newest.length - 1;
        older[entry] = newest[bucket];
        newest[bucket] = entry;
    }

    private void weaken() {
        // Memory may run out at each of these, and the list is what it was then.
        for (; strong < size; strong++) {
            objects[strong] = new Weak(objects[strong]);
        }
    }

    private void forgetGone(TransactionLevel innermost) {
        for (int entry = 0; entry < size; entry++) {
            if (objects[entry] instanceof Weak weak && weak.refersTo(null)) {
                objects[entry] = null;
            }
        }
        for (TransactionLevel level = innermost; level != null; level = level.outer) {
            level.madeMark -= gone(level.madeMark);
        }
        strong -= gone(strong);
        int kept = 0;
        for (int entry = 0; entry < size; entry++) {
            if (objects[entry] != null) {
                objects[kept] = objects[entry];
                if (hashes != null) {
                    hashes[kept] = hashes[entry];
                }
                kept++;
            }
        }
        Arrays.fill(objects, kept, size, null);
        size = kept;
        relink();
    }

    private int gone(int count) {
        int gone = 0;
        for (int entry = 0; entry < count; entry++) {
            gone += objects[entry] == null ? 1 : 0;
        }
        return gone;
    }

    private void grow() {
        int capacity = 2 * objects.length;
        // Memory may run out at each of these, and the list is what it was then.
        Object[] moreObjects = Arrays.copyOf(objects, capacity);
        int[] moreHashes = new int[capacity];
        for (int entry = 0; entry < size; entry++) {
            moreHashes[entry] = hashes == null ? hash(objects[entry]) : hashes[entry];
        }
        int[] moreOlder = new int[capacity];
        int[] moreNewest = new int[capacity];
        objects = moreObjects;
        hashes = moreHashes;
        older = moreOlder;
        newest = moreNewest;
        relink();
    }

    private void relink() {
        if (newest == null) {
            return;
        }
        Arrays.fill(newest, -1);
        for (int entry = 0; entry < size; entry++) {
            link(entry);
        }
    }
}
