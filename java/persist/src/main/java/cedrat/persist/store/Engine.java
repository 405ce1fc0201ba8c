package cedrat.persist.store;

import cedrat.persist.BackupOptions;
import cedrat.persist.BackupReport;
import cedrat.persist.GraphStore;
import cedrat.persist.GraphStoreException;
import cedrat.persist.Heap;
import cedrat.persist.InDoubtException;
import cedrat.persist.PersistenceRuntime;
import cedrat.persist.Records;
import cedrat.persist.StoreException;
import cedrat.persist.boot.Persistable;
import cedrat.persist.branch.BranchId;
import cedrat.persist.branch.BranchStore;
import cedrat.persist.branch.Branches;
import cedrat.persist.codec.Cells;
import cedrat.persist.codec.IdentityEntry;
import cedrat.persist.codec.Layout;
import cedrat.persist.codec.ObjectIdentity;
import cedrat.persist.codec.PartIdentity;
import cedrat.persist.codec.Parts;
import cedrat.persist.codec.Words;
import cedrat.persist.event.CollectionEvent;
import cedrat.persist.event.DurableWaitEvent;
import cedrat.persist.event.LoadEvent;
import cedrat.persist.form.Form;
import cedrat.persist.form.FormShape;
import cedrat.persist.form.Forms;
import cedrat.persist.form.NodeForm;
import cedrat.persist.form.PartedForm;
import cedrat.persist.lock.AbsentNames;
import cedrat.persist.lock.Locks;
import cedrat.persist.lock.Unbroken;
import cedrat.persist.memory.Slot;
import cedrat.persist.record.Faces;
import cedrat.persist.record.LoadHooks;
import cedrat.persist.record.Recorder;
import cedrat.persist.record.TopLevel;
import cedrat.persist.record.TransactionLevel;
import java.lang.reflect.Array;
import java.nio.file.Path;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.ReentrantLock;
import java.util.function.Function;

/// One open store of persistent objects: what [cedrat.persist.Store] is to a program, this is to the barriers.
///
/// ```text
/// Open ──close──▶ Closed
///   └──a sync fails──▶ Stopped ──close──▶ Closed
/// ```
///
/// - Open     objects are loaded, and commits are stored
/// - Stopped  memory is ahead of the disk, so nothing is loaded or stored any more
/// - Closed   as Stopped; objects in memory stay readable, and transactions do not change them
///
/// **Threads:** any.
final class Engine implements BranchStore {
    final GraphStore graph;
    /// Name of the store, for messages and events.
    final String name;
    final StoreCounters counters = new StoreCounters();
    final Recorder recorder;
    final PersistenceRuntime.Settings settings;
    final Forms forms;
    final Schema schema;
    final IdentityTable table = new IdentityTable();
    final ConcurrentHashMap<String, Root> roots = new ConcurrentHashMap<>();
    final AbsentNames absentNames = new AbsentNames();
    /// One of each name, for they are what is locked.
    final ConcurrentHashMap<String, Records> records = new ConcurrentHashMap<>();
    final ConcurrentHashMap<String, Heap> heaps = new ConcurrentHashMap<>();
    final boolean isRestarted;
    final InDoubtChanges inDoubt;
    final HashKeys keys;
    final Branches branches;

    final Loaded loaded;
    final LoadHooks hooks;
    final LoadedParts parts;

    /// Number of objects that are looked at, or removed, before other work gets its turn.
    private static final int COLLECTION_STEP = 1024;

    final Loader loader = new Loader(this);
    private final ReentrantLock collecting = new ReentrantLock();
    /// Why it loads and stores nothing any more, or null.
    private volatile String end;

    private volatile Throwable cause;
    /// The store below is closed. Under the lock of collections.
    private boolean isClosed;
    /// Whether the first attempt to close the store below has made all commits durable.
    private final CompletableFuture<Boolean> closed = new CompletableFuture<>();
    /// The appended LSN and the durable LSN.
    private final AtomicLong appended = new AtomicLong();

    private volatile long durable;
    private final DurableWaits waits;

    Engine(GraphStore graph, Recorder recorder, PersistenceRuntime.Settings settings) throws GraphStoreException {
        this.graph = graph;
        name = graph.name();
        waits = new DurableWaits(this::waitDurable);
        this.recorder = recorder;
        this.settings = settings;
        loaded = new Loaded(this, settings.loadedBytesMax());
        hooks = new LoadHooks(recorder, settings.hooks());
        forms = new Forms(recorder.fields(), settings);
        keys = new HashKeys(recorder.fields());
        parts = new LoadedParts(this);
        schema = new Schema(graph, recorder.fields(), settings, forms, keys);
        for (Map.Entry<String, Long> root : graph.roots().entrySet()) {
            roots.put(root.getKey(), new Root(this, root.getKey(), root.getValue()));
        }
        isRestarted = !schema.isEmpty() || !roots.isEmpty();
        inDoubt = new InDoubtChanges(graph);
        branches = new Branches(this, recorder, inDoubt.branches(), inDoubt.heuristic(), settings.nanos());
        int doubtful = inDoubt.branches().size();
        if (doubtful != 0) {
            log(
                    System.Logger.Level.WARNING,
                    name + ": branches in doubt: " + doubtful
                            + ". Their objects cannot be read until the transaction manager ends them, or `cedrat resolve`",
                    null);
        }
    }

    @Override
    public boolean hasStopped() {
        return end != null;
    }

    @Override
    public boolean locksReads() {
        return settings.locksReads();
    }

    // ---- states

    @Override
    public void check() {
        String why = end;
        if (why != null) {
            throw cause == null ? new IllegalStateException(why) : new StoreException(why, cause);
        }
    }

    /// Nothing is loaded or stored any more.
    StoreException stop(Throwable failure) {
        boolean isFirst;
        synchronized (this) {
            isFirst = end == null;
            if (isFirst) {
                cause = failure;
                end =
                        "the store has stopped after a failure, because it cannot tell which of the last commits are durable: "
                                + "close it and open it again";
            }
        }
        if (isFirst) {
            log(System.Logger.Level.ERROR, name + ": " + end, failure);
        }
        return new StoreException(end, failure);
    }

    /// The program's logging may have barriers, and be used for the first time here. If it fails, the failure that is
    /// logged counts.
    private void log(System.Logger.Level level, String message, Throwable thrown) {
        recorder.unrecorded(() -> {
            try {
                System.getLogger("cedrat.persist").log(level, message, thrown);
            } catch (RuntimeException | Error e) {
                if (thrown != null && thrown != e) {
                    thrown.addSuppressed(e);
                }
            }
            return null;
        });
    }

    /// As [cedrat.persist.Store#failure].
    Optional<StoreException> failure() {
        Throwable why = cause;
        return why == null ? Optional.empty() : Optional.of(new StoreException(end, why));
    }

    void close() throws GraphStoreException {
        end = CLOSED;
        cause = null;
        // A collection sees that the end has come.
        Unbroken.lock(collecting);
        try {
            if (!isClosed) {
                graph.close();
                isClosed = true;
                closed.complete(true);
            }
        } finally {
            closed.complete(false);
            Unbroken.unlock(collecting);
        }
    }

    @Override
    public StoreException refused(GraphStoreException failure) {
        if (failure.isStopped()) {
            return stop(failure);
        }
        return failure.isInDoubt()
                ? new InDoubtException(failure)
                : new StoreException("the store refused the operation: " + failure.getMessage(), failure);
    }

    // ---- durability

    void appended(long lsn) {
        long known = appended.get();
        while (known < lsn && !appended.weakCompareAndSetVolatile(known, lsn)) {
            known = appended.get();
        }
    }

    /// Waits until everything that was committed by now is durable, if that was asked for.
    @Override
    public void awaitDurable() {
        if (settings.waits()) {
            awaitDurable(appended());
        }
    }

    @Override
    public long appended() {
        return appended.get();
    }

    @Override
    public void awaitDurable(long place) {
        if (place <= durable) {
            return;
        }
        DurableWaitEvent event = new DurableWaitEvent();
        event.begin();
        if (Thread.currentThread().isVirtual()) {
            waits.await(place);
        } else {
            waitDurable(place);
        }
        event.end(name, place);
    }

    /// As [#awaitDurable(long)], on a platform thread.
    private void waitDurable(long place) {
        if (place <= durable) {
            return;
        }
        try {
            if (end == null) {
                graph.waitDurable(place);
                becameDurable(place);
                return;
            }
        } catch (GraphStoreException e) {
            if (!isClosing()) {
                throw stop(e);
            }
        }
        if (!isClosing() || !closed.join()) {
            check();
        }
    }

    @Override
    public CompletableFuture<Void> whenDurable() {
        long place = appended();
        if (place <= durable) {
            return CompletableFuture.completedFuture(null);
        }
        return waits.until(place).thenApplyAsync(Function.identity());
    }

    /// Whether it is closed, or about to be. That makes durable what was committed, or fails.
    private boolean isClosing() {
        return CLOSED.equals(end);
    }

    private synchronized void becameDurable(long place) {
        durable = Math.max(durable, place);
    }

    // ---- collection

    /// Removes unreachable objects from the store.
    ///
    /// - Objects in memory stay, whether a name reaches them or not. The table passes their identities at
    ///   the beginning, and again before anything is removed, each time while no load is under way. The
    ///   store itself marks what is read in between.
    ///
    /// @return how many objects were removed
    long collect() {
        Unbroken.lock(collecting);
        try {
            check();
            CollectionEvent event = new CollectionEvent();
            event.begin();
            try (GraphStore.Collection collection = graph.collect(loader.alive())) {
                GraphStore.Stage stage = GraphStore.Stage.MARKING;
                while (stage != GraphStore.Stage.DONE && end == null) {
                    stage = stage == GraphStore.Stage.MARKED
                            ? collection.seal(loader.alive())
                            : collection.step(COLLECTION_STEP);
                }
                long removed = collection.removed();
                if (end == null) {
                    schema.dropUnused(collection);
                }
                counters.collected(removed);
                event.end(name, removed);
                return removed;
            } catch (GraphStoreException e) {
                throw refused(e);
            }
        } finally {
            Unbroken.unlock(collecting);
        }
    }

    BackupReport backup(Path folder, BackupOptions options) {
        check();
        try {
            return graph.backup(folder, options);
        } catch (GraphStoreException e) {
            throw refused(e);
        }
    }

    void rotateKey(byte[] key) {
        check();
        try {
            graph.rotateKey(key);
        } catch (GraphStoreException e) {
            throw refused(e);
        }
    }

    // ---- loading

    /// Returns the object of a reference.
    Object resolve(long word) {
        check();
        LoadEvent event = new LoadEvent();
        event.begin();
        try {
            Object object = loader.resolve(word);
            event.end(name, object);
            return object;
        } catch (GraphStoreException e) {
            throw refused(e);
        }
    }

    /// Returns the value of a reference that leads to no object of the store.
    Object value(long word) {
        return switch (Words.tag(word)) {
            case Words.CONSTANT -> schema.constant(word);
            case Words.CANONICAL -> forms.canonical(word);
            default -> Words.box(word);
        };
    }

    @Override
    public Object readNull(Persistable base, Slot.Field field) {
        ObjectIdentity identity = (ObjectIdentity) base.cedrat$identity();
        Layout layout = ((Layout) identity.shape).current();
        int reference = layout.reference(field);
        if (reference < 0) {
            return field.read(base);
        }
        while (true) {
            long word;
            Layout stored;
            synchronized (identity) {
                Object value = layout.get(base, reference);
                stored = (Layout) identity.shape;
                word = identity.word(reference);
                if (value != null || word == 0) {
                    return value;
                }
            }
            Object value;
            try {
                value = resolve(word);
            } catch (StoreException gone) {
                if (isStill(identity, layout, base, reference, word)) {
                    throw gone;
                }
                continue;
            }
            value = stored.converted(reference, value);
            boolean isSettled = false;
            synchronized (identity) {
                if (identity.word(reference) == word && layout.get(base, reference) == null) {
                    layout.put(base, reference, value);
                    identity.settle(reference);
                    isSettled = true;
                }
            }
            if (isSettled) {
                loaded.add(identity);
                findParts(base, identity, value);
                return value;
            }
        }
    }

    @Override
    public Object readElement(Object[] table, int index) {
        return parts.read(table, index);
    }

    @Override
    public void loadBucket(Object map, int hash) {
        parts.loadBucket(map, hash);
    }

    @Override
    public boolean isByPart(Object map) {
        IdentityEntry known = entry(map);
        return known != null && known.owner().stored instanceof Parts;
    }

    @Override
    public void awaitUnloading(Object owner) {
        IdentityEntry known = table.find(owner);
        if (known instanceof ObjectIdentity identity && identity.stored instanceof Parts) {
            synchronized (identity) {
                return;
            }
        }
    }

    /// Converts the fields of an object that is about to be stored with their present types.
    void convertFields(Object object, ObjectIdentity identity) {
        if (identity.shape instanceof Layout stored && stored != stored.current()) {
            for (int i = 0; i < stored.current().referenceCount(); i++) {
                if (stored.isConverted(i) && stored.current().get(object, i) == null) {
                    readNull((Persistable) object, stored.current().slot(i));
                }
            }
        }
    }

    @Override
    public boolean stores(Persistable base, Slot.Field field) {
        ObjectIdentity identity = (ObjectIdentity) base.cedrat$identity();
        return ((Layout) identity.shape).current().place(field) >= 0;
    }

    /// Notes that what was loaded may be a part of a container of a library, and its elements too.
    private void findParts(Object from, ObjectIdentity identity, Object part) {
        ObjectIdentity container = part == null ? null : keys.container(from, identity, part);
        ObjectIdentity known = container == null ? null : identity(part);
        if (known == null || known.container == container) {
            return;
        }
        known.container = container;
        if (part instanceof Object[] elements) {
            for (Object element : elements) {
                findParts(part, known, element);
            }
        }
    }

    private ObjectIdentity identity(Object object) {
        Object known = object instanceof Persistable persistable ? persistable.cedrat$identity() : table.find(object);
        return known instanceof ObjectIdentity identity ? identity : null;
    }

    /// Whether a reference is still what it was when it was read. If not, a transaction may have taken it away, and a
    /// collection what it led to.
    private static boolean isStill(ObjectIdentity identity, Layout layout, Persistable base, int reference, long word) {
        synchronized (identity) {
            return identity.word(reference) == word && layout.get(base, reference) == null;
        }
    }

    /// The identity of a persistent object, or 0: it is none, or no object of the store.
    long known(Object value) {
        if (value instanceof Persistable object) {
            return object.cedrat$identity() instanceof ObjectIdentity identity && identity.store == this
                    ? identity.id
                    : 0;
        }
        return table.find(value) instanceof ObjectIdentity identity ? identity.id : 0;
    }

    @Override
    public void keepLoaded(Persistable base) {
        ObjectIdentity identity = (ObjectIdentity) base.cedrat$identity();
        synchronized (identity) {
            identity.isKept = true;
        }
    }

    /// Lets an object without a field for its identity, and its parts, be found.
    void attach(ObjectIdentity identity, Object object) {
        table.attach(identity, object);
        attachParts(identity, object);
    }

    /// Lets parts be found of what was stored as a whole.
    void attachParts(ObjectIdentity identity, Object object) {
        if (identity.shape instanceof FormShape shape) {
            attachParts(identity, object, shape.form.stored(object), true);
        }
    }

    /// Lets an object, and its parts, be found that was loaded.
    void attachLoaded(ObjectIdentity identity, Object object, Object stored) {
        table.attach(identity, object);
        if (identity.shape instanceof FormShape) {
            // Of what is loaded by part, nothing is there yet.
            attachParts(identity, object, stored, !(stored instanceof Parts));
        }
    }

    private void attachParts(ObjectIdentity identity, Object object, Object stored, boolean isWhole) {
        int[] places = stored instanceof NodeForm.Placed placed ? placed.places() : null;
        identity.stored = stored instanceof NodeForm.Placed placed ? placed.cells() : stored;
        Cells cells = identity.stored instanceof Cells its ? its : null;
        if (identity.stored instanceof Parts parted) {
            parted.owner = identity;
        }
        Form.PartVisitor visitor = new Form.PartVisitor() {
            private int entry;

            @Override
            public void add(Object part) {
                attachPart(identity, part, null, -1);
            }

            @Override
            public void addWithCells(Object part) {
                attachPart(identity, part, cells, -1);
            }

            @Override
            public void addEntry(Object part) {
                int place = places == null ? entry : places[entry];
                attachPart(identity, part, cells, place);
                entry++;
            }
        };
        Form form = ((FormShape) identity.shape).form;
        if (form instanceof PartedForm parted && !isWhole) {
            parted.frame(object, visitor);
        } else {
            form.parts(object, visitor);
        }
    }

    /// Empty arrays are shared.
    static boolean mayBeAttached(Object part) {
        return part != null && !(part.getClass().isArray() && Array.getLength(part) == 0);
    }

    /// Lets a part be found.
    void attachPart(ObjectIdentity owner, Object part, Cells cells, int cell) {
        if (!mayBeAttached(part)) {
            return;
        }
        PartIdentity stored = part(owner, part);
        if (stored != null) {
            stored.markStored();
            stored.cells = cells;
            stored.cell = cell;
        }
    }

    /// Lets a part be found that a transaction adds.
    ///
    /// @return null if it is there already
    PartIdentity addPart(ObjectIdentity owner, Object part, Locks.Owner by) {
        PartIdentity added = mayBeAttached(part) ? part(owner, part) : null;
        return added != null && added.add(by) ? added : null;
    }

    /// Makes an object a part of another one and returns its identity; null if it is an object of its own.
    private PartIdentity part(ObjectIdentity owner, Object object) {
        IdentityEntry known = table.find(object);
        if (known instanceof PartIdentity same && same.owner() == owner) {
            return same;
        }
        if (known instanceof PartIdentity other) {
            // It was a part of something that is there no more.
            table.detach(other);
        } else if (known != null) {
            return null;
        }
        PartIdentity added = new PartIdentity(owner, object);
        table.attach(added, object);
        return added;
    }

    /// Returns the identity of an array or an object of the JDK that is persistent, or a part of one; otherwise null.
    IdentityEntry entry(Object object) {
        IdentityEntry known = table.find(object);
        return known instanceof PartIdentity part && part.isTakenBack() ? null : known;
    }

    // ---- stores

    @Override
    public void refuseStore(Object base) {
        Object whole = base;
        if (!(base instanceof Persistable)) {
            IdentityEntry known = entry(base);
            if (known == null) {
                return;
            }
            whole = known.owner().get();
        }
        throw new IllegalStateException("cannot change a persistent object of "
                + (whole == null ? base : whole).getClass().getTypeName()
                + " outside of a transaction: change it within a transaction");
    }

    @Override
    public Object owner(Object part) {
        IdentityEntry known = entry(part);
        return known == null ? null : known.owner().get();
    }

    @Override
    public Object livingOwner(Object part) {
        IdentityEntry known = entry(part);
        return known == null ? null : whole(known, part);
    }

    @Override
    public void adds(Object base, Object made, TopLevel by) {
        IdentityEntry known = entry(base);
        if (known != null) {
            NewParts.of(by).add(this, known.owner(), base, made, by);
        }
    }

    @Override
    public boolean isTakenBack(Object base, TopLevel reader) {
        return table.find(base) instanceof PartIdentity part && part.isTakenBack(reader.owner, reader.began);
    }

    /// Returns the object that is locked for a part, and stored if the part has changed; it may be the part itself.
    ///
    /// @throws IllegalStateException if it is not in memory any more
    static Object whole(IdentityEntry known, Object part) {
        if (known instanceof ObjectIdentity) {
            return part;
        }
        Object whole = known.owner().get();
        if (whole == null) {
            throw new IllegalStateException(
                    "cannot use an object of " + part.getClass().getTypeName()
                            + ": it is a part of a persistent collection that was unloaded, because the program held only this "
                            + "part; look the collection up again, and take the part from it");
        }
        return whole;
    }

    @Override
    public Commit changes(TransactionLevel transaction) {
        Commit commit = new Commit(this, transaction);
        return commit.isEmpty() && Faces.changed(transaction.top, this) == null ? null : commit;
    }

    @Override
    public GraphStore.Faces beginFaces() throws GraphStoreException {
        return graph.begin();
    }

    @Override
    public void commitPrepared(BranchId branch) throws GraphStoreException {
        graph.commitPrepared(branch.stored());
    }

    @Override
    public void rollbackPrepared(BranchId branch) throws GraphStoreException {
        graph.rollbackPrepared(branch.stored());
    }

    @Override
    public void forget(BranchId branch) throws GraphStoreException {
        graph.forget(branch.stored());
    }

    @Override
    public void finishRollback(BranchId branch) {
        inDoubt.end(branch);
    }

    @Override
    public void finishCommit(BranchId branch, GraphStore.Changed changed) throws GraphStoreException {
        Map<String, Long> now = changed.roots().isEmpty() ? Map.of() : graph.roots();
        for (String name : changed.roots()) {
            roots.computeIfAbsent(name, key -> new Root(this, key, 0)).set(now.getOrDefault(name, 0L), null);
        }
        inDoubt.end(branch);
    }
}
