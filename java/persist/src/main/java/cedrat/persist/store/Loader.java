package cedrat.persist.store;

import cedrat.persist.GraphStoreException;
import cedrat.persist.StoreException;
import cedrat.persist.codec.Layout;
import cedrat.persist.codec.ObjectBytes;
import cedrat.persist.codec.ObjectIdentity;
import cedrat.persist.codec.Shape;
import cedrat.persist.codec.Words;
import cedrat.persist.form.ConstantForm;
import cedrat.persist.form.FormShape;
import cedrat.persist.form.PartForm;
import cedrat.persist.lock.MonitorCycles;
import cedrat.persist.lock.Unbroken;
import cedrat.persist.memory.Memory;
import cedrat.persist.record.LoadHooks;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.ReentrantLock;
import java.util.concurrent.locks.ReentrantReadWriteLock;

/// Brings objects from the store into memory.
///
/// - An object of a woven class is loaded by itself: its primitive fields are filled, its reference fields
///   are pending. Everything else, arrays and objects of the JDK, is loaded with all that it leads to, up
///   to the next objects of woven classes, by a work list instead of recursion. A large hash map is loaded
///   without its parts, and each of these as if it were an object.
///
/// Objects of woven classes are loaded without a lock; if two threads load the same one, the object of the
/// faster one counts. Other objects are loaded under a lock with all that they lead to, and other threads see them
/// when they are complete: a hash table would miss keys otherwise. An object that is not in memory does not change in
/// the store, and while the lock is held no other thread loads anything but objects of woven classes, so values
/// read under it are not old. Filling a hash table or a sorted map calls methods of
/// the program, which may read fields that are pending: that load is one of its own, within the first.
///
/// - The class of an object is initialised under none of the locks: its initialiser may load something, or
///   wait for a thread that does. The load that needed the class begins again.
///
/// **Threads:** any.
final class Loader {
    /// Number of objects that one call of the store reads.
    private static final int BATCH = 4096;

    /// Time after which a garbage collection that waits for loads lets others begin.
    private static final int LOADS_MILLIS = 100;

    private static final int LOADS_MILLIS_MAX = 3_200;

    private static final Object[] NOTHING = {};

    private final Engine engine;
    private final LoadLock lock = new LoadLock();
    /// Shared by loads, from the reading of an object to its entry in the table.
    private final ReentrantReadWriteLock loading = new ReentrantReadWriteLock();
    /// The innermost load that is going on, under the lock.
    private Load innermost;
    /// Thrown by a load of this thread within another one, which has not seen it yet.
    private final ThreadLocal<Uninitialized> uninitialized = new ThreadLocal<>();
    /// Number of Java collections that are being filled, one within the other, under the lock.
    private int fillings;

    Loader(Engine engine) {
        this.engine = engine;
    }

    /// Returns the object of a reference.
    Object resolve(long word) throws GraphStoreException {
        if (word == 0) {
            return null;
        }
        if (!Words.isIdentity(word)) {
            return engine.value(word);
        }
        boolean isOutermost = loading.getReadHoldCount() == 0;
        Object known = engine.table.find(word);
        if (!engine.hooks.areAny()) {
            return known != null ? known : load(word, isOutermost, this::resolveOnce);
        }
        if (known == null) {
            known = isOutermost ? loadWithHooks(word, this::resolveOnce) : load(word, false, this::resolveOnce);
        }
        if (isOutermost) {
            engine.hooks.await(word);
        } else {
            engine.hooks.refersTo(word);
        }
        return known;
    }

    /// Loads what a part of a collection leads to.
    ///
    /// @return keys and values, or elements, as they are in the store
    Object[] part(long word) throws GraphStoreException {
        boolean isOutermost = loading.getReadHoldCount() == 0;
        boolean runsHooks = isOutermost && engine.hooks.areAny();
        return (Object[]) (runsHooks ? loadWithHooks(word, this::entries) : load(word, isOutermost, this::entries));
    }

    /// One attempt to load what a reference leads to.
    private interface Attempt {
        Object load(long word) throws GraphStoreException;
    }

    private Object loadWithHooks(long word, Attempt attempt) throws GraphStoreException {
        LoadHooks.Batch batch = engine.hooks.begin();
        Object known = null;
        try {
            known = load(word, true, attempt);
        } finally {
            engine.hooks.end(batch, known != null);
        }
        engine.hooks.run(batch);
        return known;
    }

    private Object load(long word, boolean isOutermost, Attempt attempt) throws GraphStoreException {
        Object known = null;
        while (known == null) {
            try {
                known = attempt.load(word);
            } catch (Uninitialized found) {
                if (!isOutermost) {
                    uninitialized.set(found);
                    throw found;
                }
                uninitialized.remove();
                initialize(found);
            }
        }
        return known;
    }

    /// Initialises a class under none of the locks, because its initialiser may wait for a thread that waits for a
    /// load; then all is read again.
    private void initialize(Uninitialized found) {
        boolean wasFilling = engine.recorder.filling(true);
        try {
            found.initializer.run();
        } finally {
            engine.recorder.filling(wasFilling);
        }
    }

    private Object resolveOnce(long word) throws GraphStoreException {
        Object known = null;
        Unbroken.lock(loading.readLock());
        try {
            while (known == null) {
                engine.inDoubt.check(word);
                int version = engine.table.version(word);
                ObjectBytes bytes = new ObjectBytes(word, engine.graph.read(word));
                Shape shape = engine.schema.shape(bytes);
                if (shape instanceof Layout layout) {
                    known = object(word, layout, bytes, version);
                } else if (shape.isConstant()) {
                    known = constant(word, shape, bytes, version);
                } else {
                    known = whole(word);
                }
            }
            return known;
        } finally {
            Unbroken.unlock(loading.readLock());
        }
    }

    /// Returns the identities of all objects that may still be in memory, at a moment at which no thread has read one
    /// that is not in the table yet.
    long[] alive() {
        lockOutLoads();
        try {
            return engine.table.identities();
        } finally {
            Unbroken.unlock(loading.writeLock());
        }
    }

    /// Waits for the end of all loads. A load may wait, in a method of the program, for a thread whose own load waits
    /// behind this request. So the request is withdrawn and made again, which lets the loads behind it begin.
    private void lockOutLoads() {
        boolean isInterrupted = false;
        boolean isLocked = false;
        long pause = LOADS_MILLIS;
        while (!isLocked) {
            engine.check();
            try {
                isLocked = loading.writeLock().tryLock(pause, TimeUnit.MILLISECONDS);
                // Loads that follow each other, each longer than the pause, must not keep it out without end.
                pause = Math.min(2 * pause, LOADS_MILLIS_MAX);
            } catch (InterruptedException e) {
                isInterrupted = true;
            }
        }
        if (isInterrupted) {
            Thread.currentThread().interrupt();
        }
    }

    /// An object of a woven class. Null if it has to be read again.
    private Object object(long id, Layout layout, ObjectBytes bytes, int version) throws GraphStoreException {
        // What the program asks for while a collection is filled cannot be begun anew, and is loaded under the lock.
        if (!isFilling() && !layout.isInitialized()) {
            throw new Uninitialized(layout::initialize);
        }
        Object object = create(layout, bytes);
        ObjectIdentity identity = new ObjectIdentity(engine, object, id, layout);
        identity.pending = layout.words(bytes);
        identity.bytes = bytes.length();
        layout.identify(object, identity);
        Memory.publish();
        Object winner = engine.hooks.add(id, object, () -> engine.table.add(identity, object, version));
        if (winner == object) {
            loaded(identity);
        }
        return winner;
    }

    /// Makes an object, with the values of converted fields. Whatever a converter does with the exception of a load
    /// within it, the load begins again, and the converter runs again.
    private Object create(Layout layout, ObjectBytes bytes) throws GraphStoreException {
        try {
            Object object = layout.create(bytes);
            layout.fillConverted(object, bytes, this::resolve);
            return object;
        } finally {
            Uninitialized found = uninitialized.get();
            if (found != null) {
                throwAgain(found);
            }
        }
    }

    private static void throwAgain(Uninitialized found) {
        throw found;
    }

    private boolean isFilling() {
        return lock.isHeldByCurrentThread() && fillings != 0;
    }

    /// A text, a number, or another object that does not change and leads to no other.
    private Object constant(long id, Shape shape, ObjectBytes bytes, int version) {
        if (shape instanceof FormShape known && known.form instanceof ConstantForm form && !isFilling()) {
            Class<?> declaring = form.uninitialized(bytes);
            if (declaring != null) {
                throw new Uninitialized(() -> form.initialize(declaring));
            }
        }
        Object object = shape.fill(shape.create(bytes), bytes, NOTHING);
        ObjectIdentity identity = new ObjectIdentity(engine, object, id, shape);
        identity.bytes = bytes.length();
        // No other thread has it yet. A thread that finds it by its identity also finds its identity by it.
        engine.table.attach(identity, object);
        Object winner = engine.table.add(identity, object, version);
        if (winner == object) {
            loaded(identity);
        } else {
            engine.table.detach(identity);
        }
        return winner;
    }

    private void loaded(ObjectIdentity identity) {
        engine.counters.loaded();
        engine.loaded.add(identity);
    }

    /// Anything else.
    private Object whole(long id) throws GraphStoreException {
        lock.enter();
        try {
            Object known = engine.table.find(id);
            if (known != null) {
                return known;
            }
            Load outer = innermost;
            Node node = outer == null ? null : outer.find(id);
            if (node != null && node.isBegun) {
                // It is being filled by this thread: it is returned as it is.
                if (node.object == null) {
                    throw new StoreException("cannot load the object " + Words.show(id) + ", because its parts "
                            + "need it: `hashCode`, `equals` or `compareTo` of an element reads a wrapper or an "
                            + "unmodifiable collection of that element. Let these methods read other fields");
                }
                return node.object;
            }
            innermost = new Load(outer);
            try {
                return innermost.load(node == null ? innermost.read(id) : node);
            } finally {
                innermost = outer;
            }
        } finally {
            Unbroken.unlock(lock);
        }
    }

    /// Returns what a part of a collection leads to. The part is not found by its identity.
    private Object entries(long id) throws GraphStoreException {
        Unbroken.lock(loading.readLock());
        try {
            lock.enter();
            try {
                Load outer = innermost;
                innermost = new Load(outer);
                try {
                    return innermost.load(innermost.readPart(id));
                } finally {
                    innermost = outer;
                }
            } finally {
                Unbroken.unlock(lock);
            }
        } finally {
            Unbroken.unlock(loading.readLock());
        }
    }

    /// Held while a collection is filled, by which the program's methods are called. They may wait for a monitor,
    /// and who has entered that for this.
    private static final class LoadLock extends ReentrantLock {
        private static final long serialVersionUID = 1;
        private static final long LOOK_MILLIS = 100;

        /// @throws StoreException if the lock's owner waits for a monitor that this thread has entered
        void enter() {
            Unbroken.probe();
            new Unbroken() {
                @Override
                protected void work() {
                    enterNow();
                }
            }.complete();
        }

        private void enterNow() {
            boolean wasInterrupted = false;
            boolean isEntered = tryLock();
            while (!isEntered) {
                try {
                    isEntered = tryLock(LOOK_MILLIS, TimeUnit.MILLISECONDS);
                } catch (InterruptedException e) {
                    // A read cannot be broken off; the interrupt is kept for the next blocking call.
                    wasInterrupted = true;
                }
                Thread owner = isEntered ? null : getOwner();
                if (owner != null && MonitorCycles.waitsForThisThread(owner)) {
                    throw new StoreException("cannot load an object: the thread " + owner + " is loading a "
                            + "collection, whose elements' `hashCode`, `equals` or `compareTo` waits for a monitor that "
                            + "this thread has entered. Load the object before the monitor is entered, or let these "
                            + "methods enter none");
                }
            }
            if (wasInterrupted) {
                Thread.currentThread().interrupt();
            }
        }
    }

    /// The class of an object is to be initialised before the object is made.
    private static final class Uninitialized extends RuntimeException {
        private static final long serialVersionUID = 1;

        final transient Runnable initializer;

        Uninitialized(Runnable initializer) {
            super("an initialiser is to be run", null, false, false);
            this.initializer = initializer;
        }
    }

    /// An array or an object of the JDK on its way.
    private static final class Node {
        final long id;
        final Shape shape;
        final ObjectBytes bytes;
        /// Null before it was begun, and of what is made when all else is there.
        Object object;

        Object[] references;
        /// State that its form keeps of it.
        Object stored;
        /// The references up to here are there.
        int next;

        boolean isBegun;

        Node(long id, Shape shape, ObjectBytes bytes) {
            this.id = id;
            this.shape = shape;
            this.bytes = bytes;
        }
    }

    /// One load, under the lock.
    private final class Load {
        private final Load outer;
        private final Map<Long, Node> nodes = new HashMap<>();
        private final ArrayDeque<Node> begun = new ArrayDeque<>();

        Load(Load outer) {
            this.outer = outer;
        }

        Node find(long id) {
            Node node = nodes.get(id);
            return node == null && outer != null ? outer.find(id) : node;
        }

        private Node read(long id) throws GraphStoreException {
            engine.inDoubt.check(id);
            ObjectBytes bytes = new ObjectBytes(id, engine.graph.read(id));
            Node node = new Node(id, engine.schema.shape(bytes), bytes);
            nodes.put(id, node);
            return node;
        }

        private Node readPart(long id) throws GraphStoreException {
            Node node = read(id);
            if (!(node.shape instanceof FormShape shape && shape.form instanceof PartForm)) {
                throw node.bytes.damaged("it is no part of a collection, which leads to it");
            }
            return node;
        }

        Object load(Node root) throws GraphStoreException {
            begin(root);
            while (!begun.isEmpty()) {
                Node node = begun.getLast();
                Node missing = missing(node);
                if (missing != null) {
                    begin(missing);
                } else {
                    begun.removeLast();
                    node.object = fill(node);
                    node.references = null;
                }
            }
            publish();
            return root.object;
        }

        private Object fill(Node node) {
            boolean wasFilling = engine.recorder.filling(true);
            fillings++;
            try {
                Object object = node.shape.fill(node.object, node.bytes, node.references);
                if (node.shape instanceof FormShape shape) {
                    node.stored = shape.form.loaded(object, node.bytes, node.references);
                }
                return object;
            } finally {
                fillings--;
                engine.recorder.filling(wasFilling);
            }
        }

        private void begin(Node node) throws GraphStoreException {
            node.isBegun = true;
            node.object = node.shape.create(node.bytes);
            boolean isByPart = node.shape instanceof FormShape shape && shape.form.isByPart(node.bytes);
            node.references = new Object[isByPart ? 0 : node.bytes.referenceCount()];
            readReferences(node);
            begun.addLast(node);
        }

        /// Reads all referenced objects that are not in memory yet, at once.
        private void readReferences(Node node) throws GraphStoreException {
            long[] unknown = new long[16];
            int[] places = new int[16];
            int count = 0;
            for (int i = 0; i < node.references.length; i++) {
                long word = node.bytes.reference(i);
                if (!Words.isIdentity(word)) {
                    node.references[i] = value(node, word);
                    continue;
                }
                node.references[i] = engine.table.find(word);
                if (node.references[i] != null && engine.hooks.areAny()) {
                    engine.hooks.refersTo(word);
                }
                if (node.references[i] == null && find(word) == null) {
                    if (count == unknown.length) {
                        unknown = Arrays.copyOf(unknown, 2 * count);
                        places = Arrays.copyOf(places, 2 * count);
                    }
                    places[count] = i;
                    unknown[count++] = word;
                }
            }
            for (int from = 0; from < count; from += BATCH) {
                int to = Math.min(count, from + BATCH);
                read(Arrays.copyOfRange(unknown, from, to), places, from, node.references);
            }
        }

        private Object value(Node node, long word) {
            if (word == 0) {
                return null;
            }
            return Words.tag(word) == Words.TEXT ? node.bytes.shortText(Words.payload(word)) : engine.value(word);
        }

        /// Reads some objects. What is complete by itself stands in `references` then, at the places from
        /// `from` on; the others are nodes.
        private void read(long[] ids, int[] places, int from, Object[] references) throws GraphStoreException {
            int[] versions = new int[ids.length];
            for (int i = 0; i < ids.length; i++) {
                engine.inDoubt.check(ids[i]);
                versions[i] = engine.table.version(ids[i]);
            }
            byte[][] all = engine.graph.readMany(ids);
            for (int i = 0; i < ids.length; i++) {
                ObjectBytes bytes = new ObjectBytes(ids[i], all[i]);
                Shape shape = engine.schema.shape(bytes);
                if (shape instanceof Layout || shape.isConstant()) {
                    Object object = shape instanceof Layout layout
                            ? object(ids[i], layout, bytes, versions[i])
                            : constant(ids[i], shape, bytes, versions[i]);
                    references[places[from + i]] = object == null ? resolve(ids[i]) : object;
                    if (engine.hooks.areAny()) {
                        engine.hooks.refersTo(ids[i]);
                    }
                } else if (!nodes.containsKey(ids[i])) {
                    nodes.put(ids[i], new Node(ids[i], shape, bytes));
                }
            }
        }

        /// The next object that an object refers to and that is to be loaded before it.
        private Node missing(Node node) throws GraphStoreException {
            while (node.next < node.references.length) {
                long word = node.bytes.reference(node.next);
                if (node.references[node.next] == null && Words.isIdentity(word)) {
                    Node other = find(word);
                    if (other == null) {
                        // A load within this one was faster.
                        node.references[node.next] = resolve(word);
                    } else if (!other.isBegun) {
                        return other;
                    } else if (other.object == null) {
                        throw node.bytes.damaged("it is a part of something that cannot contain itself");
                    } else {
                        node.references[node.next] = other.object;
                    }
                }
                node.next++;
            }
            return null;
        }

        /// Publishes the loaded objects. A thread that finds one of them by its identity also finds the identities of
        /// all, and of their parts: otherwise an assignment to an array that another thread has just loaded
        /// would be taken for one to an array that is not persistent.
        private void publish() {
            List<ObjectIdentity> identities = new ArrayList<>(nodes.size());
            for (Node node : nodes.values()) {
                if (node.shape instanceof FormShape shape && shape.form instanceof PartForm) {
                    continue;
                }
                ObjectIdentity identity = new ObjectIdentity(engine, node.object, node.id, node.shape);
                identity.bytes = node.bytes.length();
                engine.attachLoaded(identity, node.object, node.stored);
                identities.add(identity);
            }
            if (engine.hooks.areAny()) {
                identities.forEach(identity -> engine.hooks.publishes(identity.id));
            }
            identities.forEach(engine.table::add);
            identities.forEach(Loader.this::loaded);
        }
    }
}
