package cedrat.persist;

import java.util.Arrays;

/// What a top-level transaction and those nested in it have in common.
///
/// **Threads:** that of the transaction; handing it over orders what both threads do.
final class TopLevel {
    /// A power of two.
    private static final int KNOWN = 64;

    final UndoLog log = new UndoLog();
    final MadeObjects made = new MadeObjects();
    final Locks.Owner owner;
    private static final Persistent[] NONE = {};

    /// The stores whose objects it was about to change, one at most unless its commit is going to be refused.
    private Persistent[] changed = NONE;
    /// What it has changed beside objects, or null.
    Faces faces;
    /// Some of the objects whose read lock it has, by their hashes, or null: nobody has to ask for these again.
    private Object[] lockedToRead;
    /// The thread's state that it is attached to, or null.
    volatile Context context;
    /// It was rolled back to end a deadlock, and its scope is not left yet.
    volatile boolean isDoomed;

    /// How many classes its thread was initialising, loading or linking when it began or was attached: a
    /// transaction that begins in a class initialiser is one as any other.
    private int suspendedBefore;

    private int loadingBefore;

    TopLevel(Locks.Owner owner, Context context) {
        this.owner = owner;
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

    /// It is about to change an object of a store.
    void changes(Persistent store) {
        for (Persistent known : changed) {
            if (known == store) {
                return;
            }
        }
        changed = Arrays.copyOf(changed, changed.length + 1);
        changed[changed.length - 1] = store;
    }

    /// Those stores. Not to be changed.
    Persistent[] changed() {
        return changed;
    }

    /// It is on a thread.
    void enter(Context context) {
        suspendedBefore = context.suspended;
        loadingBefore = context.loading;
        context.suspended = 0;
        context.loading = 0;
        owner.thread = Thread.currentThread();
        this.context = context;
    }

    /// It is on none, or has ended.
    void leave() {
        context.suspended = suspendedBefore;
        context.loading = loadingBefore;
        owner.thread = null;
        context = null;
    }
}
