package cedrat.persist;

import java.nio.file.Path;
import java.util.List;
import java.util.Objects;
import java.util.Optional;
import java.util.ServiceLoader;
import java.util.Set;
import java.util.function.Supplier;
import javax.transaction.xa.XAResource;

/// A store of ordinary objects (Transactions for Java, §2.2). Objects that a named root reaches are persistent.
///
/// ```java
/// try (var store = Store.open(Path.of("bank"))) {
///     List<Account> accounts = store.root("accounts", List.class, ArrayList::new);
///     Transaction.run(() -> accounts.add(new Account()));
/// }
/// ```
///
/// A commit stores what its transaction has changed of persistent objects, and makes persistent what became
/// reachable from them. An object is loaded when the program first follows a reference to it; as long as the
/// program has it, every reference leads to that same object.
///
/// - Persistent objects are changed within transactions only; an assignment outside of one throws
///   [IllegalStateException].
/// - An object belongs to one store. A transaction may read objects of several, and change those of one.
/// - A nested transaction stores nothing; the outermost one stores all changes.
///
/// **Threads:** any. **Failure:** [StoreException]. [Transaction#commit] throws it after it has rolled
/// back, and the read of a field if its object cannot be loaded. [IllegalStateException] once the store is closed,
/// and from methods that need the agent if it is not loaded.
public abstract class Store implements AutoCloseable {
    /// Called by the implementation.
    protected Store() {}

    /// Opens stores by their path, for [Store#open(Path, StoreOptions)], which finds it as a service.
    public interface Provider {
        /// How the files of a store are opened.
        ///
        /// @param pageBytesMax maximum memory for its pages, in bytes
        /// @param archive      the folder of its archive, if it has one
        /// @param backup       the folder of a backup for damaged pages, if there is one
        /// @param keys         the keys of an encrypted store
        record Files(long pageBytesMax, Optional<Path> archive, Optional<Path> backup, Optional<Keys> keys) {}

        /// The keys of an encrypted store, of 32 bytes each.
        ///
        /// @param newest the key that new files get
        /// @param older  another key that a file may have
        record Keys(Key newest, Optional<Key> older) {}

        /// A key of 32 bytes, which it does not show.
        final class Key {
            private final byte[] bytes;

            Key(byte[] bytes) {
                this.bytes = bytes;
            }

            /// Returns a copy.
            public byte[] bytes() {
                return bytes.clone();
            }
        }

        /// Opens the store in a folder, which is created if it does not exist.
        ///
        /// @throws GraphStoreException if it does not open, with the reason; it need not name the folder
        GraphStore open(Path folder, Files files) throws GraphStoreException;

        /// Opens a store as it was at a moment, to be read.
        ///
        /// @param pageBytesMax maximum memory for its pages, in bytes
        /// @param keys         the keys of an encrypted store
        /// @throws GraphStoreException if it does not open, with the reason; it need not name the folder
        GraphStore open(View view, long pageBytesMax, Optional<Keys> keys) throws GraphStoreException;
    }

    /// Opens the store in a folder with the default options, as [#open(Path, StoreOptions)] does.
    ///
    /// @throws StoreException        as there
    /// @throws IllegalStateException as there
    public static Store open(Path folder) {
        return open(folder, new StoreOptions());
    }

    /// Opens the store in a folder, which is created if it does not exist.
    ///
    /// @throws StoreException        if it cannot be opened, or its classes do not match those of the program; the
    ///     message names them
    /// @throws IllegalStateException if the agent is not loaded, or was loaded so late that some class would see
    ///     null in place of a reference that is not loaded
    public static Store open(Path folder, StoreOptions options) {
        Optional<Path> archive = Optional.ofNullable(options.archive);
        Optional<Path> backup = Optional.ofNullable(options.backup);
        Provider.Files files = new Provider.Files(options.pageBytesMax, archive, backup, options.keys());
        return open("the store in " + folder, provider -> provider.open(folder, files), options);
    }

    /// Opens a store as it was at a moment, to be read (Lemon, §3.4). The store itself may be open, in this process or
    /// another one. Roots lead to the objects of that moment; branches that were in doubt then are rolled back. A
    /// transaction that changes a persistent object fails at its commit: [StoreException], and the transaction is
    /// rolled back. [#collect], and names of new records and heaps, fail, too.
    ///
    /// A temporary folder has the log since the backup, and changed pages, until [#close] deletes it.
    ///
    /// @throws StoreException           as [#open(Path, StoreOptions)]; or if backup or archive lacks the moment
    /// @throws IllegalArgumentException if the options have an archive or a backup, which belong to the view
    /// @throws IllegalStateException    as [#open(Path, StoreOptions)]
    public static Store open(View view, StoreOptions options) {
        if (options.archive != null || options.backup != null) {
            throw new IllegalArgumentException(
                    "a view has its own backup and archive: set them in View, not in StoreOptions");
        }
        String what = "a view of the backup in " + view.backups().getLast();
        Optional<Provider.Keys> keys = options.keys();
        return open(what, provider -> provider.open(view, options.pageBytesMax, keys), options);
    }

    private interface Opening {
        GraphStore open(Provider provider) throws GraphStoreException;
    }

    private static Store open(String what, Opening opening, StoreOptions options) {
        Provider provider = ServiceLoader.load(Provider.class)
                .findFirst()
                .orElseThrow(() -> new StoreException(
                        "cannot open " + what + ", because persist-native is missing: add it to the class path"));
        PersistenceRuntime.get();
        GraphStore graph;
        try {
            graph = opening.open(provider);
        } catch (GraphStoreException e) {
            throw new StoreException("cannot open " + what + ": " + e.getMessage(), e);
        }
        return open(graph, options);
    }

    /// Opens a graph store, as [#open(Path, StoreOptions)] does. It closes with the returned store.
    ///
    /// @throws StoreException        as there; the graph store is then closed
    /// @throws IllegalStateException as there; the graph store is then closed, unless the agent is not loaded
    public static Store open(GraphStore graph, StoreOptions options) {
        return PersistenceRuntime.get().open(graph, options.settings());
    }

    /// Returns the object that a name leads to, or null if there is none: the object that was committed last, or that
    /// this or another running transaction has set. In a transaction over this store the name is locked for
    /// reading, unless the store is opened with [StoreOptions.Isolation#READ_UNCOMMITTED].
    ///
    /// @param type the class of the object, or a class or interface that it extends; `List.class` for a
    /// `List<Account>`
    /// @throws StoreException    if the object is not of that type, or cannot be loaded; [InDoubtException] if a
    ///     branch in doubt has changed it
    /// @throws DeadlockException if the transaction is the victim of a deadlock
    public abstract <T> T root(String name, Class<? super T> type);

    /// As [#root(String, Class)]; if there is no such root, sets one as [#setRoot] does.
    ///
    /// @param initial returns the object of a new root, never null; a part of the transaction
    /// @throws StoreException    as there, and if the new object cannot be stored
    /// @throws DeadlockException as there
    public abstract <T> T root(String name, Class<? super T> type, Supplier<? extends T> initial);

    /// Makes an object a named root. This is a change of the thread's transaction: its commit stores it, and a
    /// rollback restores the former root. Outside of a transaction the call commits by itself.
    ///
    /// @param name of at most 1,024 bytes in UTF-8
    /// @return whether the name was not in use before
    /// @throws IllegalArgumentException if the name is too long
    /// @throws StoreException           if the call commits by itself, and the object cannot be stored;
    ///     [InDoubtException] if a branch in doubt has changed the name
    /// @throws DeadlockException        if the transaction is the victim of a deadlock
    public abstract boolean setRoot(String name, Object root);

    /// Removes a named root, as [#setRoot] sets one.
    ///
    /// @throws StoreException    as there
    /// @throws DeadlockException as there
    public abstract void removeRoot(String name);

    /// Returns the names of all roots, sorted. In a transaction they are locked for reading, as [#root(String, Class)]
    /// does it with one.
    ///
    /// @throws DeadlockException if the transaction is the victim of a deadlock
    public abstract Set<String> rootNames();

    /// Checks whether an object can be stored, with all that is reachable from it. Nothing is stored. As a commit, this
    /// locks the objects, until the transaction of the thread ends.
    ///
    /// @return the reasons why not, each with the path that leads from `root` to an object; empty if it can be
    ///     stored
    /// @throws DeadlockException if the transaction is the victim of a deadlock
    /// @throws StoreException    if the store has stopped, or an object cannot be loaded
    public abstract List<String> check(Object root);

    /// Returns the collection of records with this name, which must not contain NUL, and creates it if there is none.
    /// Always returns the same object.
    ///
    /// @throws StoreException if the store has no pages, or the name belongs to another kind of structure
    public abstract Records records(String name);

    /// Returns the heap with this name, which must not contain NUL, and creates it if there is none. Always returns the
    /// same object.
    ///
    /// @param bytes the size of a new heap, which may grow to eight times that; an existing heap keeps its size
    /// @throws StoreException if the store has no heaps, or cannot create one of that size
    public abstract Heap heap(String name, long bytes);

    /// Whether nothing had been committed to the store before it was opened.
    public abstract boolean isNew();

    /// Collects garbage: removes the objects that no root reaches and the program has not loaded. New objects reuse
    /// their space (Transactions for Java, §3.4). Transactions of other threads continue. Objects that become
    /// unreachable meanwhile are removed by the next call. After a crash, call it again.
    ///
    /// It reads every reachable object, so call it from time to time, on a thread of its own.
    ///
    /// @return the number of removed objects
    /// @throws StoreException if an object cannot be read, or the store has stopped
    public abstract long collect();

    /// As [#backup(Path, BackupOptions)], all of the store, as fast as possible.
    public final BackupReport backup(Path folder) {
        return backup(folder, new BackupOptions());
    }

    /// Copies the store to a folder that is empty, or is created, while transactions go on (Lemon, §3.4). [#open] opens
    /// the copy, with all that was committed before this call, and perhaps some later transactions. Prepared
    /// branches are in doubt there: never let both stores take part in transactions of one transaction manager.
    ///
    /// With [BackupOptions#since] the backup is incremental: `cedrat restore` restores it with the earlier ones.
    /// [#open(View, StoreOptions)] reads them.
    ///
    /// **Threads:** any; several backups may run at once.
    ///
    /// @throws StoreException if the folder has files, a file of this store is damaged, or a disk failed; or the
    ///     earlier backup is of another store, or was opened since; or the log was full, so that the backup has
    ///     ended, and transactions go on. Delete the folder then
    public abstract BackupReport backup(Path folder, BackupOptions options);

    /// Gives the store and its archive another key, durably, while transactions go on. Later backups have the new key,
    /// earlier ones keep the old one (docs/use/encryption.md). After a crash meanwhile, store and archive each have
    /// one of both: open the store with the new [key][StoreOptions#key], and the old one as
    /// [older key][StoreOptions#olderKey], and call this again.
    ///
    /// @param key 32 random bytes, which are copied
    /// @throws StoreException           if the store was opened without a key, or a disk failed
    /// @throws IllegalArgumentException if it does not have 32 bytes
    public final void rotateKey(byte[] key) {
        rotateTo(StoreOptions.keyOf(key));
    }

    /// As [#rotateKey], with a copy of a key of 32 bytes.
    protected abstract void rotateTo(byte[] key);

    /// Returns the counters of this store. They may be read after it was closed.
    public abstract StoreStatistics statistics();

    /// Returns why the store has stopped; empty if it has not, and after [#close]. For health checks: a stopped store
    /// neither loads nor stores anything.
    public abstract Optional<StoreException> failure();

    /// Returns a resource for a transaction manager (XA, by `javax.transaction.xa`), so that a transaction changes
    /// objects of this store and data of other stores, all or nothing. Each call returns another resource of
    /// the same store.
    ///
    /// From `start` to `end` the transactions of the thread, by [Transaction#begin], are nested in the branch.
    /// Their changes are stored when the branch commits. When it rolls back, they are undone, except for local
    /// variables. A thread has one branch at a time. After `prepare` the changes of the branch are durable, and
    /// stay locked until the transaction manager commits it or rolls it back.
    ///
    /// A load of an object that an in-doubt branch of an earlier opening has changed throws [InDoubtException]
    /// until the branch has ended.
    ///
    /// **Threads:** any; a branch is on one at a time.
    public abstract XAResource xaResource();

    /// Closes the store: all commits become durable. Loaded objects stay in memory. References that are not loaded
    /// cannot be read any more, and a transaction that changes such an object, array or collection throws
    /// [IllegalStateException]. Outside of transactions the objects may be changed, in memory only. Changes of
    /// prepared branches are undone in memory; in the store they stay in doubt. A second call does nothing.
    ///
    /// @throws IllegalStateException if this thread is in a transaction, or branches have neither prepared
    ///     nor ended
    /// @throws StoreException        if commits cannot be made durable
    @Override
    public abstract void close();

    /// Announces that code without barriers is about to change fields of an object, or elements of an array: native
    /// code, or a `MethodHandle` (Transactions for Java, §3.2). A rollback restores the present values, and a
    /// commit stores the values that it finds. This takes the object's write lock, and loads all objects that its
    /// fields refer to. Call it for each object, and in each transaction.
    ///
    /// @param object persistent or not
    /// @throws IllegalStateException         if this thread is in no transaction
    /// @throws UnsupportedOperationException if the object is one that no rollback restores
    public static void touched(Object object) {
        PersistenceRuntime.get().touched(Objects.requireNonNull(object));
    }
}
