package cedrat.persist;

/// Reader/writer locks on any object (Transactions for Java, §2.1: `RW_Lock`).
///
/// A lock belongs to the top-level transaction of the calling thread and is held until that transaction ends, even
/// if a nested one acquired it. Readers share an object, and a writer is alone with it. A reader may write later,
/// when the other readers are gone. An assignment takes the write lock. A read takes the read lock if the object is
/// persistent in a store with [StoreOptions.Isolation#SERIALISABLE], the default; other reads take none. For a
/// part of a persistent collection, such as an entry of a map, the collection is locked.
///
/// **Threads:** any. **Again:** acquiring what is held does nothing.
public final class RwLock {
    private RwLock() {}

    /// Waits until no other transaction may write the object.
    ///
    /// @throws DeadlockException     if this transaction is the victim of a deadlock; it is rolled back
    /// @throws IllegalStateException if this thread is in no transaction, or the object is a part of a persistent
    ///     collection that was unloaded
    public static void acquireRead(Object object) {
        PersistenceRuntime.get().acquire(object, false);
    }

    /// Waits until no other transaction may read or write the object.
    ///
    /// @throws DeadlockException     if this transaction is the victim of a deadlock; it is rolled back
    /// @throws IllegalStateException if this thread is in no transaction, or the object is a part of a persistent
    ///     collection that was unloaded
    public static void acquireWrite(Object object) {
        PersistenceRuntime.get().acquire(object, true);
    }
}
