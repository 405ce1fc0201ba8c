package cedrat.persist;

import java.lang.ref.Reference;
import java.lang.ref.ReferenceQueue;
import java.util.Arrays;

/// The persistent objects that are in memory: by their identities in the store, and those without a field for
/// it, of the JDK and arrays, by themselves.
///
/// Objects are held weakly. As long as the program has one, its identity leads to that very object, so that
/// `==` holds (J7). Entries are chained through the identities themselves, which are all that an object costs
/// here; tables are divided into stripes, each with its own lock.
///
/// **Threads:** any.
final class IdentityTable {
    private static final int STRIPE_BITS = 6;
    private static final int STRIPES = 1 << STRIPE_BITS;
    private static final int CAPACITY = 64;

    private final ReferenceQueue<Object> gone = new ReferenceQueue<>();
    private final ById[] byId = new ById[STRIPES];
    private final ByObject[] byObject = new ByObject[STRIPES];

    private static final class ById {
        ObjectIdentity[] buckets = new ObjectIdentity[CAPACITY];
        int size;
        /// How often objects of this stripe were changed in the store.
        int version;
    }

    private static final class ByObject {
        Attached[] buckets = new Attached[CAPACITY];
        int size;
    }

    IdentityTable() {
        for (int i = 0; i < STRIPES; i++) {
            byId[i] = new ById();
            byObject[i] = new ByObject();
        }
    }

    /// Where identities go whose objects nobody has any more.
    ReferenceQueue<Object> queue() {
        return gone;
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
        purge();
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
        ById stripe = stripe(id);
        synchronized (stripe) {
            return stripe.version;
        }
    }

    /// An object was changed in the store; whoever has changed it has it still.
    void changed(long id) {
        ById stripe = stripe(id);
        synchronized (stripe) {
            stripe.version++;
        }
    }

    /// Adds an object that was loaded, unless another thread has been faster.
    ///
    /// @param version as it was before the object was read
    /// @return the object that the identity leads to from here on; null if it has to be read again, because it
    ///     was changed meanwhile
    Object add(ObjectIdentity identity, Object object, int version) {
        purge();
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
        purge();
        ById stripe = stripe(identity.id);
        synchronized (stripe) {
            link(stripe, identity);
        }
    }

    private static void link(ById stripe, ObjectIdentity identity) {
        if (stripe.size++ == stripe.buckets.length) {
            ObjectIdentity[] old = stripe.buckets;
            stripe.buckets = new ObjectIdentity[2 * old.length];
            for (ObjectIdentity first : old) {
                ObjectIdentity next = first;
                while (next != null) {
                    ObjectIdentity one = next;
                    next = one.nextById;
                    push(stripe, one);
                }
            }
        }
        push(stripe, identity);
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
            if (stripe.size++ == stripe.buckets.length) {
                Attached[] old = stripe.buckets;
                stripe.buckets = new Attached[2 * old.length];
                for (Attached first : old) {
                    Attached next = first;
                    while (next != null) {
                        Attached one = next;
                        next = one.nextByObject;
                        push(stripe, one);
                    }
                }
            }
            push(stripe, attached);
        }
    }

    private static void push(ByObject stripe, Attached attached) {
        int bucket = bucket(spread(attached.hash), stripe.buckets);
        attached.nextByObject = stripe.buckets[bucket];
        stripe.buckets[bucket] = attached;
    }

    // ---- what is gone

    /// Takes out what nobody has any more.
    private void purge() {
        Reference<?> next = gone.poll();
        while (next != null) {
            Attached attached = (Attached) next;
            if (attached.hash != 0) {
                detach(attached);
            }
            if (attached instanceof ObjectIdentity identity) {
                remove(identity);
            }
            next = gone.poll();
        }
    }

    private void remove(ObjectIdentity identity) {
        ById stripe = stripe(identity.id);
        synchronized (stripe) {
            int bucket = bucket(spread(identity.id), stripe.buckets);
            ObjectIdentity before = null;
            ObjectIdentity found = stripe.buckets[bucket];
            while (found != null && found != identity) {
                before = found;
                found = found.nextById;
            }
            if (found != null) {
                if (before == null) {
                    stripe.buckets[bucket] = found.nextById;
                } else {
                    before.nextById = found.nextById;
                }
                stripe.size--;
            }
        }
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
