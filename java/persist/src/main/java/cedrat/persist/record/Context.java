package cedrat.persist.record;

import cedrat.persist.Transaction;
import java.util.function.Supplier;

/// Transaction state of a thread.
///
/// **Threads:** its own.
public final class Context {
    /// The innermost transaction that it is in, or null.
    TransactionLevel innermost;
    /// The branch of a transaction over several stores in which transactions of this thread are nested, or null. The
    /// thread is in it only while it is in one of these: what it does otherwise, in a transaction manager and other
    /// stores, is none of its business.
    TransactionLevel branch;
    /// Number of classes that it initialises, loads or links just now, one within the other.
    int suspended;
    /// Number of these that it loads or links, or that are the JDK's.
    int loading;
    final CollectionCalls calls = new CollectionCalls();
    /// It is in the library's own code, which uses classes that are woven: barriers let its reads and stores pass.
    boolean isUnrecorded;
    /// It is in the program's `hashCode`, or the like, which a store calls to fill a collection.
    boolean isFilling;
    /// It is in a function of the program that runs when an object is loaded.
    boolean isInHook;
    /// The buffer of its last commit, which the next one uses again, or null.
    public Object spare;

    /// Runs work of the store itself: barriers let this thread's reads and assignments pass.
    <T> T unrecorded(Supplier<T> work) {
        return this.<T, RuntimeException>unrecordedCall(work::get);
    }

    /// As that, of work that may fail otherwise.
    <T, E extends Exception> T unrecordedCall(Transaction.PlainCall<T, E> work) throws E {
        boolean wasUnrecorded = isUnrecorded;
        isUnrecorded = true;
        try {
            return work.call();
        } finally {
            isUnrecorded = wasUnrecorded;
        }
    }

    /// Runs a function of the program that belongs to no transaction, and may assign to fields that are not stored.
    void hook(Runnable work) {
        boolean wasUnrecorded = isUnrecorded;
        boolean wasFilling = isFilling;
        boolean wasInHook = isInHook;
        isUnrecorded = false;
        isFilling = false;
        isInHook = true;
        suspended++;
        try {
            work.run();
        } finally {
            suspended--;
            isInHook = wasInHook;
            isFilling = wasFilling;
            isUnrecorded = wasUnrecorded;
        }
    }
}
