package cedrat.persist;

/// Words that last, in memory of the store that is no part of Java's: 64 bits each, found by their offset in
/// bytes, a multiple of 8.
///
/// They are read and changed in transactions, together with objects and [Records] of the same store: one record
/// of the log decides all of it, a rollback takes all of it back, and so does that of a nested transaction.
///
/// A heap is locked as an object is: shared by readers, or exclusively by one writer.
///
/// **Threads:** any that is in a transaction. **Failure:** [IllegalStateException] outside of one, and once the
/// store is closed; [StoreException] if the store refuses: nothing has happened then;
/// [DeadlockException].
public interface Heap {
    /// The word at an offset.
    long read(long offset);

    /// Stores a word at an offset.
    void write(long offset, long value);

    /// Allocates a block, of zeros.
    ///
    /// @param bytes its size
    /// @return its offset, never 0
    long allocate(long bytes);

    /// Frees a block, when the transaction commits.
    ///
    /// @param block as [#allocate] has returned it
    void free(long block);

    /// The offset of the block that a name leads to, 0 if there is none.
    long root(String name);

    /// Lets a name lead to a block, so that it is found when the store is opened again.
    ///
    /// @param block as [#allocate] has returned it; 0 takes the name away
    void setRoot(String name, long block);
}
