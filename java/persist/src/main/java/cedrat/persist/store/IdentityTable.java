package cedrat.persist.store;

import cedrat.persist.codec.IdentityEntry;
import cedrat.persist.codec.ObjectIdentity;
import cedrat.persist.codec.PartIdentity;
import cedrat.persist.codec.Parts;
import cedrat.persist.record.ClosedStoreObjects;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.lang.ref.WeakReference;
import java.util.Arrays;
import java.util.function.IntPredicate;

/// The persistent objects that are in memory: by their identities in the store, and those without a field for
/// it, of the JDK and arrays, by themselves.
///
/// Objects are held weakly. As long as the program has one, its identity leads to that very object, so that
/// `==` holds. Tables are divided into stripes, each with its own lock.
///
/// By identities, a stripe is an array that is probed, and not chains through the identities: to chain them anew
/// is to write to each, also to those that the virtual machine's collector has long put aside, and that it would
/// look at again for it, weak references as they are.
///
/// Entries of collected objects are removed when a stripe is added to for the first time after a garbage collection.
/// The table is not notified of single objects, because a queue of references would cost two locks for each.
///
/// **Threads:** any.
final class IdentityTable {
    private static final int STRIPE_BITS = 6;
    private static final int STRIPES = 1 << STRIPE_BITS;
    private static final int CAPACITY = 64;
    /// Number of low bits of an identity that distinguish neighbours: a line of the processor's cache has their
    /// entries.
    private static final int NEIGHBOURS_BITS = 4;

    /// A stripe is looked through when it has grown by one part of so many since it was the last time.
    private static final int GROWTH = 8;

    private final ById[] byId = new ById[STRIPES];
    private final ByObject[] byObject = new ByObject[STRIPES];
    /// Leads to nothing after a collection of the virtual machine.
    private volatile WeakReference<Object> canary = new WeakReference<>(new Object());
    /// Number of garbage collections that have been noticed.
    private volatile int collections;
    /// Receives the mutable objects when the store is closed; null while it is open.
    private volatile ClosedStoreObjects left;

    /// A part of a table. Under its monitor.
    private abstract static class Stripe {
        int size;
        /// Number of entries left by the last clean-up, and the garbage collection after which that was.
        private int left = CAPACITY;

        private int collection;

        /// Whether it is to be looked through before it is added to.
        final boolean isDue(int now) {
            if (collection == now || size < left + left / GROWTH) {
                return false;
            }
            collection = now;
            return true;
        }

        final void lookedThrough() {
            left = Math.max(size, CAPACITY);
        }
    }

    private static final class ById extends Stripe {
        private static final VarHandle VERSION;

        static {
            try {
                VERSION = MethodHandles.lookup().findVarHandle(ById.class, "version", int.class);
            } catch (ReflectiveOperationException e) {
                throw new ExceptionInInitializerError(e);
            }
        }

        /// Each at the first free place from that on which [#place] says. Half of them at most have one.
        ObjectIdentity[] entries = new ObjectIdentity[2 * CAPACITY];
        /// How often objects of this stripe were changed in the store.
        private volatile int version;

        int version() {
            return version;
        }

        void changed() {
            VERSION.getAndAdd(this, 1);
        }
    }

    private static final class ByObject extends Stripe {
        IdentityEntry[] buckets = new IdentityEntry[CAPACITY];
    }

    IdentityTable() {
        for (int i = 0; i < STRIPES; i++) {
            byId[i] = new ById();
            byObject[i] = new ByObject();
        }
    }

    private int collections() {
        if (canary.refersTo(null)) {
            noticeCollection();
        }
        return collections;
    }

    private synchronized void noticeCollection() {
        if (canary.refersTo(null)) {
            canary = new WeakReference<>(new Object());
            collections++;
        }
    }

    private static int spread(long key) {
        return (int) (key * 0x9e37_79b9_7f4a_7c15L >>> 32);
    }

    private static int bucket(int spread, Object[] buckets) {
        return spread >>> STRIPE_BITS & buckets.length - 1;
    }

    // ---- by identities

    private ById stripe(long id) {
        return byId[spread(id >>> NEIGHBOURS_BITS) & STRIPES - 1];
    }

    /// Where an identity belongs: neighbours in the store, which are mostly used together, are neighbours here.
    private static int place(long id, Object[] entries) {
        int spread = spread(id >>> NEIGHBOURS_BITS) >>> STRIPE_BITS;
        return (spread << NEIGHBOURS_BITS | (int) id & (1 << NEIGHBOURS_BITS) - 1) & entries.length - 1;
    }

    private static Object find(ById stripe, long id) {
        ObjectIdentity[] entries = stripe.entries;
        int at = place(id, entries);
        for (ObjectIdentity found = entries[at]; found != null; found = entries[at]) {
            // One whose object is gone may be followed by its successor.
            Object object = found.id == id ? found.get() : null;
            if (object != null) {
                return object;
            }
            at = at + 1 & entries.length - 1;
        }
        return null;
    }

    /// The object of an identity, or null: it is not loaded.
    Object find(long id) {
        ById stripe = stripe(id);
        synchronized (stripe) {
            return find(stripe, id);
        }
    }

    /// Returns the identities of all objects that may still be in memory.
    long[] identities() {
        long[] all = new long[CAPACITY];
        int count = 0;
        for (ById stripe : byId) {
            synchronized (stripe) {
                if (all.length - count < stripe.size) {
                    all = Arrays.copyOf(all, Math.max(2 * all.length, count + stripe.size));
                }
                for (ObjectIdentity entry : stripe.entries) {
                    if (entry != null && !entry.refersTo(null)) {
                        all[count++] = entry.id;
                    }
                }
            }
        }
        return Arrays.copyOf(all, count);
    }

    /// A number that is another one after [#changed]: what was read from the store before is old then.
    int version(long id) {
        return stripe(id).version();
    }

    /// Notes that an object was changed in the store; the changing thread still refers to it.
    ///
    /// Without the stripe's lock: [#add] looks at the number after it has found no object of that identity. If
    /// that was changed, its object was there then, and is collected since, so that the number is seen.
    void changed(long id) {
        stripe(id).changed();
    }

    /// Adds an object that was loaded, unless another thread has been faster.
    ///
    /// @param version as it was before the object was read
    /// @return the object that the identity leads to from here on; null if it has to be read again, because it
    ///     was changed meanwhile
    Object add(ObjectIdentity identity, Object object, int version) {
        ById stripe = stripe(identity.id);
        synchronized (stripe) {
            Object other = find(stripe, identity.id);
            if (other != null) {
                return other;
            }
            if (stripe.version() != version) {
                return null;
            }
            link(stripe, identity);
        }
        return object;
    }

    /// Adds an object that has just become persistent.
    void add(ObjectIdentity identity) {
        ById stripe = stripe(identity.id);
        synchronized (stripe) {
            link(stripe, identity);
        }
    }

    private void link(ById stripe, ObjectIdentity identity) {
        if (stripe.isDue(collections()) || 2 * stripe.size == stripe.entries.length) {
            lookThrough(stripe);
        }
        put(stripe.entries, identity);
        stripe.size++;
    }

    /// Takes out what is gone, and makes room.
    private static void lookThrough(ById stripe) {
        ObjectIdentity[] old = stripe.entries;
        int capacity = Math.max(old.length / 2, 2 * CAPACITY);
        int live = 0;
        for (ObjectIdentity entry : old) {
            live += entry == null || entry.refersTo(null) ? 0 : 1;
        }
        while (3 * live >= capacity) {
            capacity *= 2;
        }
        if (capacity != old.length || live != stripe.size) {
            ObjectIdentity[] entries = new ObjectIdentity[capacity];
            live = 0;
            for (ObjectIdentity entry : old) {
                if (entry != null && !entry.refersTo(null)) {
                    put(entries, entry);
                    live++;
                }
            }
            stripe.entries = entries;
            stripe.size = live;
        }
        stripe.lookedThrough();
    }

    private static void put(ObjectIdentity[] entries, ObjectIdentity identity) {
        int at = place(identity.id, entries);
        while (entries[at] != null) {
            at = at + 1 & entries.length - 1;
        }
        entries[at] = identity;
    }

    // ---- by objects

    private ByObject stripeOf(int hash) {
        return byObject[spread(hash) & STRIPES - 1];
    }

    /// Returns the entry of an object that has no field for its identity, or null: it is not persistent.
    IdentityEntry find(Object object) {
        int hash = System.identityHashCode(object);
        ByObject stripe = stripeOf(hash);
        synchronized (stripe) {
            IdentityEntry found = stripe.buckets[bucket(spread(hash), stripe.buckets)];
            while (found != null && !(found.hash == hash && found.refersTo(object))) {
                found = found.nextByObject;
            }
            return found;
        }
    }

    /// Lets an object without a field for its identity be found by itself.
    void attach(IdentityEntry entry, Object object) {
        entry.hash = System.identityHashCode(object);
        ByObject stripe = stripeOf(entry.hash);
        synchronized (stripe) {
            if (stripe.isDue(collections())) {
                IdentityEntry[] buckets = stripe.buckets;
                stripe.buckets = new IdentityEntry[buckets.length];
                stripe.size = pushLive(stripe, buckets);
                stripe.lookedThrough();
            }
            if (stripe.size++ == stripe.buckets.length) {
                IdentityEntry[] buckets = stripe.buckets;
                stripe.buckets = new IdentityEntry[2 * buckets.length];
                stripe.size = pushLive(stripe, buckets) + 1;
            }
            push(stripe, entry);
            // A commit that the store has taken before it was closed.
            if (left != null && entry.mayChange(object)) {
                left.add(object, unloaded(entry, object));
            }
        }
    }

    /// Passes on the mutable objects without an identity field, before the store is closed.
    void leave(ClosedStoreObjects others) {
        synchronized (this) {
            if (left != null) {
                return;
            }
            left = others;
        }
        for (ByObject stripe : byObject) {
            synchronized (stripe) {
                for (IdentityEntry first : stripe.buckets) {
                    for (IdentityEntry entry = first; entry != null; entry = entry.nextByObject) {
                        Object object = entry.get();
                        if (object != null && entry.mayChange(object)) {
                            others.add(object, unloaded(entry, object));
                        }
                    }
                }
            }
        }
    }

    /// Returns which elements are not loaded, of the table of a collection that is loaded by part; otherwise null.
    private static IntPredicate unloaded(IdentityEntry entry, Object object) {
        boolean isTable = entry instanceof PartIdentity && object instanceof Object[];
        return isTable && entry.owner().stored instanceof Parts parts ? parts.unloaded() : null;
    }

    /// @return how many have an object yet
    private static int pushLive(ByObject stripe, IdentityEntry[] buckets) {
        int live = 0;
        for (IdentityEntry first : buckets) {
            IdentityEntry next = first;
            while (next != null) {
                IdentityEntry one = next;
                next = one.nextByObject;
                one.nextByObject = null;
                if (!one.refersTo(null)) {
                    push(stripe, one);
                    live++;
                }
            }
        }
        return live;
    }

    private static void push(ByObject stripe, IdentityEntry entry) {
        int bucket = bucket(spread(entry.hash), stripe.buckets);
        entry.nextByObject = stripe.buckets[bucket];
        stripe.buckets[bucket] = entry;
    }

    /// Lets an object not be found by itself any more.
    void detach(IdentityEntry entry) {
        ByObject stripe = stripeOf(entry.hash);
        synchronized (stripe) {
            int bucket = bucket(spread(entry.hash), stripe.buckets);
            IdentityEntry before = null;
            IdentityEntry found = stripe.buckets[bucket];
            while (found != null && found != entry) {
                before = found;
                found = found.nextByObject;
            }
            if (found != null) {
                if (before == null) {
                    stripe.buckets[bucket] = found.nextByObject;
                } else {
                    before.nextByObject = found.nextByObject;
                }
                stripe.size--;
            }
        }
    }
}
