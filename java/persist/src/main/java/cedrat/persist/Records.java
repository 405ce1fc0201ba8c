package cedrat.persist;

/// A collection of records in pages of the store: bytes each, at most 3,800, found by a number that stays.
///
/// They are read and changed in transactions, together with objects and [Heap]s of the same store: one record of
/// the log decides all of it, a rollback takes all of it back, and so does that of a nested transaction.
///
/// A collection is locked as an object is: shared by readers, or exclusively by one writer.
///
/// **Threads:** any that is in a transaction. **Failure:** [IllegalStateException] outside of one, and once the
/// store is closed; [StoreException] if the store refuses, because there is no such record for example:
/// nothing has happened then; [DeadlockException].
public interface Records {
    /// Adds a record.
    ///
    /// @return its number
    long insert(byte[] record);

    /// A copy of a record's bytes.
    byte[] read(long number);

    /// Gives a record other bytes. Longer ones need room in its page: if they are refused, delete the record, and
    /// insert it anew.
    void update(long number, byte[] record);

    /// Deletes a record.
    void delete(long number);

    /// The numbers of all records.
    long[] numbers();
}
