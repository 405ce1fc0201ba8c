package cedrat.persist;

import cedrat.persist.JavaBase.Treatment;
import cedrat.persist.boot.Barrier;
import cedrat.persist.boot.Handler;
import cedrat.persist.boot.Identity;
import cedrat.persist.boot.Persistable;
import java.lang.foreign.MemorySegment;
import java.lang.invoke.VarHandle;
import java.lang.reflect.Array;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.nio.Buffer;
import java.util.AbstractMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.ConcurrentSkipListSet;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.Supplier;

/// What happens at a store while a transaction lives, and at the end of one.
///
/// - J3  The first store of a transaction to an object takes its write lock, and holds it to the end of the
///       top-level transaction. Otherwise a rollback would restore over what another transaction has written.
///
/// A thread that is in no transaction may not store to what is locked: there is nobody to wait for who would
/// let it in between. It is told so by an exception.
///
/// **Threads:** any.
final class Recorder implements Handler {
    private static final int SHOWN_MAX = 5;

    private static volatile Recorder installed;

    private final ThreadLocal<Context> contexts = ThreadLocal.withInitial(Context::new);
    private final Locks locks = new Locks();
    private final AtomicLong births = new AtomicLong();
    /// How often transactions have taken back what they had made persistent collections of.
    private final AtomicLong takenBack = new AtomicLong();
    private final Treatments treatments = new Treatments();
    private final Callers callers = new Callers();
    private final Fields fields;
    private final List<Persistent> stores = new CopyOnWriteArrayList<>();
    /// Those whose objects are locked by who reads them.
    private final List<Persistent> locking = new CopyOnWriteArrayList<>();
    private final boolean locksReads;
    /// What could not be woven, or null.
    private volatile String failure;
    /// What reads fields without barriers.
    private final Set<String> unguarded = new ConcurrentSkipListSet<>();

    /// @param locksReads whether reads are woven so that they can lock
    Recorder(Fields fields, boolean locksReads) {
        this.fields = fields;
        this.locksReads = locksReads;
    }

    /// Makes it that of the process.
    void install() {
        Barrier.install(this);
        installed = this;
    }

    /// @throws IllegalStateException if the agent is not loaded
    static Recorder get() {
        Recorder recorder = installed;
        if (recorder == null) {
            throw notLoaded();
        }
        return recorder;
    }

    private static IllegalStateException notLoaded() {
        return new IllegalStateException("stores are not remembered, because the agent is not loaded: start Java with "
                + "-javaagent:persist.jar, or say Launcher-Agent-Class in the manifest of your own jar");
    }

    static IllegalStateException notWoven() {
        if (installed == null) {
            return notLoaded();
        }
        return new IllegalStateException(
                "the calling class has no write barriers, so a rollback would miss its stores: "
                        + "it is excluded from weaving, is a hidden class, calls by reflection or by a method reference, "
                        + "or was running when the agent was loaded");
    }

    /// A class could not be woven: no transaction begins any more.
    void fail(String what) {
        failure = what;
    }

    /// Something reads fields without barriers: no store is opened.
    void leaveUnguarded(String what) {
        // One more than are shown tells that there are others.
        if (unguarded.size() <= SHOWN_MAX) {
            unguarded.add(what);
        }
    }

    // ---- stores of persistent objects

    boolean guardsReads() {
        return unguarded.isEmpty();
    }

    /// @throws IllegalStateException if something would see null where a reference is not loaded yet (J1)
    void checkReads() {
        if (failure != null) {
            throw new IllegalStateException("references of a class would not be loaded: " + failure);
        }
        if (!unguarded.isEmpty()) {
            String some = String.join(", ", unguarded.stream().limit(SHOWN_MAX).toList());
            throw new IllegalStateException("references would not be loaded where these read them: " + some
                    + (unguarded.size() > SHOWN_MAX ? ", and others" : "")
                    + ". They were there before the agent: start Java with -javaagent, and name it before other "
                    + "agents, or leave classes that touch no persistent object out by its argument exclude=…");
        }
    }

    /// @throws IllegalStateException if reads are woven so that they lock nothing
    void checkReadLocks() {
        if (!locksReads) {
            throw new IllegalStateException(
                    "readLocks(true) needs barriers where objects are read, which the agent puts "
                            + "there if it is asked to: start Java with -javaagent:persist.jar=reads=lock, behind a comma if the "
                            + "agent has another argument");
        }
    }

    Fields fields() {
        return fields;
    }

    /// A store is open: stores to its objects outside of transactions are refused from here on.
    void opened(Persistent store) {
        stores.add(store);
        Barrier.storeOpened();
        if (store.locksReads()) {
            locking.add(store);
            Barrier.lockingOpened();
        }
    }

    /// A store is closed.
    void closed(Persistent store) {
        if (locking.remove(store)) {
            Barrier.lockingClosed();
        }
        if (stores.remove(store)) {
            Barrier.storeClosed();
        }
    }

    /// What a store does of its own accord: barriers let this thread's reads and stores pass as they are.
    <T> T unrecorded(Supplier<T> work) {
        return this.<T, RuntimeException>unrecordedCall(work::get);
    }

    /// As that, of work that may fail otherwise.
    <T, E extends Exception> T unrecordedCall(Transaction.PlainCall<T, E> work) throws E {
        Context context = contexts.get();
        boolean wasUnrecorded = context.isUnrecorded;
        context.isUnrecorded = true;
        try {
            return work.call();
        } finally {
            context.isUnrecorded = wasUnrecorded;
        }
    }

    /// The store of a persistent object, or null: of anything else.
    private static Persistent storeOf(Object base) {
        return base instanceof Persistable object && object.cedrat$identity() instanceof StoredIdentity identity
                ? identity.store()
                : null;
    }

    @Override
    public Object readNull(Object base, int field) {
        return unrecorded(() -> readNull(base, fields.slot(field, base)));
    }

    private static Object readNull(Object base, Slot.Field field) {
        Persistent store = storeOf(base);
        return store == null ? null : store.readNull((Persistable) base, field);
    }

    @Override
    public void beforeRead(Object base) {
        if (storeOf(base) == null) {
            return;
        }
        Context context = contexts.get();
        // What stores and rollbacks read by handles, they read as it is.
        if (context.isUnrecorded && !context.isFilling) {
            return;
        }
        boolean wasUnrecorded = context.isUnrecorded;
        boolean wasFilling = context.isFilling;
        context.isUnrecorded = true;
        context.isFilling = false;
        try {
            storeOf(base).keepLoaded((Persistable) base);
            loadAll(base);
        } finally {
            context.isUnrecorded = wasUnrecorded;
            context.isFilling = wasFilling;
        }
    }

    /// A store calls methods of the program, from now on or no more: what they read is loaded, what they store is
    /// not remembered.
    ///
    /// @return whether it did before
    boolean filling(boolean isFilling) {
        Context context = contexts.get();
        boolean wasFilling = context.isFilling;
        context.isFilling = isFilling;
        return wasFilling;
    }

    @Override
    public void copied(Object object, Object copy) {
        if (copy != object && copy instanceof Persistable other) {
            Identity identity = other.cedrat$identity();
            if (identity != null && object instanceof Persistable one && one.cedrat$identity() == identity) {
                other.cedrat$identity(null);
            }
        }
    }

    /// Loads what is pending of an object, so that its fields are what a rollback has to restore.
    private void loadAll(Object base) {
        Persistent store = storeOf(base);
        if (store != null) {
            for (Slot.Field reference : fields.references(base.getClass())) {
                if (reference.read(base) == null) {
                    store.readNull((Persistable) base, reference);
                }
            }
        }
    }

    /// A thread that is in no transaction is about to store to an object.
    ///
    /// @throws IllegalStateException if it is persistent (J2)
    private void refuseIfPersistent(Context context, Object base) {
        context.isUnrecorded = true;
        try {
            if (base instanceof Persistable) {
                Persistent store = storeOf(base);
                // Of a closed store nothing is persistent any more, whether or not another one is open.
                if (store != null && stores.contains(store)) {
                    store.refuseStore(base);
                }
            } else if (!(base instanceof Class)) {
                for (Persistent store : stores) {
                    store.refuseStore(base);
                }
            }
        } finally {
            context.isUnrecorded = false;
        }
    }

    /// What a root leads to is about to be changed by the transaction of this thread.
    void beforeRoot(Root root) {
        Transaction transaction = contexts.get().innermost;
        check(transaction);
        UndoLog log = transaction.top.log;
        if (!log.has(transaction.logMark, root, Root.SLOT, 0)) {
            transaction.top.changes(root.engine);
            lock(transaction, root, true);
            log.add(root, Root.SLOT, 0, root.word(), root.object());
        }
    }

    // ---- begin and end

    /// The age of a new top-level transaction.
    long birth() {
        return births.incrementAndGet();
    }

    /// @param birth the age of the transaction, if it is a top-level one
    Transaction begin(long birth) {
        if (failure != null) {
            throw new IllegalStateException("stores of a class would not be remembered: " + failure);
        }
        Context context = contexts.get();
        if (context.innermost == null && context.branch != null) {
            enterNested(context, context.branch);
        }
        Transaction outer = context.innermost;
        if (outer == null) {
            context.innermost = new Transaction(new TopLevel(new Locks.Owner(birth), context, takenBack.get()), null);
            Barrier.opened();
            return context.innermost;
        }
        if (outer.top.isDoomed) {
            throw new DeadlockException();
        }
        if (context.suspended != 0) {
            throw new IllegalStateException("a class that is initialised, loaded or linked within a transaction "
                    + "cannot begin one: initialise it before");
        }
        context.innermost = new Transaction(outer.top, outer);
        return context.innermost;
    }

    /// A transaction begins on a thread that has a branch, or had one that was ended on another thread. Who was
    /// not told that it was rolled back is told once: what would begin now may be meant to be part of it (J11.7).
    /// As long as nobody knows how it ends, the thread is not done with it.
    private static void enterNested(Context context, Transaction branch) {
        if (branch.top.enterNested(context)) {
            context.innermost = branch;
        } else if (branch.top.hasOutcome()) {
            context.branch = null;
            branch.top.checkGivenUp();
        }
    }

    boolean isInTransaction() {
        return contexts.get().innermost != null;
    }

    /// @throws IllegalStateException if this thread may not use the transaction now
    void check(Transaction transaction) {
        Context context = contexts.get();
        if (transaction.hasEnded()) {
            throw new IllegalStateException("the transaction has ended: begin another one");
        }
        Context owner = transaction.top.context;
        if (owner != context) {
            throw new IllegalStateException(
                    owner == null
                            ? "the transaction is detached: attach it to this thread first"
                            : "the transaction belongs to another thread: let it detach it, and attach it here");
        }
        if (transaction.top.isDoomed) {
            throw new DeadlockException();
        }
        transaction.top.checkGivenUp();
        if (context.innermost != transaction) {
            throw new IllegalStateException("a transaction that is nested in this one is open: end it first");
        }
    }

    void end(Transaction transaction, Transaction.Action action) {
        // Others go on meanwhile; what they commit is behind this in the log.
        unrecorded(() -> {
            finish(transaction, action).forEach(Persistent::awaitDurable);
            return null;
        });
    }

    /// Commits.
    ///
    /// @return what to wait for
    CommitToken commit(Transaction transaction) {
        if (transaction.outer != null) {
            check(transaction);
            throw new IllegalStateException(
                    "a nested transaction stores nothing: say to the outermost one when its " + "commit is to return");
        }
        return unrecorded(() -> new CommitToken(finish(transaction, Transaction.Action.COMMIT)));
    }

    /// @return the stores to wait for
    private List<Persistent> finish(Transaction transaction, Transaction.Action action) {
        check(transaction);
        if (action == Transaction.Action.ROLLBACK) {
            rollBack(transaction);
            return List.of();
        }
        List<Persistent> awaited = List.of();
        if (transaction.outer != null) {
            transaction.top.log.merge(transaction.outer.logMark, transaction.logMark);
        } else {
            awaited = store(transaction);
        }
        leave(transaction, action);
        return awaited;
    }

    /// Stores what a transaction has changed. If that fails, all is restored, and the transaction has ended.
    ///
    /// @return the stores to wait for: that, or those whose objects may have been read
    private List<Persistent> store(Transaction transaction) {
        try {
            Persistent changed = null;
            Commit changes = null;
            for (Persistent store : transaction.top.changed()) {
                Commit found = store.changes(transaction);
                if (found != null && changed != null) {
                    found.abandon();
                    changes.abandon();
                    throw new PersistenceException("the transaction changes objects of two stores: change those of "
                            + "one in a transaction, and those of the other in another");
                }
                if (found != null) {
                    changed = store;
                    changes = found;
                }
            }
            if (changed != null) {
                changed.commit(changes);
                return List.of(changed);
            }
            return transaction.top.owner.holdsAny() ? stores : List.of();
        } catch (DeadlockException e) {
            doom(transaction);
            throw e;
        } catch (RuntimeException | Error e) {
            rollBack(transaction);
            throw e;
        }
    }

    /// Restores what a transaction has changed, and ends it, whatever comes of that.
    private void rollBack(Transaction transaction) {
        try {
            restore(transaction);
        } finally {
            leave(transaction, Transaction.Action.ROLLBACK);
        }
    }

    private void restore(Transaction transaction) {
        try {
            Faces.rollBack(transaction);
        } finally {
            try {
                transaction.top.log.restore(transaction.logMark);
            } finally {
                transaction.top.made.truncate(transaction.madeMark);
                takeBack(transaction.top, transaction.partMark);
            }
        }
    }

    /// What a transaction has made collections of since there were `mark` of it, and nothing is stored of, is none of
    /// theirs any more. Others learn it when they get the collection's lock.
    private void takeBack(TopLevel top, int mark) {
        if (top.parts.size() > mark) {
            top.parts.takeBack(mark, top.owner, takenBack.incrementAndGet());
        }
    }

    private void leave(Transaction transaction, Transaction.Action action) {
        if (transaction.hasEnded()) {
            return;
        }
        transaction.ended(action);
        boolean isDetached = transaction.top.context == null;
        if (!isDetached) {
            Context context = contexts.get();
            context.innermost = transaction.outer;
            if (transaction.outer != null && transaction.outer == context.branch) {
                context.innermost = null;
                leaveNested(context, transaction.outer);
            }
        } else {
            transaction.top.endedOnNoThread();
        }
        if (transaction.outer == null) {
            try {
                Faces.end(transaction.top);
            } finally {
                if (transaction.top.parts.areAny()) {
                    boolean isCommitted = action == Transaction.Action.COMMIT;
                    transaction.top.parts.end(isCommitted, transaction.top.owner, takenBack.incrementAndGet());
                }
                locks.releaseAll(transaction.top.owner);
                if (!isDetached) {
                    transaction.top.leave();
                }
                Barrier.closed();
            }
        }
    }

    /// The thread is in no transaction any more that is nested in the branch.
    private void leaveNested(Context context, Transaction branch) {
        Runnable atRollback = branch.top.leaveNested();
        if (branch.top.isToldOf()) {
            context.branch = null;
        }
        if (atRollback != null) {
            unrecorded(() -> {
                try {
                    rollBack(branch);
                } finally {
                    atRollback.run();
                }
                return null;
            });
        }
    }

    void close(Transaction transaction) {
        if (transaction.hasEnded()) {
            return;
        }
        Context context = contexts.get();
        if (transaction.top.context != context) {
            check(transaction);
        }
        if (transaction.top.isDoomed) {
            leave(transaction, Transaction.Action.ROLLBACK);
            return;
        }
        if (transaction.top.isGivenUp()) {
            rollback(transaction);
            return;
        }
        end(transaction, transaction.defaultAction());
    }

    void detach(Transaction transaction) {
        check(transaction);
        if (transaction.outer != null) {
            throw new IllegalStateException(
                    "a nested transaction stays on its thread: end it, and detach the outermost");
        }
        contexts.get().innermost = null;
        transaction.top.leave();
    }

    void attach(Transaction transaction) {
        Context context = contexts.get();
        if (transaction.hasEnded()) {
            throw new IllegalStateException("the transaction has ended: begin another one");
        }
        if (context.innermost != null) {
            throw new IllegalStateException("this thread is in a transaction: end or detach it first");
        }
        synchronized (transaction.top) {
            if (transaction.top.context != null) {
                throw new IllegalStateException("the transaction is attached to a thread: let it detach it first");
            }
            transaction.top.enter(context);
        }
        context.innermost = transaction;
    }

    // ---- branches of transactions that span several stores: they begin and end on no thread

    /// A top-level transaction, detached.
    ///
    /// @param beforeStored what may throw when all is locked that is to be stored
    Transaction beginBranch(Runnable beforeStored) {
        Context context = contexts.get();
        Transaction branch = new Transaction(new TopLevel(new Locks.Owner(birth()), context, takenBack.get()), null);
        branch.top.leave();
        branch.top.beforeStored(beforeStored);
        Barrier.opened();
        return branch;
    }

    /// The transactions of this thread are nested in that one from now on.
    void enterBranch(Transaction branch) {
        Context context = contexts.get();
        branch.top.give(context);
        context.branch = branch;
    }

    /// Those of the thread that has it are not any more. On any thread.
    ///
    /// @return false if that is in one, and so keeps the branch
    boolean leaveBranch(Transaction branch) {
        boolean isLeft = branch.top.take();
        forgetBranch();
        return isLeft;
    }

    /// As that, of one of which nothing will be stored.
    ///
    /// @param atRollback what to do when the thread has rolled it back, if it keeps it
    boolean giveUpBranch(Transaction branch, Runnable atRollback) {
        boolean isLeft = branch.top.giveUp(atRollback);
        forgetBranch();
        return isLeft;
    }

    /// This thread knows of a branch that was ended on another thread.
    void forgetBranch() {
        Context context = contexts.get();
        if (context.branch != null && !context.branch.top.isOn(context)) {
            context.branch = null;
        }
    }

    boolean isInBranch() {
        Context context = contexts.get();
        return context.branch != null && context.branch.top.isOn(context);
    }

    /// Prepares what a detached transaction has changed.
    ///
    /// @return null if it has changed nothing, and so has ended
    /// @throws DeadlockException if it was rolled back to end a deadlock
    /// @throws RuntimeException  if it was rolled back
    Commit prepare(Transaction transaction, Persistent store, byte[] branch) {
        return ending(transaction, () -> {
            Commit changes = storesOnly(transaction, store).changes(transaction);
            if (changes != null && store.prepare(changes, branch)) {
                return changes;
            }
            leave(transaction, Transaction.Action.COMMIT);
            // What it has read may be what others have just committed (J11.1).
            store.awaitDurable(store.appended());
            return null;
        });
    }

    /// Commits a detached transaction that has not prepared.
    ///
    /// @throws DeadlockException if it was rolled back to end a deadlock
    /// @throws RuntimeException  if it was rolled back; [PersistenceException] also if the store has stopped
    void commit(Transaction transaction, Persistent store) {
        ending(transaction, () -> {
            Commit changes = storesOnly(transaction, store).changes(transaction);
            if (changes != null) {
                store.commit(changes);
            }
            leave(transaction, Transaction.Action.COMMIT);
            store.awaitDurable();
            return null;
        });
    }

    /// Rolls back a branch that is on no thread, whether or not it has prepared. Threads that had it are told, but for
    /// those that know of its end.
    void rollbackBranch(Transaction branch) {
        branch.top.rollsBack();
        rollback(branch);
    }

    /// Rolls back a transaction that is nested in a branch, or a detached one, of which nobody is told.
    void rollback(Transaction transaction) {
        unrecorded(() -> {
            rollBack(transaction);
            return null;
        });
    }

    /// A detached transaction, which is to be stored on another thread, waits for no lock from now on: it is
    /// rolled back instead.
    void endWait(Transaction transaction) {
        locks.endWait(transaction.top.owner);
    }

    /// A detached transaction has committed that had prepared.
    void committed(Transaction transaction) {
        leave(transaction, Transaction.Action.COMMIT);
    }

    private Commit ending(Transaction transaction, Supplier<Commit> end) {
        return unrecorded(() -> {
            transaction.top.endsHere(true);
            try {
                return end.get();
            } catch (DeadlockException e) {
                transaction.top.rollsBack();
                try {
                    doom(transaction);
                } finally {
                    leave(transaction, Transaction.Action.ROLLBACK);
                }
                throw e;
            } catch (RuntimeException | Error e) {
                if (!transaction.hasEnded()) {
                    transaction.top.rollsBack();
                    rollBack(transaction);
                }
                throw e;
            } finally {
                transaction.top.endsHere(false);
            }
        });
    }

    /// @throws PersistenceException if the transaction has changed objects of another store
    private Persistent storesOnly(Transaction transaction, Persistent only) {
        for (Persistent store : transaction.top.changed()) {
            Commit changes = store == only ? null : store.changes(transaction);
            if (changes != null) {
                changes.abandon();
                throw new PersistenceException("the branch of one store has changed objects of another one: end the "
                        + "one, by delistResource for example, before the other takes part and is changed");
            }
        }
        return only;
    }

    // ---- locks

    void acquire(Object object, boolean toWrite) {
        Objects.requireNonNull(object);
        Context context = contexts.get();
        Transaction transaction = context.innermost;
        if (transaction == null) {
            throw new IllegalStateException("locks belong to transactions, and this thread is in none: begin one");
        }
        // A `hashCode` that a store calls, too, may ask for a lock.
        boolean wasUnrecorded = context.isUnrecorded;
        context.isUnrecorded = true;
        try {
            lock(transaction, object, toWrite);
        } finally {
            context.isUnrecorded = wasUnrecorded;
        }
    }

    /// Does something in pages or heaps, as part of the transaction that this thread is in.
    ///
    /// @param locked what stands for them, to write or to read
    <T> T onFaces(Engine engine, Object locked, boolean toWrite, Faces.Work<T> work) {
        Context context = contexts.get();
        Transaction transaction = context.innermost;
        if (transaction == null) {
            throw new IllegalStateException(
                    "pages and heaps are read and changed in transactions, and this thread is in " + "none: begin one");
        }
        if (context.branch != null && transaction.top == context.branch.top) {
            throw new PersistenceException(
                    "pages and heaps take no part in a transaction over several stores: use them "
                            + "in a transaction of their own");
        }
        boolean wasUnrecorded = context.isUnrecorded;
        context.isUnrecorded = true;
        try {
            engine.check();
            lock(transaction, locked, toWrite);
            Faces faces = Faces.of(transaction, engine);
            transaction.top.changes(engine);
            return faces.run(transaction, toWrite, work);
        } catch (GraphStoreException e) {
            if (e.isConflict()) {
                doom(transaction);
                throw new DeadlockException();
            }
            throw engine.refused(e);
        } finally {
            context.isUnrecorded = wasUnrecorded;
        }
    }

    /// Whether an array or an object of the JDK is persistent in another store than this one.
    boolean isOfAnother(Persistent store, Object object) {
        for (Persistent other : stores) {
            if (other != store && other.owner(object) != null) {
                return true;
            }
        }
        return false;
    }

    boolean isWriter(Transaction transaction, Object object) {
        return locks.isWriter(transaction.top.owner, object);
    }

    boolean isLocked(Object object) {
        return locks.isLocked(object);
    }

    private void lock(Transaction transaction, Object object, boolean toWrite) {
        if (transaction.top.isDoomed) {
            throw new DeadlockException();
        }
        transaction.top.checkGivenUp();
        if (!locks.acquire(transaction.top.owner, object, toWrite)) {
            doom(transaction);
            throw new DeadlockException();
        }
    }

    private void doom(Transaction transaction) {
        try {
            Faces.end(transaction.top);
        } finally {
            try {
                transaction.top.log.restore(0);
            } finally {
                transaction.top.made.truncate(0);
                takeBack(transaction.top, 0);
                transaction.top.isDoomed = true;
                locks.releaseAll(transaction.top.owner);
            }
        }
    }

    /// Locks what a commit makes persistent.
    ///
    /// @return false if the transaction is the victim of a deadlock, and has to give up
    boolean acquire(Transaction transaction, Object object) {
        return locks.acquire(transaction.top.owner, object, true);
    }

    // ---- reads that lock

    /// - J3.2  The lock comes before the look: nobody reads what its writer may still take back, and what a transaction
    ///         has read stays so to its end.
    @Override
    public void lockToRead(Object base) {
        // Records do not change.
        if (base == null || base instanceof Record || base instanceof Persistable && !isLocking(storeOf(base))) {
            return;
        }
        Context context = contexts.get();
        Transaction transaction = context.innermost;
        if (transaction == null || context.isUnrecorded || context.suspended != 0) {
            return;
        }
        TopLevel top = transaction.top;
        if (!top.isDoomed && top.mayRead(base)) {
            return;
        }
        context.isUnrecorded = true;
        try {
            Object locked = base instanceof Persistable ? base : lockedToRead(top, base);
            if (locked != null) {
                lock(transaction, locked, false);
                top.lockedToRead(base);
            }
        } finally {
            context.isUnrecorded = false;
        }
    }

    @Override
    public void lockDeeplyToRead(Object array) {
        NestedArrays.forEach(array, this::lockToRead);
    }

    private boolean isLocking(Persistent store) {
        return store != null && store.locksReads() && locking.contains(store);
    }

    /// Whose lock protects an array or an object of the JDK, or null: nobody's.
    ///
    /// @throws IllegalStateException if nobody has that any more (J7)
    private Object lockedToRead(TopLevel top, Object base) {
        // What a transaction has made is persistent when it has committed. Most arrays are of that kind.
        if (top.made.has(0, base)) {
            return null;
        }
        for (Persistent store : locking) {
            Object owner = store.livingOwner(base);
            if (owner != null) {
                return owner;
            }
        }
        return null;
    }

    /// The transaction of this thread, if it is in one, is about to read what is no object of the program's: names.
    void lockNamesToRead(Object names) {
        Context context = contexts.get();
        if (context.innermost != null && context.suspended == 0) {
            lock(context.innermost, names, false);
        }
    }

    /// As that, to change it.
    void lockNamesToChange(Object names) {
        lock(contexts.get().innermost, names, true);
    }

    // ---- stores

    /// Whether a thread that is in no transaction is about to store to a persistent object of the program that
    /// nobody has locked. It may, to what is not stored with the object: a transient field, where the program
    /// keeps what it can compute again.
    private boolean isPersistentOutside(Context context, Object base) {
        return context.innermost == null
                && !context.isUnrecorded
                && context.suspended == 0
                && storeOf(base) != null
                && !locks.isLocked(base);
    }

    /// Whether the JDK's own fields of an object are those of [AbstractMap]: views that it makes when they are
    /// asked for.
    private static boolean isView(Object base) {
        Class<?> type = base.getClass();
        while (type.getClassLoader() != null) {
            type = type.getSuperclass();
        }
        return type == AbstractMap.class;
    }

    /// The transaction in which this thread is about to store to `base`, or null if nothing is to be
    /// remembered.
    private Transaction storing(Context context, Object base) {
        if (context.isUnrecorded) {
            return null;
        }
        if (context.suspended != 0) {
            // What class loaders store to arrays and collections is no store's business: a store that is asked
            // whether these are persistent may wait for who waits for the class.
            if (base instanceof Persistable || context.loading == 0) {
                refuseIfPersistent(context, base);
            }
            return null;
        }
        Transaction transaction = context.innermost;
        if (transaction == null) {
            if (locks.isLocked(base)) {
                throw new IllegalStateException("an object of " + base.getClass()
                        + " is locked by a transaction: store to it inside of one, which waits");
            }
            refuseIfPersistent(context, base);
            return null;
        }
        TopLevel top = transaction.top;
        return top.made.has(top.isDoomed ? 0 : transaction.madeMark, base) ? null : transaction;
    }

    private void keep(Transaction transaction, Object base, Slot.Field slot) {
        TopLevel top = transaction.top;
        if (top.log.has(transaction.logMark, base, slot, 0)) {
            return;
        }
        lockToChange(transaction, base);
        if (slot.isReference()) {
            Object value = slot.readReference(base);
            // What a rollback puts back is loaded, so that nobody has to remember that it was pending.
            top.log.add(base, slot, 0, 0, value != null ? value : readNull(base, slot));
        } else {
            top.log.add(base, slot, 0, slot.readBits(base), null);
        }
    }

    /// Whether the JDK changes what it keeps for itself, which belongs to no transaction (J5.1). To be asked in
    /// classes of the JDK only, and before a lock is taken: who has called them is not cheap to find out.
    private boolean isOfTheJdk(Object base) {
        if (base instanceof Persistable || locks.isLocked(base)) {
            return false;
        }
        if (!(base instanceof Class)) {
            for (Persistent store : stores) {
                if (store.livingOwner(base) != null) {
                    return false;
                }
            }
        }
        return callers.areOfTheJdk();
    }

    /// Takes the write lock of an object that a transaction is about to change, or of the persistent collection that
    /// it is a part of.
    private void lockToChange(Transaction transaction, Object base) {
        if (!(base instanceof Persistable || base instanceof Class)) {
            lockToChangePart(transaction, base);
            return;
        }
        Persistent store = storeOf(base);
        if (store != null) {
            store.check();
            transaction.top.changes(store);
        }
        lock(transaction, base, true);
        if (store != null) {
            awaitLettingGo(((Persistable) base).cedrat$identity());
        }
    }

    /// As that, of an array or an object of the JDK.
    private void lockToChangePart(Transaction transaction, Object base) {
        if (lockOwner(transaction, base) || locks.isSurelyWriter(transaction.top.owner, base)) {
            return;
        }
        lock(transaction, base, true);
        // Who had the lock may have made it a part of something that is persistent (J3).
        lockOwner(transaction, base);
    }

    /// @return false if it is not persistent
    private boolean lockOwner(Transaction transaction, Object base) {
        for (Persistent open : stores) {
            Object owner = open.livingOwner(base);
            if (owner != null) {
                open.check();
                transaction.top.changes(open);
                lock(transaction, owner, true);
            }
            // Who had the lock may have taken it back: a change of it would be lost (J3).
            if (takenBack.get() != transaction.top.began && open.isTakenBack(base, transaction.top)) {
                doom(transaction);
                throw DeadlockException.ofWhatWasTakenBack(base);
            }
            if (owner != null) {
                return true;
            }
        }
        return false;
    }

    /// Who lets go of an object looks under its identity's monitor whether it is locked. When this returns, none who
    /// has found it unlocked makes its fields pending any more (J7.1).
    private static void awaitLettingGo(Identity identity) {
        synchronized (identity) {
            return;
        }
    }

    @Override
    public void beforeField(Object base, int field) {
        Context context = contexts.get();
        if (base == null || context.isUnrecorded) {
            return;
        }
        if (isPersistentOutside(context, base) && slot(context, field, base).isTransient()) {
            return;
        }
        // A static field may be stored to by way of a subclass, and what is locked is the class that declares
        // it.
        Object home = base instanceof Class ? slot(context, field, base).home(base) : base;
        Transaction transaction = storing(context, home);
        if (transaction == null) {
            return;
        }
        context.isUnrecorded = true;
        try {
            // Of the JDK nobody else stores to a static field here.
            if (home instanceof Class<?> type && type.getClassLoader() == null && isOfTheJdk(home)) {
                return;
            }
            keep(transaction, home, fields.slot(field, base));
        } finally {
            context.isUnrecorded = false;
        }
    }

    @Override
    public void beforeFields(Object base) {
        beforeFields(contexts.get(), base);
    }

    private void beforeFields(Context context, Object base) {
        if (isPersistentOutside(context, base) && isView(base)) {
            return;
        }
        Transaction transaction = storing(context, base);
        if (transaction == null) {
            return;
        }
        context.isUnrecorded = true;
        try {
            Slot.Fields slot = fields.slot(base.getClass());
            if (!transaction.top.log.has(transaction.logMark, base, slot, 0) && !isOfTheJdk(base)) {
                lockToChange(transaction, base);
                loadAll(base);
                transaction.top.log.add(base, slot, 0, 0, slot.read(base));
            }
        } finally {
            context.isUnrecorded = false;
        }
    }

    @Override
    public void beforeLink(Object base, Object part) {
        Context context = contexts.get();
        beforeFields(context, base);
        if (part != null) {
            link(context, base, part);
        }
    }

    @Override
    public void beforeLinkInTable(Object array, int index, Object part) {
        beforeElement(array, index, true);
        if (part != null) {
            link(contexts.get(), array, part);
        }
    }

    /// - J3   What a transaction adds to a persistent collection is known as a part before others can find it: they
    ///        wait for the collection's lock, which the transaction has.
    private static void link(Context context, Object base, Object part) {
        Transaction transaction = context.innermost;
        if (transaction == null || context.isUnrecorded || context.suspended != 0) {
            return;
        }
        TopLevel top = transaction.top;
        // Who has changed nothing persistent has changed no persistent collection.
        if (top.changed().length == 0 || top.isDoomed || !top.made.has(0, part)) {
            return;
        }
        context.isUnrecorded = true;
        try {
            for (Persistent store : top.changed()) {
                store.adds(base, part, top);
            }
        } finally {
            context.isUnrecorded = false;
        }
    }

    /// A rollback takes the mark back that a method leaves which throws; outside of transactions the JDK's own does as
    /// it does without barriers.
    @Override
    public void beforeMark(Object base) {
        if (contexts.get().innermost != null) {
            beforeFields(base);
        }
    }

    private Slot.Field slot(Context context, int field, Object base) {
        context.isUnrecorded = true;
        try {
            return fields.slot(field, base);
        } finally {
            context.isUnrecorded = false;
        }
    }

    @Override
    public void beforeElement(Object array, int index) {
        beforeElement(array, index, false);
    }

    @Override
    public void beforeElementInJdk(Object array, int index) {
        beforeElement(array, index, true);
    }

    private void beforeElement(Object array, int index, boolean isInJdk) {
        if (array == null) {
            return;
        }
        Context context = contexts.get();
        Transaction transaction = storing(context, array);
        if (transaction == null || index < 0 || index >= Array.getLength(array)) {
            return;
        }
        context.isUnrecorded = true;
        try {
            UndoLog log = transaction.top.log;
            if (!log.has(transaction.logMark, array, Slot.ELEMENT, index) && !(isInJdk && isOfTheJdk(array))) {
                lockToChange(transaction, array);
                Object value = array instanceof Object[] references ? references[index] : null;
                log.add(array, Slot.ELEMENT, index, bits(array, index), value);
            }
        } finally {
            context.isUnrecorded = false;
        }
    }

    private static long bits(Object array, int index) {
        return switch (array) {
            case int[] ints -> ints[index];
            case long[] longs -> longs[index];
            case byte[] bytes -> bytes[index];
            case char[] chars -> chars[index];
            case double[] doubles -> Double.doubleToRawLongBits(doubles[index]);
            case boolean[] booleans -> booleans[index] ? 1 : 0;
            case short[] shorts -> shorts[index];
            case float[] floats -> Float.floatToRawIntBits(floats[index]);
            default -> 0;
        };
    }

    @Override
    public void beforeElements(Object array, int from, int length) {
        beforeElements(array, from, length, false);
    }

    @Override
    public void beforeElementsInJdk(Object array, int from, int length) {
        beforeElements(array, from, length, true);
    }

    private void beforeElements(Object array, int from, int length, boolean isInJdk) {
        if (array == null || !array.getClass().isArray() || length <= 0) {
            return;
        }
        Context context = contexts.get();
        Transaction transaction = storing(context, array);
        if (transaction == null || from < 0 || from > Array.getLength(array) - length) {
            return;
        }
        context.isUnrecorded = true;
        try {
            if (isInJdk && isOfTheJdk(array)) {
                return;
            }
            keepElements(transaction, array, from, length);
        } finally {
            context.isUnrecorded = false;
        }
    }

    private void keepElements(Transaction transaction, Object array, int from, int length) {
        UndoLog log = transaction.top.log;
        if (!log.hasElements(transaction.logMark, array, from, length)) {
            lockToChange(transaction, array);
            Object old = Array.newInstance(array.getClass().getComponentType(), length);
            System.arraycopy(array, from, old, 0, length);
            log.add(array, Slot.ELEMENTS, from, length, old);
        }
    }

    @Override
    public void beforeArgument(Object argument) {
        if (argument == null) {
            return;
        }
        if (argument.getClass().isArray()) {
            beforeElements(argument, 0, Array.getLength(argument));
            return;
        }
        Context context = contexts.get();
        if (context.isUnrecorded || context.loading != 0) {
            return;
        }
        context.isUnrecorded = true;
        Treatment treatment;
        try {
            treatment = treatments.ofArgument(argument.getClass());
        } finally {
            context.isUnrecorded = false;
        }
        beforeUnseen(context, argument, treatment);
    }

    @Override
    public void beforeArgumentInJdk(Object argument) {
        if (argument != null && argument.getClass().isArray()) {
            beforeElements(argument, 0, Array.getLength(argument), true);
        } else {
            beforeArgument(argument);
        }
    }

    @Override
    public void beforeCall(Object receiver, String method) {
        Context context = contexts.get();
        if (receiver == null || context.isUnrecorded || context.loading != 0) {
            return;
        }
        if (receiver instanceof ThreadLocal<?> local && method.startsWith("get(")) {
            if (context.innermost != null) {
                initialize(context, local);
            }
        } else {
            beforeUnseen(context, receiver, treatment(context, receiver, method));
        }
    }

    /// The first value of a thread local variable stays when the transaction that asks for it is rolled back.
    /// As what a class initialiser makes, it belongs to none.
    private static void initialize(Context context, ThreadLocal<?> local) {
        context.suspended++;
        try {
            local.get();
        } finally {
            context.suspended--;
        }
    }

    @Override
    public void beforeInherited(Object receiver, String method, Object argument) {
        Context context = contexts.get();
        if (receiver != null && !context.isUnrecorded && context.loading == 0 && isOfJdk(context, receiver, method)) {
            beforeArgument(argument);
        }
    }

    private boolean isOfJdk(Context context, Object receiver, String method) {
        context.isUnrecorded = true;
        try {
            return treatments.isOfJdk(receiver.getClass(), method);
        } finally {
            context.isUnrecorded = false;
        }
    }

    private Treatment treatment(Context context, Object receiver, String method) {
        context.isUnrecorded = true;
        try {
            return treatments.of(receiver.getClass(), method);
        } finally {
            context.isUnrecorded = false;
        }
    }

    /// Code without barriers is about to change the object, if its treatment says so.
    private void beforeUnseen(Context context, Object object, Treatment treatment) {
        if (treatment == Treatment.SAVED) {
            keepWhole(context, object);
        } else if (treatment == Treatment.REFUSED) {
            if (context.innermost != null && Parts.areKeptIfPersistent(object) && isPersistent(context, object)) {
                keepWhole(context, object);
            } else if (context.innermost != null) {
                refuse(context, object);
            } else if (!stores.isEmpty()) {
                refuseIfPersistent(context, object);
            }
        }
    }

    /// Whether an object of the JDK is. Other threads do not change it then, but in transactions.
    private boolean isPersistent(Context context, Object object) {
        context.isUnrecorded = true;
        try {
            for (Persistent store : stores) {
                if (store.owner(object) != null) {
                    return true;
                }
            }
            return false;
        } finally {
            context.isUnrecorded = false;
        }
    }

    @Override
    public void beforeStatic(String method) {
        Context context = contexts.get();
        if (context.innermost != null && !context.isUnrecorded && context.suspended == 0) {
            throw new UnsupportedOperationException(
                    "a rollback could not undo " + method + ": call it outside of transactions");
        }
    }

    /// The program is about to change an object where no barrier is.
    void touched(Object object) {
        Context context = contexts.get();
        if (context.innermost == null) {
            throw new IllegalStateException(
                    "what is changed behind the barriers' back is restored by a rollback: begin a transaction");
        }
        check(context.innermost);
        if (object instanceof Persistable) {
            beforeRead(object);
            beforeFields(object);
        } else {
            beforeArgument(object);
        }
    }

    @Override
    public void beforeHandle(Object handle, Object base) {
        Context context = contexts.get();
        boolean isUnsafe = handle != null && handle.getClass().getName().equals("sun.misc.Unsafe");
        if (handle instanceof VarHandle one && isStatic(context, one)
                || isUnsafe && (base == null || base instanceof Class)) {
            if (storing(context, handle) != null) {
                throw new UnsupportedOperationException("a rollback could not undo what is stored to a static field or "
                        + "an address by " + handle.getClass().getName()
                        + ": name the field, or store outside of transactions");
            }
        } else if (base instanceof Buffer
                || base instanceof MemorySegment
                || base != null && base.getClass().isArray()) {
            beforeArgument(base);
        } else if (base != null) {
            beforeFields(base);
        }
    }

    private static boolean isStatic(Context context, VarHandle handle) {
        boolean wasUnrecorded = context.isUnrecorded;
        context.isUnrecorded = true;
        try {
            return handle.coordinateTypes().isEmpty();
        } finally {
            context.isUnrecorded = wasUnrecorded;
        }
    }

    private void refuse(Context context, Object object) {
        // What they print is outside of memory.
        boolean isConsole = object == System.out || object == System.err;
        if (!isConsole && storing(context, object) != null && !isCalledByTheJdk(context)) {
            Class<?> type = object.getClass();
            Class<?> deciding = Treatments.deciding(type);
            throw new UnsupportedOperationException("a rollback could not undo a change of " + type.getName()
                    + ", because " + deciding.getName()
                    + " has no write barriers: change it outside of transactions, or make the object in the one "
                    + "that changes it");
        }
    }

    /// The views of `Collections` call what they are views of.
    private boolean isCalledByTheJdk(Context context) {
        context.isUnrecorded = true;
        try {
            return callers.areOfTheJdk();
        } finally {
            context.isUnrecorded = false;
        }
    }

    private void keepWhole(Context context, Object object) {
        Transaction transaction = storing(context, object);
        if (transaction == null) {
            return;
        }
        if (Parts.areOutsideOfTheHeap(object)) {
            refuse(context, object);
        }
        context.isUnrecorded = true;
        try {
            keepParts(transaction, object);
        } finally {
            context.isUnrecorded = false;
        }
    }

    /// Keeps an object and the objects and arrays that are parts of it. Each is locked, because parts may
    /// have other owners: an array that a buffer was made of, for one.
    private void keepParts(Transaction transaction, Object object) {
        TopLevel top = transaction.top;
        if (object instanceof StringBuilder || object instanceof StringBuffer) {
            if (!top.log.has(transaction.logMark, object, Slot.TEXT, 0)) {
                lockToChange(transaction, object);
                top.log.add(object, Slot.TEXT, 0, 0, object.toString());
            }
            return;
        }
        if (object instanceof Properties properties) {
            if (!top.log.has(transaction.logMark, object, Slot.PROPERTIES, 0)) {
                lockToChange(transaction, object);
                top.log.add(object, Slot.PROPERTIES, 0, 0, Map.copyOf(properties));
            }
            return;
        }
        if (object.getClass().isArray()) {
            if (Array.getLength(object) > 0) {
                keepElements(transaction, object, 0, Array.getLength(object));
            }
            return;
        }
        Slot.Fields slot = fields.slot(object.getClass());
        if (top.log.has(transaction.logMark, object, slot, 0)) {
            return;
        }
        lockToChange(transaction, object);
        loadAll(object);
        top.log.add(object, slot, 0, 0, slot.read(object));
        for (Slot.Field reference : fields.references(object.getClass())) {
            keepPart(transaction, object, reference.read(object));
        }
    }

    private void keepPart(Transaction transaction, Object whole, Object part) {
        if (!Parts.contain(treatments, whole, part)) {
            return;
        }
        keepParts(transaction, part);
        if (part instanceof Object[] elements) {
            for (Object element : elements) {
                keepPart(transaction, whole, element);
            }
        }
    }

    @Override
    public void beforeInvoke(Object method, Object receiver, Object arguments) {
        Context context = contexts.get();
        if (!(method instanceof Method called) || context.isUnrecorded || context.loading != 0) {
            return;
        }
        ReflectiveCall call;
        context.isUnrecorded = true;
        try {
            call = new ReflectiveCall(called, arguments);
        } finally {
            context.isUnrecorded = false;
        }
        if (call.changesStatics()) {
            beforeStatic(call.shownName());
        }
        if (call.changesReceiver()) {
            beforeCall(receiver, call.method());
        }
        for (Object argument : call.changed()) {
            beforeArgument(argument);
        }
    }

    @Override
    public void beforeReflection(Object field, Object receiver) {
        Context context = contexts.get();
        if (!(field instanceof Field reflected) || context.isUnrecorded) {
            return;
        }
        boolean isStatic = Modifier.isStatic(reflected.getModifiers());
        // Such a store will throw.
        if (!isStatic && !reflected.getDeclaringClass().isInstance(receiver)) {
            return;
        }
        Object home = isStatic ? reflected.getDeclaringClass() : receiver;
        Transaction transaction = storing(context, home);
        if (transaction == null) {
            return;
        }
        context.isUnrecorded = true;
        try {
            keep(transaction, home, fields.slot(reflected));
        } finally {
            context.isUnrecorded = false;
        }
    }

    @Override
    public void made(Object object) {
        Context context = contexts.get();
        Transaction transaction = context.innermost;
        if (object != null && transaction != null && !context.isUnrecorded && context.suspended == 0) {
            transaction.top.made.add(object, transaction);
        }
    }

    @Override
    public void suspend() {
        contexts.get().suspended++;
    }

    @Override
    public void resume() {
        contexts.get().suspended--;
    }

    @Override
    public void suspendLoading() {
        Context context = contexts.get();
        context.suspended++;
        context.loading++;
    }

    @Override
    public void resumeLoading() {
        Context context = contexts.get();
        context.suspended--;
        context.loading--;
    }
}
