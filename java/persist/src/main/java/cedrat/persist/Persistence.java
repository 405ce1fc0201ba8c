package cedrat.persist;

import java.nio.file.Path;
import java.util.Objects;
import java.util.ServiceLoader;
import java.util.Set;
import javax.transaction.xa.XAResource;

/// A store of ordinary objects (Transactions for Java, §2.2): what a name leads to is persistent, and whatever
/// that leads to.
///
/// ```java
/// try (var store = Persistence.open(Path.of("bank"), new PersistenceOptions())) {
///     if (!store.restarted()) {
///         store.mark("accounts", new ArrayList<Account>());
///     }
///     List<Account> accounts = store.lookup("accounts");
///     Transaction.run(() -> accounts.add(new Account()));
/// }
/// ```
///
/// A commit stores what its transaction has changed of persistent objects, and makes persistent what became
/// reachable from them. An object is loaded when the program first follows a reference to it; as long as the
/// program has it, every reference leads to that same object.
///
/// - What is persistent is stored to within transactions only; outside of one a store throws
///   [IllegalStateException].
/// - An object belongs to one store. A transaction may read objects of several, and change those of one.
/// - Nothing is stored by a nested transaction, but by the outermost one.
///
/// **Threads:** any. **Failure:** [PersistenceException], also out of [Transaction#commit], which then has
/// rolled back, and out of the reading of a field that has to be loaded; [IllegalStateException] once the store
/// is closed.
public abstract class Persistence implements AutoCloseable {
    /// Called by the implementation.
    protected Persistence() {}

    /// Makes the stores that are opened by a path. [Persistence#open(Path, PersistenceOptions)] finds it as a
    /// service.
    public interface Provider {
        /// Opens the store in a folder, which is made if it is not there.
        ///
        /// @param pageBytesMax how many bytes of its pages stay in memory
        /// @throws GraphStoreException if it does not open; it says why, and need not name the folder
        GraphStore open(Path folder, long pageBytesMax) throws GraphStoreException;
    }

    /// Opens the store in a folder, which is made if it is not there.
    ///
    /// @throws PersistenceException  if it cannot be opened, or has classes that do not fit the program's: it
    ///     says which
    /// @throws IllegalStateException if the agent is not loaded, or was loaded too late: some class would see null
    ///     where a reference is not loaded yet
    public static Persistence open(Path folder, PersistenceOptions options) {
        Provider provider = ServiceLoader.load(Provider.class)
                .findFirst()
                .orElseThrow(() -> new PersistenceException("cannot open a store in " + folder
                        + ", because persist-native is missing: add it to the class path"));
        PersistenceRuntime.get();
        GraphStore graph;
        try {
            graph = provider.open(folder, options.pageBytesMax);
        } catch (GraphStoreException e) {
            throw new PersistenceException("cannot open the store in " + folder + ": " + e.getMessage(), e);
        }
        return open(graph, options);
    }

    /// As [#open(Path, PersistenceOptions)], of a store that is open, which closes with this one.
    public static Persistence open(GraphStore graph, PersistenceOptions options) {
        return PersistenceRuntime.get().open(graph, options.settings());
    }

    /// Lets a name lead to an object, from the next commit on (J013): that of the transaction that this thread
    /// is in, which may also roll back; of one of its own if it is in none.
    ///
    /// @return whether the name led to nothing before
    public abstract boolean mark(String name, Object root);

    /// Takes a name away, as [#mark] gives one.
    public abstract void unmark(String name);

    /// Returns the object of a name, or null if there is none: the object that was committed last, or that this or
    /// another running transaction has marked.
    public abstract <T> T lookup(String name);

    /// The names that lead to something, in their order.
    public abstract Set<String> roots();

    /// The collection of records of a name without NUL, made if there is none; always the same object.
    ///
    /// @throws PersistenceException if the store has no pages, or the name stands for something else in it
    public abstract Records records(String name);

    /// The heap of a name without NUL, made if there is none; always the same object.
    ///
    /// @param bytes the size that it is made with, and may grow to eight times; one that is there stays
    /// @throws PersistenceException if the store has no heaps, or cannot make one of that size
    public abstract Heap heap(String name, long bytes);

    /// Whether something had been committed to the store before it was opened.
    public abstract boolean restarted();

    /// Removes from the store what no name leads to any more and the program has not loaded, and gives its room
    /// to what comes (Transactions for Java, §3.4). Transactions of other threads go on meanwhile. What becomes
    /// unreachable while it runs is removed by the next one. A crash forgets it.
    ///
    /// It reads every object that is reachable, so let a thread of yours call it now and then.
    ///
    /// @return how many objects were removed
    public abstract long collect();

    /// Returns a resource for a transaction manager (XA, by `javax.transaction.xa`), so that a transaction changes
    /// objects of this store and data of other stores, all or nothing. Each call returns another resource of
    /// the same store.
    ///
    /// From `start` to `end` the transactions of the thread, by [Transaction#begin], are nested in the branch:
    /// what they commit is stored when that commits, and taken back when it rolls back, but for locals. A thread
    /// has one branch at a time. From `prepare` on, what the branch has changed is on the disk, and stays locked,
    /// until the transaction manager commits it or rolls it back.
    ///
    /// Objects that were changed by a branch that is in doubt since an earlier opening are not loaded before the
    /// branch has ended: [InDoubtException].
    ///
    /// **Threads:** any; a branch is on one at a time.
    public abstract XAResource xaResource();

    /// Closes the store: what was committed becomes durable. Objects stay as far as they are loaded, and
    /// are no longer persistent objects of an open store: what is pending cannot be read, and a transaction that
    /// changes one, an array or a collection too, gets [IllegalStateException]. Outside of transactions they may be
    /// changed, in memory. May be called again. What branches have changed that are prepared is in memory as it was
    /// before; in the store they stay in doubt.
    ///
    /// @throws IllegalStateException if this thread is in a transaction, or branches have neither prepared
    /// nor ended
    @Override
    public abstract void close();

    /// Says that fields of an object, or elements of an array, are about to be changed where no barrier sees it:
    /// by native code, or by a `MethodHandle` (Transactions for Java, §3.2). A rollback restores what they are now,
    /// a commit stores what they are then. It takes the object's write lock, and loads all that its fields lead to.
    /// Each object is named by itself; again after the transaction has ended.
    ///
    /// @param object persistent or not
    /// @throws IllegalStateException         if this thread is in no transaction
    /// @throws UnsupportedOperationException if the object is one that no rollback restores
    public static void touched(Object object) {
        PersistenceRuntime.get().touched(Objects.requireNonNull(object));
    }
}
