package cedrat.persist.record;

import cedrat.persist.GraphStore;
import cedrat.persist.GraphStoreException;
import cedrat.persist.StoreException;
import cedrat.persist.boot.Persistable;
import cedrat.persist.memory.Slot;
import java.util.concurrent.CompletableFuture;

/// A store of persistent objects, as barriers see it. [Recorder#opened] makes it known to them.
///
/// A reference field of a persistent object that is null in memory may be *pending*: the object's identity has
/// a reference that has not been followed yet. So may buckets of a large hash table, whose map has their parts. Nothing
/// else is pending; primitive fields, arrays and other collections of the JDK are loaded with the object that leads to
/// them.
///
/// Barriers find persistent arrays and objects of the JDK by their identity hash codes. So these have one before other
/// threads see them, and so do objects of the program's classes that extend classes of the JDK.
///
/// **Threads:** any, several at a time. What these methods store themselves is not remembered for a rollback.
/// **Failure:** what they throw comes out of the program's own read or store, which then has not happened.
public interface Persistent {
    /// Why transactions change nothing of a store that is closed.
    String CLOSED = "the store is closed: open it, and look up its objects again";

    /// A reference field is null. If it is pending, what it leads to is loaded and put there, unless another
    /// thread has been faster.
    ///
    /// @param base an object whose identity is of this store
    /// @return the field's value, null if that is what it is
    Object readNull(Persistable base, Slot.Field field);

    /// Returns an element of the table of a large map, which is loaded if it is not.
    ///
    /// @param table an array that may be one of another store, or of none
    Object readElement(Object[] table, int index);

    /// Whether a map is one that is loaded by part, or that of a set which is.
    boolean isByPart(Object map);

    /// Loads the bucket of a hash of such a map.
    void loadBucket(Object map, int hash);

    /// Waits for threads that are unloading a part of a collection, which this transaction has locked.
    void awaitUnloading(Object owner);

    /// Whether a field of an object is stored: not if it is transient, in most classes.
    ///
    /// @param base an object whose identity is of this store
    boolean stores(Persistable base, Slot.Field field);

    /// Whether a transaction that reads one of its objects takes the object's read lock. Always the same.
    boolean locksReads();

    /// A transaction is about to store to one of its objects.
    ///
    /// @throws IllegalStateException if it is closed: the transaction's commit would not be stored
    /// @throws StoreException  if it has stopped
    void check();

    /// The fields of an object will be read where no barrier is, now or at any time: what is loaded of it stays.
    void keepLoaded(Persistable base);

    /// A thread that is in no transaction is about to store to an object, array or collection. Of arrays and
    /// collections every one with an identity hash code is asked for: who is not persistent has to be found out
    /// without waiting for anybody.
    ///
    /// @param base not an object of a woven class that is of no store, or of another one
    /// @throws IllegalStateException if it is persistent in this store: the program is to begin a transaction
    void refuseStore(Object base);

    /// Returns the object whose lock protects an array or an object of the JDK that is persistent in this store: the
    /// Java collection that it is a part of, or itself. Null if it is not persistent.
    Object owner(Object base);

    /// As that, for an object that is about to be changed, or read under a lock.
    ///
    /// @throws IllegalStateException if it is a part of a Java collection that is not in memory any more, so that
    ///     the change would not be stored, and others may have changed what was read
    Object livingOwner(Object base);

    /// A transaction is about to let an object of the JDK lead to one that it has made. If the first is a persistent
    /// collection or a part of one, whose lock the transaction has, the other one is a part from here on.
    void adds(Object base, Object made, TopLevel by);

    /// Whether an array or an object of the JDK was added to a collection by another transaction, and was taken back
    /// since this one has begun, which may have found it there. To be asked when the transaction has locked what it
    /// belongs to.
    boolean isTakenBack(Object base, TopLevel reader);

    /// Returns the changes of a top-level transaction in this store, or null: there are none.
    Changes changes(TransactionLevel transaction);

    /// Begins changes in pages and heaps of the store.
    GraphStore.Faces beginFaces() throws GraphStoreException;

    /// Returns the program's exception for a refusal of the store.
    StoreException refused(GraphStoreException failure);

    /// Waits until everything that was stored by now is durable, if commits are to wait for that.
    ///
    /// @throws StoreException if that fails: the store has stopped
    void awaitDurable();

    /// The place in the log up to which something was stored by now.
    long appended();

    /// Waits until everything that was stored up to a place is durable.
    ///
    /// @throws StoreException if that fails: the store has stopped
    void awaitDurable(long place);

    /// Returns what completes when everything that was stored by now is durable, or exceptionally: with what
    /// [#awaitDurable(long)] throws. What depends on it does not run on a thread of the store.
    CompletableFuture<Void> whenDurable();
}
