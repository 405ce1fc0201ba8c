package cedrat.persist;

import java.nio.file.Path;
import java.util.List;
import java.util.Map;

/// Objects that refer to each other, and last: what [Store] needs of a store. It knows references, and
/// nothing of Java.
///
/// An *object* is its bytes, little endian:
///
/// ```text
/// | class u32 | data_len u32 | data, data_len bytes | references, 8 bytes each, to the end |
/// ```
///
/// `data_len` is a multiple of 8. A *reference* whose top byte is 0 is null (0) or the identity of an object,
/// any other is a value that the store does not look at. In a commit's buffer, one whose top byte is 0xff
/// leads to the new object of that number.
///
/// A *commit's buffer* is a sequence of entries, each at a multiple of 8:
///
/// ```text
/// | kind u8 | 0 0 0 | len u32 | what belongs to the kind | len bytes, with zeros to a multiple of 8 |
/// ```
///
/// - `NEW` (1): an object; the first of a buffer has number 0, the next 1, and so on
/// - `PATCH` (2): `identity u64 | offset u32 | 0 u32`, and bytes for the object from `offset` on, counted from
///   its first byte; where they touch references they are whole ones. What lies behind the end makes it longer
/// - `PUT` (3): `identity u64`, and the whole object anew
/// - `ROOT` (4): `reference u64`, and a name in UTF-8; the reference 0 takes the name away
/// - `CLASS` (5): `number u32 | 0 u32`, and the definition of a class, any bytes. The number follows that of all
///   definitions so far, and of the entries of this kind before. Objects of the buffer may have the class. Numbers
///   of dropped definitions stay taken
///
/// **Threads:** any, several at a time. Reads take no locks and belong to no transaction.
///
/// **Failure:** every method throws [GraphStoreException]. One that says that the store is *stopped* is the
/// last word: every later call throws such a one, until the store is opened anew.
public interface GraphStore extends AutoCloseable {
    /// The objects of a commit that were new.
    ///
    /// @param identities theirs, in their order
    /// @param lsn        the place of the commit in the log
    record Committed(long[] identities, long lsn) {}

    /// The definitions of classes, in the order of their numbers; null in place of each that was dropped.
    ///
    /// @param first the number of the first one; the least of all is 1
    List<byte[]> classes(int first) throws GraphStoreException;

    /// All names, and the references that they lead to.
    Map<String, Long> roots() throws GraphStoreException;

    /// The bytes of an object.
    byte[] read(long identity) throws GraphStoreException;

    /// The bytes of several objects, in the order of their identities.
    default byte[][] readMany(long[] identities) throws GraphStoreException {
        byte[][] objects = new byte[identities.length][];
        for (int i = 0; i < identities.length; i++) {
            objects[i] = read(identities[i]);
        }
        return objects;
    }

    /// Commits what a buffer says: all of it, or nothing if this throws a [GraphStoreException]. It returns
    /// when the commit has its place in the log, and will be durable soon. Any other exception, an [Error]
    /// for example, does not show whether anything was committed: close the store, and open it again.
    ///
    /// Concurrent calls change different objects: the caller locks each object that it changes until the
    /// call has returned, and each object of a branch until the branch has ended. One call at a time defines
    /// classes. A commit or branch that uses a dropped class is refused as a conflict.
    ///
    /// @param buffer not kept after the call
    /// @param length how many of its bytes count
    Committed commit(byte[] buffer, int length) throws GraphStoreException;

    /// Existing objects and names that a branch in doubt changes.
    ///
    /// @param identities of objects
    /// @param roots      names, also of those that led to nothing
    record Changed(long[] identities, List<String> roots) {}

    /// Prepares what a buffer says as a branch of a transaction that spans several stores. When this
    /// returns, all of it can be committed and rolled back, whatever happens; until then all transactions read
    /// the old values, and commits that change the same objects are refused. Its classes are defined then, also
    /// if the branch is rolled back. When this throws, nothing has happened, unless the store has stopped; but
    /// the classes may be defined. A store that takes no part in such transactions refuses, here and
    /// below.
    ///
    /// @param branch its name, 1 to 140 bytes
    /// @return the identities of the new objects, in their order
    default long[] prepare(byte[] buffer, int length, byte[] branch) throws GraphStoreException {
        throw withoutBranches();
    }

    /// Commits a branch that is prepared. It is durable when this returns.
    default void commitPrepared(byte[] branch) throws GraphStoreException {
        throw withoutBranches();
    }

    /// Rolls a branch back that is prepared. That is durable when this returns.
    default void rollbackPrepared(byte[] branch) throws GraphStoreException {
        throw withoutBranches();
    }

    /// The names of all branches that are prepared and have not ended, also of earlier openings.
    default List<byte[]> inDoubt() throws GraphStoreException {
        return List.of();
    }

    /// A branch that an operator has ended, because its transaction manager was lost.
    ///
    /// @param branch      its name
    /// @param isCommitted otherwise it was rolled back
    record Heuristic(byte[] branch, boolean isCommitted) {}

    /// Returns the branches that an operator has ended and that are not forgotten.
    default List<Heuristic> heuristic() throws GraphStoreException {
        return List.of();
    }

    /// Forgets the outcome of such a branch, whose transaction manager knows it. That is durable when this returns.
    default void forget(byte[] branch) throws GraphStoreException {
        throw withoutBranches();
    }

    /// Returns the objects and names that a branch in doubt changes.
    default Changed changedBy(byte[] branch) throws GraphStoreException {
        throw withoutBranches();
    }

    /// Returns the name of the store, for messages and events: its folder if it has one.
    default String name() {
        return toString();
    }

    /// Waits until all commits up to one are durable.
    ///
    /// @param lsn as [#commit] has returned it
    void waitDurable(long lsn) throws GraphStoreException;

    /// Begins to remove objects that neither a root nor one of `alive` reaches; one collection runs at a time.
    /// What is reached now stays, and so does what is made or read from now on. A store that removes nothing
    /// refuses.
    ///
    /// @param alive identities of objects that the program holds without a root's help
    default Collection collect(long[] alive) throws GraphStoreException {
        throw new GraphStoreException("this kind of store removes no objects: open a store in a folder", null, false);
    }

    /// Copies the store to a folder that is empty, or is created, while it is in use. The copy has every commit that
    /// has returned before, and perhaps some later ones. A store that is in no folder refuses.
    default BackupReport backup(Path folder, BackupOptions options) throws GraphStoreException {
        throw new GraphStoreException("this kind of store makes no backups: open a store in a folder", null, false);
    }

    /// Gives the files of the store another key of 32 bytes. A store that is not encrypted refuses.
    default void rotateKey(byte[] key) throws GraphStoreException {
        throw new GraphStoreException("this kind of store is not encrypted: open a store in a folder", null, false);
    }

    /// How far a collection is.
    enum Stage {
        /// Some of what is reached has not been looked at.
        MARKING,
        /// All of it was looked at: [Collection#seal] is next.
        MARKED,
        /// Unreachable objects are being removed.
        SWEEPING,
        /// All of it was removed.
        DONE
    }

    /// A collection under way. Commits and reads of other threads go on.
    ///
    /// **Threads:** one at a time.
    interface Collection extends AutoCloseable {
        /// Looks at so many objects at most, or removes so many.
        Stage step(int budget) throws GraphStoreException;

        /// Turns from marking to sweeping, unless something has come up: then it is marking again. From then on
        /// what is not marked is neither read nor referred to.
        ///
        /// @param alive as of now, what was found in between among it
        Stage seal(long[] alive) throws GraphStoreException;

        /// Returns the number of objects that it has removed.
        long removed() throws GraphStoreException;

        /// Returns the numbers of the classes, of those that were defined when it began, that no object has and no
        /// enum constant of a reference names. None while a branch is in doubt. The collection is done.
        default int[] unusedClasses() throws GraphStoreException {
            return new int[0];
        }

        /// Drops the definitions of unused classes, all or none.
        ///
        /// @return false: none, because a commit has used one of them since, or a branch is in doubt
        default boolean dropClasses(int[] classes) throws GraphStoreException {
            return classes.length == 0;
        }

        /// Gives it up, if it is not done; what it has removed stays so.
        @Override
        void close();
    }

    /// A transaction over records in pages and words of heaps, to which a commit of objects may belong.
    ///
    /// A write conflict throws an exception that [GraphStoreException#isConflict]; the transaction is then to be
    /// closed.
    ///
    /// **Threads:** one at a time.
    interface Faces extends AutoCloseable {
        /// Marks a place to come back to.
        long savepoint() throws GraphStoreException;

        /// Takes back what was done since.
        void rollbackTo(long savepoint) throws GraphStoreException;

        /// Commits, with the changes of objects that a buffer has, as [GraphStore#commit]. Whatever becomes of it,
        /// the transaction has ended; if this throws, nothing of it has happened.
        ///
        /// @param length 0: no object is changed
        Committed commit(byte[] buffer, int length) throws GraphStoreException;

        /// Adds a record to a collection; returns its number.
        long insert(long records, byte[] record) throws GraphStoreException;

        /// A record's bytes.
        byte[] read(long records, long number) throws GraphStoreException;

        /// Gives a record other bytes.
        void update(long records, long number, byte[] record) throws GraphStoreException;

        /// Deletes a record.
        void delete(long records, long number) throws GraphStoreException;

        /// The numbers of all records.
        long[] numbers(long records) throws GraphStoreException;

        /// The word at an offset of a heap.
        long load(long heap, long offset) throws GraphStoreException;

        /// Stores a word.
        void store(long heap, long offset, long value) throws GraphStoreException;

        /// Allocates a block of zeros; returns its offset, never 0.
        long allocate(long heap, long bytes) throws GraphStoreException;

        /// Frees a block.
        void release(long heap, long block) throws GraphStoreException;

        /// The block that a name leads to, 0 if there is none.
        long root(long heap, String name) throws GraphStoreException;

        /// Lets a name lead to a block; 0 takes it away.
        void setRoot(long heap, String name, long block) throws GraphStoreException;

        /// Rolls back what was not committed. May be called again.
        @Override
        void close();
    }

    /// Begins a transaction over pages and heaps. A store without them refuses.
    default Faces begin() throws GraphStoreException {
        throw objectsOnly();
    }

    /// The number of a collection of records, which is made if there is none of this name.
    default long records(String name) throws GraphStoreException {
        throw objectsOnly();
    }

    /// The number of a heap, which is made if there is none of this name.
    ///
    /// @param bytes the size that it is made with
    default long heap(String name, long bytes) throws GraphStoreException {
        throw objectsOnly();
    }

    private static GraphStoreException withoutBranches() {
        return new GraphStoreException(
                "this kind of store takes no part in transactions over several stores: open a store in a folder",
                null,
                false);
    }

    private static GraphStoreException objectsOnly() {
        return new GraphStoreException(
                "this kind of store has no records and heaps: open a store in a folder", null, false);
    }

    /// Closes the store. What was committed becomes durable before.
    @Override
    void close() throws GraphStoreException;
}
