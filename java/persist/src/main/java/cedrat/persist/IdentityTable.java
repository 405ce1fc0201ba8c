package cedrat.persist;

import java.lang.ref.WeakReference;
import java.util.Arrays;

/// The persistent objects that are in memory: by their identities in the store, and those without a field for
/// it, of the JDK and arrays, by themselves.
///
/// Objects are held weakly. As long as the program has one, its identity leads to that very object, so that
/// `==` holds (J7). Entries are chained through the identities themselves, which are all that an object costs
/// here; tables are divided into stripes, each with its own lock.
///
/// What the virtual machine has collected is taken out when a stripe is added to for the first time after a
/// collection: it is told of no single object, because a queue of references would cost two locks for each.
///
/// **Threads:** any.
final class IdentityTable {
    private static final int STRIPE_BITS = 6;
    private static final int STRIPES = 1 << STRIPE_BITS;
    private static final int CAPACITY = 64;

    /// A stripe is looked through when it has grown by one part of so many since it was the last time.
    private static final int GROWTH = 8;

    private final ById[] byId = new ById[STRIPES];
    private final ByObject[] byObject = new ByObject[STRIPES];
    /// Leads to nothing after a collection of the virtual machine.
    private volatile WeakReference<Object> canary = new WeakReference<>(new Object());
    /// How many collections have been noticed.
    private volatile int collections;

    /// A part of a table. Under its monitor.
    private abstract static class Stripe {
        int size;
        /// How many entries were left when it was looked through, and after which collection that was.
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
        ObjectIdentity[] buckets = new ObjectIdentity[CAPACITY];
        /// How often objects of this stripe were changed in the store.
        volatile int version;
    }

    private static final class ByObject extends Stripe {
        Attached[] buckets = new Attached[CAPACITY];
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
        return byId[spread(id) & STRIPES - 1];
    }

    private static Object find(ById stripe, long id) {
        ObjectIdentity found = stripe.buckets[bucket(spread(id), stripe.buckets)];
        while (found != null) {
            // One whose object is gone may be followed by its successor.
            Object object = found.id == id ? found.get() : null;
            if (object != null) {
                return object;
            }
            found = found.nextById;
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

    /// The identities of all objects that somebody may still have.
    long[] identities() {
        long[] all = new long[CAPACITY];
        int count = 0;
        for (ById stripe : byId) {
            synchronized (stripe) {
                if (all.length - count < stripe.size) {
                    all = Arrays.copyOf(all, Math.max(2 * all.length, count + stripe.size));
                }
                for (ObjectIdentity first : stripe.buckets) {
                    for (ObjectIdentity next = first; next != null; next = next.nextById) {
                        if (!next.refersTo(null)) {
                            all[count++] = next.id;
                        }
                    }
                }
            }
        }
        return Arrays.copyOf(all, count);
    }

    /// A number that is another one after [#changed]: what was read from the store before is old then.
    int version(long id) {
        return stripe(id).version;
    }

    /// An object was changed in the store; whoever has changed it has it still.
    void changed(long id) {
        ById stripe = stripe(id);
        synchronized (stripe) {
            stripe.version = stripe.version + 1;
        }
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
            if (stripe.version != version) {
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
        if (stripe.isDue(collections())) {
            ObjectIdentity[] buckets = stripe.buckets;
            stripe.buckets = new ObjectIdentity[buckets.length];
            stripe.size = pushLive(stripe, buckets);
            stripe.lookedThrough();
        }
        if (stripe.size++ == stripe.buckets.length) {
            ObjectIdentity[] buckets = stripe.buckets;
            stripe.buckets = new ObjectIdentity[2 * buckets.length];
            stripe.size = pushLive(stripe, buckets) + 1;
        }
        push(stripe, identity);
    }

    /// @return how many have an object yet
    private static int pushLive(ById stripe, ObjectIdentity[] buckets) {
        int live = 0;
        for (ObjectIdentity first : buckets) {
            ObjectIdentity next = first;
            while (next != null) {
                ObjectIdentity one = next;
                next = one.nextById;
                one.nextById = null;
                if (!one.refersTo(null)) {
                    push(stripe, one);
                    live++;
                }
            }
        }
        return live;
    }

    private static void push(ById stripe, ObjectIdentity identity) {
        int bucket = bucket(spread(identity.id), stripe.buckets);
        identity.nextById = stripe.buckets[bucket];
        stripe.buckets[bucket] = identity;
    }

    // ---- by objects

    private ByObject stripeOf(int hash) {
        return byObject[spread(hash) & STRIPES - 1];
    }

    /// What is known of an object that has no field for its identity, or null: it is not persistent.
    Attached find(Object object) {
        int hash = System.identityHashCode(object);
        ByObject stripe = stripeOf(hash);
        synchronized (stripe) {
            Attached found = stripe.buckets[bucket(spread(hash), stripe.buckets)];
            while (found != null && !(found.hash == hash && found.refersTo(object))) {
                found = found.nextByObject;
            }
            return found;
        }
    }

    /// Lets an object without a field for its identity be found by itself.
    void attach(Attached attached, Object object) {
        attached.hash = System.identityHashCode(object);
        ByObject stripe = stripeOf(attached.hash);
        synchronized (stripe) {
            if (stripe.isDue(collections())) {
                Attached[] buckets = stripe.buckets;
                stripe.buckets = new Attached[buckets.length];
                stripe.size = pushLive(stripe, buckets);
                stripe.lookedThrough();
            }
            if (stripe.size++ == stripe.buckets.length) {
                Attached[] buckets = stripe.buckets;
                stripe.buckets = new Attached[2 * buckets.length];
                stripe.size = pushLive(stripe, buckets) + 1;
            }
            push(stripe, attached);
        }
    }

    /// @return how many have an object yet
    private static int pushLive(ByObject stripe, Attached[] buckets) {
        int live = 0;
        for (Attached first : buckets) {
            Attached next = first;
            while (next != null) {
                Attached one = next;
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

    private static void push(ByObject stripe, Attached attached) {
        int bucket = bucket(spread(attached.hash), stripe.buckets);
        attached.nextByObject = stripe.buckets[bucket];
        stripe.buckets[bucket] = attached;
    }

    /// Lets an object not be found by itself any more.
    void detach(Attached attached) {
        ByObject stripe = stripeOf(attached.hash);
        synchronized (stripe) {
            int bucket = bucket(spread(attached.hash), stripe.buckets);
            Attached before = null;
            Attached found = stripe.buckets[bucket];
            while (found != null && found != attached) {
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
