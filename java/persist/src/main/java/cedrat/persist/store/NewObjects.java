package cedrat.persist.store;

import cedrat.persist.boot.Persistable;
import cedrat.persist.codec.Layout;
import cedrat.persist.codec.MapPart;
import cedrat.persist.codec.ObjectIdentity;
import cedrat.persist.codec.Shape;
import cedrat.persist.record.Changes;
import java.util.Arrays;

/// The objects that a commit makes persistent, in the order in which they were found, and the origin of the first
/// reference seen to each.
///
/// **Threads:** that of the transaction.
final class NewObjects {
    private static final int CAPACITY = 4;
    private static final Object[] NOTHING = {};
    private static final int[] NO_NUMBERS = {};

    private Object[] fresh = NOTHING;
    private ObjectIdentity[] identities;
    private int[] parents;
    private int[] steps;

    private int count;
    /// Numbers, plus one, of the objects without a field for their identity, by their hash.
    private int[] attached = NO_NUMBERS;

    private int attachedCount;

    int size() {
        return count;
    }

    Object object(int number) {
        return fresh[number];
    }

    ObjectIdentity identity(int number) {
        return identities[number];
    }

    /// Returns the origin of the first reference to an object.
    int parent(int number) {
        return parents[number];
    }

    /// Returns the number of that reference in its origin.
    int step(int number) {
        return steps[number];
    }

    /// Adds an object.
    ///
    /// @param commit marks its identity
    /// @return its number
    int add(Engine engine, Object object, Shape shape, Changes commit, int parent, int step) {
        if (count == 0) {
            fresh = new Object[CAPACITY];
            identities = new ObjectIdentity[CAPACITY];
            parents = new int[CAPACITY];
            steps = new int[CAPACITY];
        } else if (count == fresh.length) {
            fresh = Arrays.copyOf(fresh, 2 * count);
            identities = Arrays.copyOf(identities, 2 * count);
            parents = Arrays.copyOf(parents, 2 * count);
            steps = Arrays.copyOf(steps, 2 * count);
        }
        ObjectIdentity identity = new ObjectIdentity(engine, object, 0, shape);
        identity.commit = commit;
        identity.mark = count;
        fresh[count] = object;
        identities[count] = identity;
        parents[count] = parent;
        steps[count] = step;
        return count++;
    }

    /// Returns the number of an object without a field for its identity, or -1: it is none of them.
    int findAttached(Object object) {
        if (attachedCount == 0) {
            return -1;
        }
        int at = place(object);
        while (attached[at] != 0 && fresh[attached[at] - 1] != object) {
            at = at + 1 & attached.length - 1;
        }
        return attached[at] - 1;
    }

    private int place(Object object) {
        int hash = System.identityHashCode(object);
        return (hash ^ hash >>> 15) & attached.length - 1;
    }

    /// Lets such an object be found.
    void addAttached(Object object, int number) {
        if (2 * ++attachedCount > attached.length) {
            int[] old = attached;
            attached = new int[Math.max(CAPACITY, 2 * old.length)];
            for (int entry : old) {
                if (entry != 0) {
                    put(fresh[entry - 1], entry);
                }
            }
        }
        put(object, number + 1);
    }

    private void put(Object object, int entry) {
        int at = place(object);
        while (attached[at] != 0) {
            at = at + 1 & attached.length - 1;
        }
        attached[at] = entry;
    }

    /// Lets the objects be found by the identities that the store has given them.
    void attach(Engine engine, long[] stored) {
        for (int i = 0; i < count; i++) {
            ObjectIdentity identity = identities[i];
            identity.id = stored[i];
            identity.commit = null;
            if (fresh[i] instanceof MapPart) {
                continue;
            }
            engine.table.add(identity);
            if (!(identity.shape instanceof Layout)) {
                engine.attach(identity, fresh[i]);
            }
            engine.loaded.add(identity);
        }
    }

    /// Lets the collections of new parts lead to these. The collections are known by now.
    void attachParts(Engine engine) {
        for (int i = 0; i < count; i++) {
            if (fresh[i] instanceof MapPart part) {
                engine.parts.attach(part, identities[i]);
            }
        }
    }

    /// Discards the identities of the objects that were to become persistent.
    void forget() {
        for (int i = 0; i < count; i++) {
            if (fresh[i] instanceof Persistable object && object.cedrat$identity() == identities[i]) {
                object.cedrat$identity(null);
            }
        }
    }
}
