package cedrat.persist.store;

import cedrat.persist.BackupOptions;
import cedrat.persist.BackupReport;
import cedrat.persist.GraphStore;
import cedrat.persist.GraphStoreException;
import cedrat.persist.Heap;
import cedrat.persist.PersistenceRuntime;
import cedrat.persist.Records;
import cedrat.persist.Store;
import cedrat.persist.StoreException;
import cedrat.persist.StoreStatistics;
import cedrat.persist.branch.BranchResource;
import cedrat.persist.record.Recorder;
import cedrat.persist.record.WovenCode;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.List;
import java.util.Objects;
import java.util.Optional;
import java.util.Set;
import java.util.TreeSet;
import java.util.function.Supplier;
import javax.transaction.xa.XAResource;

/// An open store, as programs have it.
///
/// **Threads:** any.
final class ObjectStore extends Store {
    private static final int NAME_BYTES_MAX = 1024;

    private final Recorder recorder;
    private final Engine engine;

    private ObjectStore(Recorder recorder, Engine engine) {
        this.recorder = recorder;
        this.engine = engine;
    }

    /// As [Store#open(GraphStore, StoreOptions)].
    static ObjectStore open(Recorder recorder, GraphStore graph, PersistenceRuntime.Settings settings) {
        boolean isOpen = false;
        try {
            recorder.unwoven.checkReads();
            if (settings.locksReads()) {
                recorder.unwoven.checkReadLocks();
            }
            Engine engine = recorder.unrecorded(() -> engine(graph, recorder, settings));
            recorder.opened(engine);
            isOpen = true;
            return new ObjectStore(recorder, engine);
        } finally {
            if (!isOpen) {
                closeUnused(graph);
            }
        }
    }

    private static Engine engine(GraphStore graph, Recorder recorder, PersistenceRuntime.Settings settings) {
        try {
            return new Engine(graph, recorder, settings);
        } catch (GraphStoreException e) {
            throw new StoreException("cannot open the store: " + e.getMessage(), e);
        }
    }

    private static void closeUnused(GraphStore graph) {
        try {
            graph.close();
        } catch (GraphStoreException e) {
            throw new StoreException("cannot close a store that was not opened completely: " + e.getMessage(), e);
        }
    }

    @Override
    public boolean setRoot(String name, Object root) {
        Objects.requireNonNull(name);
        Objects.requireNonNull(root, "cannot make null a root: call removeRoot to remove a name");
        return inTransaction(() -> set(name, root));
    }

    @Override
    public void removeRoot(String name) {
        Objects.requireNonNull(name);
        inTransaction(() -> set(name, null));
    }

    private boolean set(String name, Object object) {
        Root root = lockToChange(name);
        boolean wasMarked = root.isMarked();
        if (engine.locksReads() && wasMarked != (object != null)) {
            recorder.reads.lockNamesToChange(engine.roots);
        }
        root.set(0, object);
        return !wasMarked;
    }

    /// Returns a name, also one without an object, which this transaction may change from here on.
    private Root lockToChange(String name) {
        engine.check();
        engine.inDoubt.check(name);
        if (name.getBytes(StandardCharsets.UTF_8).length > NAME_BYTES_MAX) {
            throw new IllegalArgumentException(
                    "the name of a root has more than " + NAME_BYTES_MAX + " bytes in UTF-8: " + name);
        }
        if (engine.locksReads() && engine.roots.get(name) == null) {
            recorder.reads.lockNamesToChange(engine.absentNames.of(name));
        }
        Root root = engine.roots.computeIfAbsent(name, key -> new Root(engine, key, 0));
        root.beforeChange(recorder);
        return root;
    }

    @Override
    @SuppressWarnings("unchecked")
    public <T> T root(String name, Class<? super T> type) {
        Objects.requireNonNull(name);
        Object object = recorder.unrecorded(() -> find(name));
        if (object != null && !type.isInstance(object)) {
            throw new StoreException(
                    "the root " + name + " is a " + object.getClass().getName() + ", not a " + type.getName()
                            + ": ask for that class or one that it extends");
        }
        return (T) object;
    }

    @Override
    public <T> T root(String name, Class<? super T> type, Supplier<? extends T> initial) {
        // In a transaction too if the name leads somewhere: that may not be committed, and be taken back.
        return recorder.transactions.isInTransaction()
                ? findOrAdd(name, type, initial)
                : WovenCode.call(transaction -> this.<T>findOrAdd(name, type, initial));
    }

    private <T> T findOrAdd(String name, Class<? super T> type, Supplier<? extends T> initial) {
        T found = root(name, type);
        if (found == null) {
            recorder.unrecorded(() -> lockToChange(name));
            // Another transaction may have been faster.
            found = root(name, type);
        }
        if (found == null) {
            found = Objects.requireNonNull(initial.get(), "the object of a new root must not be null");
            setRoot(name, found);
        }
        return found;
    }

    private Object find(String name) {
        engine.check();
        engine.inDoubt.check(name);
        Root root = engine.locksReads() ? lockedRoot(name) : engine.roots.get(name);
        if (root == null) {
            return null;
        }
        while (true) {
            Object object = root.object();
            if (object != null) {
                return object;
            }
            long word = root.word();
            try {
                return engine.resolve(word);
            } catch (StoreException gone) {
                // The name may lead elsewhere by now, and what it led to was removed.
                if (root.word() == word && root.object() == null) {
                    throw gone;
                }
            }
        }
    }

    /// Locks a name, also one without an object: it may have one when another transaction has ended.
    private Root lockedRoot(String name) {
        Root root = engine.roots.get(name);
        if (root == null) {
            recorder.reads.lockNames(engine, engine.absentNames.of(name));
            root = engine.roots.get(name);
        }
        if (root != null) {
            recorder.reads.lockNames(engine, root);
        }
        return root;
    }

    @Override
    public Set<String> rootNames() {
        return recorder.unrecorded(() -> {
            if (engine.locksReads()) {
                recorder.reads.lockNames(engine, engine.roots);
            }
            Set<String> names = new TreeSet<>();
            for (Root root : engine.roots.values()) {
                if (root.isMarked()) {
                    names.add(root.name);
                }
            }
            return names;
        });
    }

    @Override
    public List<String> check(Object root) {
        Objects.requireNonNull(root);
        engine.check();
        if (recorder.transactions.isInTransaction()) {
            return recorder.unrecorded(() -> new Commit(engine, recorder.current()).check(root));
        }
        return WovenCode.call(transaction -> {
            try {
                return recorder.unrecorded(() -> new Commit(engine, recorder.current()).check(root));
            } finally {
                transaction.rollback();
            }
        });
    }

    @Override
    public Records records(String name) {
        Objects.requireNonNull(name);
        return recorder.unrecorded(() -> engine.records.computeIfAbsent(
                name, key -> new StoredRecords(recorder, engine, opened(graph -> graph.records(key)))));
    }

    @Override
    public Heap heap(String name, long bytes) {
        Objects.requireNonNull(name);
        return recorder.unrecorded(() -> engine.heaps.computeIfAbsent(
                name, key -> new StoredHeap(recorder, engine, opened(graph -> graph.heap(key, bytes)))));
    }

    private interface Opening {
        long handle(GraphStore graph) throws GraphStoreException;
    }

    private long opened(Opening opening) {
        engine.check();
        try {
            return opening.handle(engine.graph);
        } catch (GraphStoreException e) {
            throw engine.refused(e);
        }
    }

    @Override
    public boolean isNew() {
        return !engine.isRestarted;
    }

    @Override
    public long collect() {
        return recorder.<Long>unrecorded(engine::collect);
    }

    @Override
    public BackupReport backup(Path folder, BackupOptions options) {
        Objects.requireNonNull(folder);
        Objects.requireNonNull(options);
        return recorder.<BackupReport>unrecorded(() -> engine.backup(folder, options));
    }

    @Override
    protected void rotateTo(byte[] key) {
        recorder.<Void>unrecorded(() -> {
            engine.rotateKey(key);
            return null;
        });
    }

    @Override
    public StoreStatistics statistics() {
        return engine.counters.read(engine.loaded.bytes());
    }

    @Override
    public Optional<StoreException> failure() {
        return engine.failure();
    }

    @Override
    public XAResource xaResource() {
        return new BranchResource(engine.branches);
    }

    @Override
    public void close() {
        if (recorder.transactions.isInTransaction()) {
            throw new IllegalStateException("cannot close a store within a transaction: end the transaction first");
        }
        recorder.unrecorded(engine.branches::close);
        engine.parts.close();
        try {
            engine.table.leave(recorder.leave());
        } finally {
            recorder.closed(engine);
        }
        try {
            engine.close();
        } catch (GraphStoreException e) {
            throw new StoreException("cannot close the store: " + e.getMessage(), e);
        }
    }

    private interface Work {
        boolean run();
    }

    private boolean inTransaction(Work work) {
        if (recorder.transactions.isInTransaction()) {
            return recorder.<Boolean>unrecorded(work::run);
        }
        return WovenCode.call(transaction -> recorder.<Boolean>unrecorded(work::run));
    }
}
