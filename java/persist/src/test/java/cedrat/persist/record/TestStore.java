package cedrat.persist.record;

import cedrat.persist.GraphStore;
import cedrat.persist.GraphStoreException;
import cedrat.persist.StoreException;
import cedrat.persist.boot.Persistable;
import cedrat.persist.memory.Slot;
import java.lang.reflect.Modifier;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CompletableFuture;

/// A store without a disk, in which tests say what is pending.
///
/// **Threads:** one at a time.
public final class TestStore implements Persistent, AutoCloseable {
    private final class Known extends StoredIdentity {
        final Map<Slot.Field, Object> pending = new HashMap<>();

        Known(Object object) {
            super(object);
        }

        @Override
        public Persistent store() {
            return TestStore.this;
        }
    }

    private final List<String> reads = new ArrayList<>();
    private final Set<Object> parts = Collections.newSetFromMap(new IdentityHashMap<>());

    /// Opens it.
    ///
    /// @throws IllegalStateException if something would read null where a reference is pending
    public TestStore() {
        Recorder.get().unwoven.checkReads();
        Recorder.get().opened(this);
    }

    @Override
    public void close() {
        Recorder.get().closed(this);
    }

    /// Makes an object persistent, as one of a class that extends one of the JDK.
    public <T> T add(T object) {
        System.identityHashCode(object);
        ((Persistable) object).cedrat$identity(new Known(object));
        return object;
    }

    @Override
    public Object readElement(Object[] table, int index) {
        return table[index];
    }

    @Override
    public boolean isByPart(Object map) {
        return false;
    }

    @Override
    public void loadBucket(Object map, int hash) {
        throw new AssertionError("it has no map that is loaded by part");
    }

    @Override
    public void awaitUnloading(Object owner) {}

    @Override
    public boolean stores(Persistable base, Slot.Field field) {
        return !field.isTransient();
    }

    /// Makes an array, or an object of the JDK, persistent.
    public <T> T addPart(T object) {
        parts.add(object);
        return object;
    }

    /// Makes an object an ordinary one.
    public void remove(Object object) {
        ((Persistable) object).cedrat$identity(null);
    }

    /// Says that a field of a persistent object, which is null, is pending.
    public void pend(Object object, String name, Object value) {
        known(object).pending.put(field(object, name), value);
    }

    /// Makes a field of a persistent object, whatever it is, pending.
    public void letGo(Object object, String name) {
        Slot.Field field = field(object, name);
        Map<Slot.Field, Object> pending = known(object).pending;
        pending.put(field, Recorder.get().unrecorded(() -> field.read(object)));
        field.restore(object, 0, 0, null);
    }

    /// Whether a field is pending.
    public boolean isPending(Object object, String name) {
        return known(object).pending.containsKey(field(object, name));
    }

    /// Which fields were asked for since the last call of this, in their order.
    public List<String> takeReads() {
        List<String> taken = List.copyOf(reads);
        reads.clear();
        return taken;
    }

    private static Known known(Object object) {
        return (Known) ((Persistable) object).cedrat$identity();
    }

    private static Slot.Field field(Object object, String name) {
        for (Class<?> type = object.getClass(); type != null; type = type.getSuperclass()) {
            for (java.lang.reflect.Field field : type.getDeclaredFields()) {
                if (field.getName().equals(name)) {
                    return Recorder.get().fields().slot(field);
                }
            }
        }
        throw new AssertionError(object.getClass() + " has no field " + name);
    }

    @Override
    public Object readNull(Persistable base, Slot.Field field) {
        reads.add(field.reflected.getName());
        Map<Slot.Field, Object> pending = known(base).pending;
        if (!pending.containsKey(field)) {
            return null;
        }
        Object value = pending.get(field);
        if (!Modifier.isFinal(field.reflected.getModifiers())) {
            pending.remove(field);
            field.restore(base, 0, 0, value);
        }
        return value;
    }

    @Override
    public void refuseStore(Object base) {
        if (base instanceof Persistable || parts.contains(base)) {
            throw new IllegalStateException(
                    "cannot change a persistent object of " + base.getClass() + ": change it within a transaction");
        }
    }

    @Override
    public boolean locksReads() {
        return false;
    }

    @Override
    public void check() {}

    @Override
    public void keepLoaded(Persistable base) {}

    @Override
    public Object owner(Object base) {
        return parts.contains(base) ? base : null;
    }

    @Override
    public Object livingOwner(Object base) {
        return owner(base);
    }

    @Override
    public void adds(Object base, Object made, TopLevel by) {}

    @Override
    public boolean isTakenBack(Object base, TopLevel reader) {
        return false;
    }

    @Override
    public Changes changes(TransactionLevel transaction) {
        return null;
    }

    @Override
    public GraphStore.Faces beginFaces() {
        throw new AssertionError("it has no pages");
    }

    @Override
    public StoreException refused(GraphStoreException failure) {
        throw new AssertionError("nothing is asked of it", failure);
    }

    @Override
    public void awaitDurable() {}

    @Override
    public long appended() {
        return 0;
    }

    @Override
    public void awaitDurable(long place) {}

    @Override
    public CompletableFuture<Void> whenDurable() {
        return CompletableFuture.completedFuture(null);
    }
}
