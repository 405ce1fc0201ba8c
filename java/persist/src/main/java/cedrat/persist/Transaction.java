package cedrat.persist;

import java.util.concurrent.CompletableFuture;

/// A transaction over ordinary objects in memory (Transactions for Java, §2.1).
///
/// ```java
/// try (var transaction = Transaction.begin()) {
///     from.balance -= amount;
///     to.balance += amount;
///     if (from.balance >= 0) {
///         transaction.commit();
///     }
/// } // not committed: both balances are as they were
/// ```
///
/// A rollback restores fields, static fields, elements of arrays, collections of `java.util`, and the locals
/// and parameters that the scope has assigned.
///
/// ```text
/// Open ──commit, or close with that action────▶ Committed
///  │ └───rollback, or close with that action──▶ Rolled back
///  └─────victim of a deadlock──▶ Doomed ──close──▶ Rolled back
/// ```
///
/// - Open         stores are remembered, and what they change is locked
/// - Doomed       all is restored and unlocked; a store or a call of this throws [DeadlockException]
/// - Committed    a nested one's changes belong to the one around it; a top-level one's stay
/// - Rolled back  all is as it was when the transaction began
///
/// A transaction that begins while its thread is in another one is nested: its rollback leaves the outer
/// one's earlier changes, its locks are held to the end of the outermost. What it does in class initialisers,
/// and while classes are loaded and linked, belongs to no transaction: a class is initialised once.
///
/// **Threads:** one, platform or virtual, that which began it; [#detach] and [#attach] hand a top-level one
/// over. Any number of threads may be in transactions at a time, and are isolated from each other by
/// [RwLock].
///
/// **Failure:** methods throw [IllegalStateException] on another thread, after the end, and while a nested
/// transaction is open.
public abstract class Transaction implements AutoCloseable {
    /// Action for a transaction that is still open at its end.
    public enum Action {
        /// Its changes stay.
        COMMIT,
        /// Its changes are undone.
        ROLLBACK
    }

    /// Work in a transaction.
    @FunctionalInterface
    public interface Work<E extends Exception> {
        /// Runs.
        void run(Transaction transaction) throws E;
    }

    /// Work in a transaction that does not use the transaction object.
    @FunctionalInterface
    public interface PlainWork<E extends Exception> {
        /// Runs.
        void run() throws E;
    }

    /// Work in a transaction that returns a value.
    @FunctionalInterface
    public interface Call<T, E extends Exception> {
        /// Runs.
        T call(Transaction transaction) throws E;
    }

    /// Work in a transaction that returns a value and does not use the transaction object.
    @FunctionalInterface
    public interface PlainCall<T, E extends Exception> {
        /// Runs.
        T call() throws E;
    }

    /// Called by the implementation.
    protected Transaction() {}

    // ---- ways to begin one: the weaver sends calls of these to WovenCode

    /// Begins a transaction, to be closed in the same method by `try (var t = Transaction.begin()) { … }`.
    ///
    /// @throws IllegalStateException if the calling class has no write barriers: the agent is not loaded, or
    ///     it could not weave the class. A transaction that misses stores would restore half of what it
    ///     should
    public static Transaction begin() {
        throw PersistenceRuntime.notWoven();
    }

    /// Runs `work` in a transaction, which commits when `work` returns, and rolls back when it throws, if
    /// `work` has not ended it before.
    ///
    /// **Again:** a top-level one that is rolled back to end a deadlock is run again, until it is not.
    ///
    /// @throws DeadlockException     if that deadlock led through a monitor which this thread has entered before,
    ///     so that to run again would not end it
    /// @throws IllegalStateException as [#begin]
    public static <E extends Exception> void run(Work<E> work) throws E {
        throw PersistenceRuntime.notWoven();
    }

    /// As [#run(Work)].
    public static <E extends Exception> void run(PlainWork<E> work) throws E {
        throw PersistenceRuntime.notWoven();
    }

    /// As [#run(Work)], and returns what `work` returns.
    public static <T, E extends Exception> T call(Call<T, E> work) throws E {
        throw PersistenceRuntime.notWoven();
    }

    /// As [#run(Work)], and returns what `work` returns.
    public static <T, E extends Exception> T call(PlainCall<T, E> work) throws E {
        throw PersistenceRuntime.notWoven();
    }

    /// Returns the counters of all top-level transactions of the process.
    ///
    /// @throws IllegalStateException if the agent is not loaded
    public static TransactionStatistics statistics() {
        return PersistenceRuntime.get().transactionStatistics();
    }

    // ---- ways to end it

    /// Keeps what was changed. In a nested transaction, as long as the one around it keeps it. Of a top-level one that
    /// has changed persistent objects, it stores the changes, and returns when the store's option
    /// [StoreOptions#durability] says.
    ///
    /// @throws StoreException        if the store refuses the changes: the transaction was rolled back, unless the
    ///     store has stopped
    /// @throws DeadlockException     if the transaction was rolled back to end a deadlock
    /// @throws IllegalStateException if the store is closed: the transaction was rolled back
    public abstract void commit();

    /// As [#commit()], of a top-level transaction, and returns at once, whatever the store's option
    /// [StoreOptions#durability] says. Others see the changes then. A crash may still lose them: as a whole, and
    /// only together with all that was committed after them.
    ///
    /// ```java
    /// CompletableFuture<Void> durable = transaction.commitAsync();
    /// // … other work
    /// durable.join();
    /// ```
    ///
    /// @return what completes when neither the changes nor what the transaction has read under locks can be lost
    ///     any more. It completes with a [StoreException] if a sync has failed: whether the commit is there is
    ///     known when the store is opened again. It completes with an [IllegalStateException] if the store was
    ///     closed without it being known. Dependent actions run in the default executor of [CompletableFuture]
    /// @throws StoreException        as [#commit()]
    /// @throws DeadlockException     as [#commit()]
    /// @throws IllegalStateException as [#commit()], and if it is nested
    public abstract CompletableFuture<Void> commitAsync();

    /// Restores what was changed.
    public abstract void rollback();

    /// Takes the default action, unless the transaction has ended. May be called again.
    @Override
    public abstract void close();

    /// Returns the action of [#close] for a transaction that is still open.
    public abstract Action defaultAction();

    /// Sets what [#close] does to a transaction that is still open: by default, [Action#ROLLBACK]. It is the
    /// same at the end of the scope and when an exception leaves it.
    public abstract void defaultAction(Action action);

    /// Whether it has neither committed nor rolled back. On any thread; on others than its own, it was a
    /// moment ago.
    public abstract boolean isOpen();

    /// Returns the number of old values that are kept, those of the enclosing transactions included: each place once
    /// for each level at most.
    public abstract int undoSize();

    // ---- hand-over

    /// Takes a top-level transaction off this thread, which is in none afterwards. Until it is attached
    /// again, nothing is stored in it; what it has locked stays locked.
    public abstract void detach();

    /// Puts a detached transaction on this thread, which must be in none.
    public abstract void attach();
}
