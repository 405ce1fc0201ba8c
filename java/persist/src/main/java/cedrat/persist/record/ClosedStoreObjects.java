package cedrat.persist.record;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.lang.ref.WeakReference;
import java.util.function.IntPredicate;

/// The arrays and objects of the JDK that were persistent in stores which are closed by now, or parts of what was, as
/// far as they may change: they have no field that says so, as objects of woven classes have.
///
/// - A transaction that changes one of them gets an exception, as the change would not be stored.
///
/// They are held weakly, and without the store that had them, so that the virtual machine can collect them. Entries
/// of collected objects are removed when the array is full, and whenever a store is closed.
///
/// **Threads:** any. A query takes no lock: barriers ask about each object that a transaction changes.
public final class ClosedStoreObjects {
    private static final int CAPACITY = 64;
    private static final Entry[] NONE = {};
    private static final VarHandle ENTRY = MethodHandles.arrayElementVarHandle(Entry[].class);

    private static final class Entry extends WeakReference<Object> {
        final int hash;
        /// Elements that are not loaded, of the table of a collection that is loaded by part; otherwise null.
        final IntPredicate unloaded;

        Entry(Object object, IntPredicate unloaded) {
            super(object);
            this.unloaded = unloaded;
            hash = System.identityHashCode(object);
        }
    }

    /// Each at the first free place from that on which [#place] says. Half of them at most have one.
    private volatile Entry[] entries = NONE;
    /// Number of used places. Under the monitor.
    private int size;

    private static int place(int hash, Entry[] entries) {
        return (int) (hash * 0x9e37_79b9_7f4a_7c15L >>> 32) & entries.length - 1;
    }

    /// Whether an object is one of them.
    boolean has(Object object) {
        return find(object) != null;
    }

    /// Whether an array is the table of a collection of a closed store, and an element of it was not loaded.
    boolean isUnloaded(Object[] table, int index) {
        Entry known = find(table);
        return known != null && known.unloaded != null && known.unloaded.test(index);
    }

    private Entry find(Object object) {
        Entry[] all = entries;
        if (all.length == 0) {
            return null;
        }
        int hash = System.identityHashCode(object);
        int at = place(hash, all);
        Entry found = (Entry) ENTRY.getAcquire(all, at);
        while (found != null && !(found.hash == hash && found.refersTo(object))) {
            at = at + 1 & all.length - 1;
            found = (Entry) ENTRY.getAcquire(all, at);
        }
        return found;
    }

    /// A store that is closed leaves an object.
    ///
    /// @param unloaded of the table of a collection that is loaded by part, which elements are not; otherwise null.
    ///     It does not lead to the store
    public synchronized void add(Object object, IntPredicate unloaded) {
        if (2 * size >= entries.length) {
            lookThrough(1);
        }
        put(entries, new Entry(object, unloaded));
        size++;
    }

    /// Takes out what is gone.
    synchronized void lookThrough() {
        lookThrough(0);
    }

    /// @param more how many there is to be room for
    private void lookThrough(int more) {
        int live = 0;
        for (Entry entry : entries) {
            live += entry == null || entry.refersTo(null) ? 0 : 1;
        }
        int capacity = live + more == 0 ? 0 : CAPACITY;
        while (3 * live >= capacity && capacity != 0) {
            capacity *= 2;
        }
        Entry[] rest = capacity == 0 ? NONE : new Entry[capacity];
        int kept = 0;
        for (Entry entry : entries) {
            if (entry != null && !entry.refersTo(null)) {
                put(rest, entry);
                kept++;
            }
        }
        size = kept;
        entries = rest;
    }

    private static void put(Entry[] entries, Entry entry) {
        int at = place(entry.hash, entries);
        while (entries[at] != null) {
            at = at + 1 & entries.length - 1;
        }
        ENTRY.setRelease(entries, at, entry);
    }

    /// Returns the number of used places.
    synchronized int size() {
        return size;
    }
}
