package cedrat.persist.record;

import cedrat.persist.DeadlockException;
import cedrat.persist.StoreException;
import cedrat.persist.boot.Barrier;
import cedrat.persist.lock.Locks;
import java.util.Arrays;
import java.util.List;

/// Common state of a top-level transaction and those nested in it.
///
/// **Threads:** that of the transaction; handing it over orders what both threads do. Which thread a branch is on
/// is said by the transaction manager, on any thread, and so under the monitor.
public final class TopLevel {
    /// A power of two.
    private static final int KNOWN = 64;

    public final UndoLog log = new UndoLog();
    public final CreatedObjects made = new CreatedObjects();
    /// Objects that it has made parts of persistent Java collections, or null.
    public AddedParts parts;
    public final Locks.Owner owner;
    /// How often transactions had taken parts back when it began.
    public final long began;
    private static final Persistent[] NONE = {};

    /// The stores whose objects it was about to change, one at most unless its commit is going to be refused.
    private Persistent[] changed = NONE;
    /// The stores whose objects or names it has locked to read.
    private Persistent[] read = NONE;
    /// Its changes beside objects, or null.
    Faces faces;
    /// Some of the objects whose read lock it has, by their hashes, or null. These need no further look-up.
    private Object[] lockedToRead;
    /// The thread's state that it is attached to, or null.
    public volatile Context context;
    /// It was rolled back to end a deadlock, and its scope is not left yet.
    public volatile boolean isDoomed;
    /// It is doomed, and is restored when the outermost of its [CollectionCalls] ends.
    boolean awaitsRestore;

    /// While it is on a thread: the result of [Barrier#entered].
    private int barrierThread;
    /// Number of classes that its thread was initialising, loading or linking when it began or was attached: a
    /// transaction that begins in a class initialiser is one as any other.
    private int suspendedBefore;

    private int loadingBefore;
    /// For a branch: the state of the thread that has it, or null.
    private Context home;
    /// For a branch: a check that may refuse the commit. Otherwise null.
    private Runnable beforeStored;
    /// For a branch that is given up: the action when it was rolled back.
    private Runnable atRollback;
    /// Nothing of it will be stored, and the threads that had it may not know.
    private volatile boolean isGivenUp;
    /// That was said to the thread that is in a transaction nested in it.
    private volatile boolean isThreadNotified;
    /// It has ended, on no thread.
    private volatile boolean isOver;

    TopLevel(Locks.Owner owner, Context context, long began) {
        this.owner = owner;
        this.began = began;
        enter(context);
    }

    /// Whether it is known to have the read lock that protects an object or array. It has that to its end.
    boolean mayRead(Object base) {
        return lockedToRead != null && lockedToRead[System.identityHashCode(base) & KNOWN - 1] == base;
    }

    /// It has the read lock that protects an object or array.
    void lockedToRead(Object base) {
        if (lockedToRead == null) {
            lockedToRead = new Object[KNOWN];
        }
        lockedToRead[System.identityHashCode(base) & KNOWN - 1] = base;
    }

    /// Returns the number of added parts.
    int partCount() {
        return parts == null ? 0 : parts.size();
    }

    /// It is about to change an object of a store.
    public void changes(Persistent store) {
        changed = with(changed, store);
    }

    /// It has locked an object or a name of a store to read it.
    void reads(Persistent store) {
        read = with(read, store);
    }

    private static Persistent[] with(Persistent[] stores, Persistent store) {
        for (Persistent known : stores) {
            if (known == store) {
                return stores;
            }
        }
        Persistent[] longer = Arrays.copyOf(stores, stores.length + 1);
        longer[stores.length] = store;
        return longer;
    }

    /// Returns the stores of which it may have read what is not durable yet.
    List<Persistent> seen() {
        for (Persistent store : changed) {
            reads(store);
        }
        return List.of(read);
    }

    /// Returns the changed stores. The array is not to be modified.
    Persistent[] changed() {
        return changed;
    }

    /// Puts back what was overwritten since there were so many old values, and forgets what was made since there were
    /// so many objects.
    void restore(int logMark, int madeMark) {
        try {
            try {
                made.outdateUncounted(madeMark, log, logMark);
            } finally {
                log.restore(logMark);
            }
        } finally {
            made.truncate(madeMark);
        }
    }

    /// It is on a thread.
    void enter(Context context) {
        suspendedBefore = context.suspended;
        loadingBefore = context.loading;
        context.suspended = 0;
        context.loading = 0;
        owner.thread = Thread.currentThread();
        this.context = context;
        barrierThread = Barrier.entered();
    }

    /// It is on none, or has ended.
    void leave() {
        context.suspended = suspendedBefore;
        context.loading = loadingBefore;
        owner.thread = null;
        context = null;
        Barrier.left(barrierThread);
    }

    // ---- of a branch of a transaction over several stores

    /// It is a branch.
    ///
    /// @param check what may throw when all is locked that is to be stored
    void beforeStored(Runnable check) {
        beforeStored = check;
    }

    /// All is locked that is to be stored, and nothing is.
    ///
    /// @throws RuntimeException if it is not to be stored
    public void checkBeforeStored() {
        if (beforeStored != null) {
            beforeStored.run();
        }
    }

    /// A thread has it from now on.
    synchronized void give(Context thread) {
        home = thread;
    }

    /// No thread has it from now on.
    ///
    /// @return false if one is in a transaction that is nested in it, and so keeps it
    synchronized boolean take() {
        if (context != null) {
            return false;
        }
        home = null;
        return true;
    }

    /// As that, of one of which nothing will be stored. The thread that keeps it rolls it back when it leaves it,
    /// and tells.
    synchronized boolean giveUp(Runnable atRollback) {
        this.atRollback = atRollback;
        isGivenUp = true;
        isThreadNotified = owner.thread == Thread.currentThread();
        return take();
    }

    /// It is on no thread, and nothing of it will be stored.
    void rollsBack() {
        isGivenUp = true;
    }

    /// It has ended on no thread. What is said of a rollback is said before.
    void endedOnNoThread() {
        isOver = true;
    }

    /// Whether it is known how it ends.
    boolean hasOutcome() {
        return isOver || isGivenUp;
    }

    synchronized boolean isOn(Context thread) {
        return home == thread;
    }

    /// A transaction begins that is nested in it and in no other.
    ///
    /// @return false if the thread does not have it any more
    synchronized boolean enterNested(Context thread) {
        if (home != thread) {
            return false;
        }
        if (isDoomed) {
            throw new DeadlockException();
        }
        enter(thread);
        return true;
    }

    /// That has ended.
    ///
    /// @return the action when it was rolled back, if it is to be; otherwise null
    synchronized Runnable leaveNested() {
        leave();
        if (isGivenUp) {
            home = null;
        }
        return atRollback;
    }

    /// Notes that a branch, which is on no thread, is being ended on this one, or has been. That may have to enter
    /// monitors, of a `Vector` for example: a thread that waits for the branch within one of them becomes a victim.
    public void endsHere(boolean isEnding) {
        owner.thread = isEnding ? Thread.currentThread() : null;
    }

    boolean isGivenUp() {
        return isGivenUp;
    }

    boolean isThreadNotified() {
        return isThreadNotified;
    }

    /// @throws StoreException if it is given up, to its thread
    void checkGivenUp() {
        if (isGivenUp) {
            isThreadNotified |= owner.thread == Thread.currentThread();
            throw new StoreException("the global transaction of this thread was rolled back meanwhile by its "
                    + "transaction manager, perhaps after its timeout: end it there, and begin another one");
        }
    }
}
