package cedrat.persist;

import cedrat.persist.boot.Persistable;

/// A store of persistent objects, as barriers see it. [Recorder#opened] makes it known to them.
///
/// A reference field of a persistent object that is null in memory may be *pending*: the object's identity has
/// a reference that has not been followed yet. Nothing else is pending; primitive fields, arrays and
/// collections of the JDK are loaded with the object that leads to them.
///
/// **Threads:** any, several at a time. What these methods store themselves is not remembered for a rollback.
/// **Failure:** what they throw comes out of the program's own read or store, which then has not happened.
interface Persistent {
    /// A reference field is null. If it is pending, what it leads to is loaded and put there, unless another
    /// thread has been faster.
    ///
    /// @param base an object whose identity is of this store
    /// @return the field's value, null if that is what it is
    Object readNull(Persistable base, Slot.Field field);

    /// A thread that is in no transaction is about to store to an object, array or collection. Of arrays and
    /// collections every one that any thread stores to is asked for: who is not persistent has to be found out
    /// without waiting for anybody.
    ///
    /// @param base not an object of a woven class that is of no store, or of another one
    /// @throws IllegalStateException if it is persistent in this store: the program is to begin a transaction
    void refuseStore(Object base);
}
