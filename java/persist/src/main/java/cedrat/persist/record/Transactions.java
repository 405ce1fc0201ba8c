package cedrat.persist.record;

import cedrat.persist.DeadlockException;
import cedrat.persist.GraphStoreException;
import cedrat.persist.StoreException;
import cedrat.persist.Transaction;
import cedrat.persist.TransactionStatistics;
import cedrat.persist.boot.Barrier;
import cedrat.persist.boot.Persistable;
import cedrat.persist.event.Counter;
import cedrat.persist.lock.Locks;
import cedrat.persist.memory.EntryViews;
import java.util.List;
import java.util.Objects;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.atomic.AtomicLong;

/// How transactions begin and end, nested ones and top-level ones, and what they lock meanwhile.
///
/// - Locks are held to the end of the top-level transaction, whether nested ones commit or roll back. The
///   victim of a deadlock is restored and unlocked at once, and ends when its scope is left.
///
/// **Threads:** any.
public final class Transactions {
    // Linked before they are needed at the end of the stack.
    private static final EndStep.Step<TransactionLevel> CLOSING = Transactions::closeNow;
    private static final EndStep.Step<TransactionLevel> ROLLING_BACK = Transactions::rollBackNow;
    private static final EndStep.Step<TransactionLevel> LEAVING_COMMITTED =
            (transactions, transaction) -> transactions.leave(transaction, Transaction.Action.COMMIT);
    private static final EndStep.Step<TopLevel> RESTORING_VICTIM = Transactions::restoreVictimNow;

    /// Calls between the scope of a transaction and [Barrier#unbroken], and as many again in case that their frames are
    /// longer.
    private static final int PROBED_CALLS = 32;
    /// For virtual threads nothing is reserved: so many that they suffice for a rollback.
    private static final int PROBED_CALLS_OF_VIRTUAL = 512;

    private final Unwoven unwoven;
    private final ThreadLocal<Context> contexts;
    private final Locks locks;
    /// The open stores.
    private final List<Persistent> stores;
    private final AtomicLong births = new AtomicLong();
    private final Counter commits = new Counter();
    private final Counter rollbacks = new Counter();
    private final Counter deadlocks = new Counter();
    /// How often transactions have taken back what they had made persistent collections of.
    private final AtomicLong takenBack = new AtomicLong();

    Transactions(Unwoven unwoven, ThreadLocal<Context> contexts, Locks locks, List<Persistent> stores) {
        this.unwoven = unwoven;
        this.contexts = contexts;
        this.locks = locks;
        this.stores = stores;
    }

    /// How often transactions have taken back what they had made persistent collections of.
    long takenBack() {
        return takenBack.get();
    }

    /// As [Transaction#statistics].
    public TransactionStatistics statistics() {
        return new TransactionStatistics(commits.sum(), rollbacks.sum(), locks.waits(), deadlocks.sum());
    }

    // ---- begin

    /// Returns the owner of the locks of a new top-level transaction, which is younger than all others.
    Locks.Owner newOwner() {
        return new Locks.Owner(births.incrementAndGet());
    }

    /// @param owner the owner of the transaction's locks; unused if the transaction is nested
    TransactionLevel begin(Locks.Owner owner) {
        Barrier.probe(Thread.currentThread().isVirtual() ? PROBED_CALLS_OF_VIRTUAL : PROBED_CALLS);
        unwoven.checkStores();
        Context context = contexts.get();
        if (context.isInHook) {
            throw new IllegalStateException("cannot begin a transaction in a function of StoreOptions.afterLoad, "
                    + "because the read that has loaded the object may be in one: compute transient fields there, and "
                    + "change persistent objects later");
        }
        if (context.innermost == null && context.branch != null) {
            enterNested(context, context.branch);
        }
        TransactionLevel outer = context.innermost;
        if (outer == null) {
            context.calls.truncate(0);
            TransactionLevel begun = new TransactionLevel(new TopLevel(owner, context, takenBack.get()), null);
            Barrier.opened();
            // Last of all: where the stack ends before, the thread is in no transaction that nothing ends.
            context.innermost = begun;
            return begun;
        }
        if (outer.top.isDoomed) {
            throw new DeadlockException();
        }
        if (context.suspended != 0) {
            throw new IllegalStateException(
                    "cannot begin a transaction in the initialiser of a class that a transaction "
                            + "has initialised, loaded or linked: initialise the class before the transaction");
        }
        context.innermost = new TransactionLevel(outer.top, outer);
        return context.innermost;
    }

    /// Begins a transaction on a thread that has a branch, or had one that was ended on another thread. If the branch
    /// was rolled back and the thread does not know it, the thread gets an exception once: the new transaction may
    /// be meant to be part of it. As long as the outcome is unknown, the thread keeps the branch.
    private static void enterNested(Context context, TransactionLevel branch) {
        if (branch.top.enterNested(context)) {
            context.innermost = branch;
        } else if (branch.top.hasOutcome()) {
            context.branch = null;
            branch.top.checkGivenUp();
        }
    }

    public boolean isInTransaction() {
        return contexts.get().innermost != null;
    }

    /// @throws IllegalStateException if this thread may not use the transaction now
    void check(TransactionLevel transaction) {
        Context context = contexts.get();
        if (transaction.hasEnded()) {
            throw new IllegalStateException("the transaction has ended: begin another one");
        }
        Context owner = transaction.top.context;
        if (owner != context) {
            throw new IllegalStateException(
                    owner == null
                            ? "the transaction is detached: attach it to this thread first"
                            : "the transaction belongs to another thread: detach it there, and attach it here");
        }
        if (transaction.top.isDoomed) {
            throw new DeadlockException();
        }
        transaction.top.checkGivenUp();
        if (context.innermost != transaction) {
            throw new IllegalStateException(
                    "cannot end a transaction while one that is nested in it is open: end the nested one first");
        }
    }

    /// @throws IllegalStateException in a function that a collection calls which writes afterwards
    private void checkCalls(TransactionLevel transaction) {
        if (contexts.get().calls.depth() != transaction.callMark) {
            throw new IllegalStateException("cannot end or detach a transaction in a function that a persistent "
                    + "collection of java.util.concurrent calls: do it when the method of the collection has returned");
        }
    }

    // ---- end

    /// As [Transaction#commit()], or as [Transaction#rollback].
    void end(TransactionLevel transaction, Transaction.Action action) {
        // Others go on meanwhile; what they commit is behind this in the log.
        contexts.get().unrecorded(() -> {
            finish(transaction, action).forEach(Persistent::awaitDurable);
            return null;
        });
    }

    /// As [Transaction#commitAsync].
    CompletableFuture<Void> commitAsync(TransactionLevel transaction) {
        if (transaction.outer != null) {
            check(transaction);
            throw new IllegalStateException(
                    "cannot wait later for a nested transaction, which stores nothing itself: call "
                            + "commitAsync of the outermost one");
        }
        return contexts.get()
                .unrecorded(() -> CompletableFuture.allOf(finish(transaction, Transaction.Action.COMMIT).stream()
                        .map(Persistent::whenDurable)
                        .toArray(CompletableFuture<?>[]::new)));
    }

    /// @return the stores to wait for
    private List<Persistent> finish(TransactionLevel transaction, Transaction.Action action) {
        check(transaction);
        checkCalls(transaction);
        if (action == Transaction.Action.ROLLBACK) {
            rollBack(transaction);
            return List.of();
        }
        if (transaction.isBroken) {
            rollBack(transaction);
            throw new IllegalStateException(
                    "cannot commit the transaction, because a change of an object of the JDK was "
                            + "refused in it: do not catch the exception within the transaction");
        }
        List<Persistent> awaited = List.of();
        if (transaction.outer != null) {
            transaction.top.log.merge(transaction.outer.logMark, transaction.logMark);
        } else {
            awaited = store(transaction);
        }
        EndStep.run(LEAVING_COMMITTED, this, transaction);
        return awaited;
    }

    /// Stores what a transaction has changed. If that fails, all is restored, and the transaction has ended.
    ///
    /// @return the stores to wait for: that, or those of which something was read under a lock
    private List<Persistent> store(TransactionLevel transaction) {
        try {
            Persistent changed = null;
            Changes changes = null;
            for (Persistent store : transaction.top.changed()) {
                Changes found = store.changes(transaction);
                if (found != null && changed != null) {
                    found.abandon();
                    changes.abandon();
                    throw new StoreException("cannot commit a transaction that changes objects of two stores: change "
                            + "each store in a transaction of its own, or in one global transaction (xaResource)");
                }
                if (found != null) {
                    changed = store;
                    changes = found;
                }
            }
            if (changed != null) {
                changes.commit();
                return List.of(changed);
            }
            return transaction.top.seen();
        } catch (DeadlockException e) {
            doom(transaction);
            throw e;
        } catch (RuntimeException | Error e) {
            rollBack(transaction);
            throw e;
        }
    }

    /// Restores what a transaction has changed, and ends it, whatever comes of that.
    void rollBack(TransactionLevel transaction) {
        EndStep.run(ROLLING_BACK, this, transaction);
    }

    private void rollBackNow(TransactionLevel transaction) {
        try {
            restore(transaction);
        } finally {
            leave(transaction, Transaction.Action.ROLLBACK);
        }
    }

    /// As that, for a transaction that is nested in a branch, or for a detached one, without a notification.
    public void rollBackUnrecorded(TransactionLevel transaction) {
        contexts.get().unrecorded(() -> {
            rollBack(transaction);
            return null;
        });
    }

    private void restore(TransactionLevel transaction) {
        try {
            Faces.rollBack(transaction);
        } finally {
            try {
                transaction.top.restore(transaction.logMark, transaction.madeMark);
            } finally {
                takeBack(transaction.top, transaction.partMark);
            }
        }
    }

    /// Takes back the parts of Java collections made since there were `mark` of which nothing is stored. Other
    /// transactions learn it when they get the Java collection's lock.
    private void takeBack(TopLevel top, int mark) {
        if (top.partCount() > mark) {
            top.parts.takeBack(mark, top.owner, takenBack.incrementAndGet());
        }
    }

    /// It has committed, or is restored: the thread goes on in the one around it, and what the top-level one has
    /// locked is anyone's.
    void leave(TransactionLevel transaction, Transaction.Action action) {
        if (transaction.hasEnded()) {
            return;
        }
        transaction.ended(action);
        boolean isDetached = transaction.top.context == null;
        if (!isDetached) {
            Context context = contexts.get();
            context.innermost = transaction.outer;
            context.calls.truncate(transaction.callMark);
            if (transaction.outer != null && transaction.outer == context.branch) {
                context.innermost = null;
                leaveNested(context, transaction.outer);
            }
        } else {
            transaction.top.endedOnNoThread();
        }
        if (transaction.outer == null) {
            try {
                restoreAwaiting(transaction.top);
                Faces.end(transaction.top);
            } finally {
                if (transaction.top.parts != null && transaction.top.parts.areAny()) {
                    boolean isCommitted = action == Transaction.Action.COMMIT;
                    transaction.top.parts.end(isCommitted, transaction.top.owner, takenBack.incrementAndGet());
                }
                locks.releaseAll(transaction.top.owner);
                if (!isDetached) {
                    transaction.top.leave();
                }
                Barrier.closed();
                (action == Transaction.Action.COMMIT ? commits : rollbacks).increment();
            }
        }
    }

    /// The thread is in no transaction any more that is nested in the branch.
    private void leaveNested(Context context, TransactionLevel branch) {
        Runnable atRollback = branch.top.leaveNested();
        if (branch.top.isThreadNotified()) {
            context.branch = null;
        }
        if (atRollback != null) {
            context.unrecorded(() -> {
                try {
                    rollBack(branch);
                } finally {
                    atRollback.run();
                }
                return null;
            });
        }
    }

    /// As [Transaction#close].
    void close(TransactionLevel transaction) {
        if (transaction.hasEnded()) {
            return;
        }
        if (transaction.defaultAction() == Transaction.Action.ROLLBACK) {
            // From the scope itself, where there is as much of the stack as there was at the beginning.
            EndStep.run(CLOSING, this, transaction);
        } else {
            closeNow(transaction);
        }
    }

    private void closeNow(TransactionLevel transaction) {
        Context context = contexts.get();
        if (transaction.top.context != context) {
            check(transaction);
        }
        if (transaction.top.isDoomed) {
            leave(transaction, Transaction.Action.ROLLBACK);
            return;
        }
        context.calls.truncate(transaction.callMark);
        if (transaction.top.isGivenUp()) {
            rollBackUnrecorded(transaction);
            return;
        }
        end(transaction, transaction.defaultAction());
    }

    // ---- hand-over

    /// As [Transaction#detach].
    void detach(TransactionLevel transaction) {
        check(transaction);
        checkCalls(transaction);
        if (transaction.outer != null) {
            throw new IllegalStateException("cannot detach a nested transaction: end it, and detach the outermost one");
        }
        contexts.get().innermost = null;
        transaction.top.leave();
    }

    /// As [Transaction#attach].
    void attach(TransactionLevel transaction) {
        Context context = contexts.get();
        if (transaction.hasEnded()) {
            throw new IllegalStateException("the transaction has ended: begin another one");
        }
        if (context.innermost != null) {
            throw new IllegalStateException(
                    "cannot attach a transaction, because this thread is in another one: end or detach that first");
        }
        synchronized (transaction.top) {
            if (transaction.top.context != null) {
                throw new IllegalStateException(
                        "cannot attach a transaction that is attached to another thread: detach it there first");
            }
            transaction.top.enter(context);
        }
        context.calls.truncate(0);
        context.innermost = transaction;
    }

    // ---- locks

    /// The transaction of this thread waits for the lock of an object, as [cedrat.persist.RwLock] says.
    public void acquire(Object object, boolean toWrite) {
        Objects.requireNonNull(object);
        Context context = contexts.get();
        TransactionLevel transaction = context.innermost;
        if (transaction == null) {
            throw new IllegalStateException("cannot lock an object outside of a transaction: begin a transaction");
        }
        // A `hashCode` that a store calls, too, may ask for a lock.
        boolean wasUnrecorded = context.isUnrecorded;
        context.isUnrecorded = true;
        try {
            Object locked = whole(object);
            lock(transaction, locked, toWrite);
            // The lock's last owner may have made it a part of a Java collection.
            Object whole = whole(object);
            if (whole != locked) {
                lock(transaction, whole, toWrite);
            }
            reads(transaction.top, whole);
        } finally {
            context.isUnrecorded = wasUnrecorded;
        }
    }

    /// Returns the object that is locked for an object: the persistent Java collection that it is a part of, or shows
    /// an entry of, or itself.
    private Object whole(Object object) {
        if (!(object instanceof Persistable || object instanceof Class)) {
            Object part = EntryViews.mapOrSelf(object);
            for (Persistent store : stores) {
                Object owner = store.livingOwner(part);
                if (owner != null) {
                    return owner;
                }
            }
        }
        return object;
    }

    private void reads(TopLevel top, Object whole) {
        if (whole instanceof Persistable) {
            Persistent store = Recorder.storeOf(whole);
            if (store != null) {
                top.reads(store);
            }
            return;
        }
        for (Persistent store : stores) {
            if (store.owner(whole) != null) {
                top.reads(store);
            }
        }
    }

    /// Does something in pages or heaps, as part of the transaction that this thread is in.
    ///
    /// @param locked what stands for them, to write or to read
    public <T> T onFaces(Persistent store, Object locked, boolean toWrite, Faces.Work<T> work) {
        Context context = contexts.get();
        TransactionLevel transaction = context.innermost;
        if (transaction == null) {
            throw new IllegalStateException(
                    "cannot read or change records and heaps outside of a transaction: begin a transaction");
        }
        if (context.branch != null && transaction.top == context.branch.top) {
            throw new StoreException(
                    "cannot use records and heaps in a transaction over several stores: use them in a transaction of "
                            + "their own");
        }
        boolean wasUnrecorded = context.isUnrecorded;
        context.isUnrecorded = true;
        try {
            store.check();
            lock(transaction, locked, toWrite);
            Faces faces = Faces.of(transaction, store);
            transaction.top.changes(store);
            return faces.run(transaction, toWrite, work);
        } catch (GraphStoreException e) {
            if (e.isConflict()) {
                doom(transaction);
                throw new DeadlockException();
            }
            throw store.refused(e);
        } finally {
            context.isUnrecorded = wasUnrecorded;
        }
    }

    public boolean isWriter(TransactionLevel transaction, Object object) {
        return locks.isWriter(transaction.top.owner, object);
    }

    public boolean isLocked(Object object) {
        return locks.isLocked(object);
    }

    /// Waits for the lock of an object.
    ///
    /// @throws DeadlockException if the transaction was rolled back to end a deadlock
    public void lock(TransactionLevel transaction, Object object, boolean toWrite) {
        if (transaction.top.isDoomed) {
            throw new DeadlockException();
        }
        transaction.top.checkGivenUp();
        if (!locks.acquire(transaction.top.owner, object, toWrite)) {
            doom(transaction);
            throw new DeadlockException();
        }
    }

    /// Rolls a top-level transaction back to end a deadlock, but for its scope, which is left by an exception.
    ///
    /// - Within a method that may change a persistent collection of `java.util.concurrent`, the transaction only
    ///   fails from now on. It is restored and unlocked when the outermost such method has ended: what the
    ///   method writes until then is restored too, and no other transaction sees it.
    void doom(TransactionLevel transaction) {
        TopLevel top = transaction.top;
        Context context = top.context;
        if (context != null && context.calls.depth() != 0) {
            top.awaitsRestore = true;
            top.isDoomed = true;
        } else {
            restoreVictim(top);
        }
    }

    private void restoreVictim(TopLevel top) {
        EndStep.run(RESTORING_VICTIM, this, top);
    }

    private void restoreVictimNow(TopLevel top) {
        top.awaitsRestore = false;
        try {
            Faces.end(top);
        } finally {
            try {
                top.restore(0, 0);
            } finally {
                takeBack(top, 0);
                top.isDoomed = true;
                locks.releaseVictim(top.owner);
                deadlocks.increment();
            }
        }
    }

    private void restoreAwaiting(TopLevel top) {
        if (top.awaitsRestore) {
            contexts.get().unrecorded(() -> {
                restoreVictim(top);
                return null;
            });
        }
    }

    /// As [cedrat.persist.boot.Handler#afterChange].
    void afterChange(Object collection) {
        Context context = contexts.get();
        // As at the beginning of the method.
        boolean isRecorded = !context.isUnrecorded && context.loading == 0;
        if (isRecorded && context.calls.leave(collection) && context.innermost != null) {
            restoreAwaiting(context.innermost.top);
        }
    }

    /// Locks what a commit makes persistent.
    ///
    /// @return false if the transaction is the victim of a deadlock, and has to give up
    public boolean acquire(TransactionLevel transaction, Object object) {
        return locks.acquire(transaction.top.owner, object, true);
    }
}
