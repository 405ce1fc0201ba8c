package cedrat.persist.record;

import cedrat.persist.boot.Barrier;
import cedrat.persist.boot.Persistable;
import cedrat.persist.memory.ConcurrentState;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;

/// Locks of what transactions read of stores whose objects are locked by reads.
///
/// - The lock comes before the read: no transaction reads a value that its writer may still roll back, and
///   values that a transaction has read stay the same to its end.
///
/// **Threads:** any.
public final class ReadLocks {
    private final ThreadLocal<Context> contexts;
    private final Transactions transactions;
    /// Stores whose objects are locked by reads.
    private final List<Persistent> stores = new CopyOnWriteArrayList<>();

    ReadLocks(ThreadLocal<Context> contexts, Transactions transactions) {
        this.contexts = contexts;
        this.transactions = transactions;
    }

    /// A store is open.
    void opened(Persistent store) {
        if (store.locksReads()) {
            stores.add(store);
            Barrier.lockingOpened();
        }
    }

    /// A store is closed.
    void closed(Persistent store) {
        if (stores.remove(store)) {
            Barrier.lockingClosed();
        }
    }

    /// Locks an object that the transaction of this thread, if it is in one, is about to read.
    void lock(Object base) {
        // Records do not change.
        if (base == null
                || base instanceof Record
                || base instanceof Persistable && !isLocking(Recorder.storeOf(base))) {
            return;
        }
        // First of all: the search for the store of an object reads collections, too.
        Context context = contexts.get();
        TransactionLevel transaction = context.innermost;
        if (transaction == null || context.isUnrecorded || context.suspended != 0) {
            return;
        }
        // The JDK has many of these for itself, whose hash codes are not to be computed.
        if ((ConcurrentState.isKept(base) || base instanceof Throwable) && Barrier.ifPersistent(base) == null) {
            return;
        }
        TopLevel top = transaction.top;
        if (!top.isDoomed && top.mayRead(base)) {
            return;
        }
        context.isUnrecorded = true;
        try {
            Object locked = base;
            if (base instanceof Persistable) {
                top.reads(Recorder.storeOf(base));
            } else {
                locked = locked(top, base);
            }
            if (locked != null) {
                transactions.lock(transaction, locked, false);
                top.lockedToRead(base);
            }
        } finally {
            context.isUnrecorded = false;
        }
    }

    private boolean isLocking(Persistent store) {
        return store != null && store.locksReads() && stores.contains(store);
    }

    /// Returns the object whose lock protects an array or an object of the JDK, or null: there is none.
    ///
    /// @throws IllegalStateException if that is not in memory any more
    private Object locked(TopLevel top, Object base) {
        // What a transaction has made is persistent when it has committed. Most arrays are of that kind.
        if (top.made.has(0, base)) {
            return null;
        }
        for (Persistent store : stores) {
            Object owner = store.livingOwner(base);
            if (owner != null) {
                top.reads(store);
                return owner;
            }
        }
        return null;
    }

    /// The transaction of this thread, if it is in one, is about to read what is no object of the program's: names.
    public void lockNames(Persistent store, Object names) {
        Context context = contexts.get();
        if (context.innermost != null && context.suspended == 0) {
            context.innermost.top.reads(store);
            transactions.lock(context.innermost, names, false);
        }
    }

    /// As that, to change it.
    public void lockNamesToChange(Object names) {
        transactions.lock(contexts.get().innermost, names, true);
    }
}
