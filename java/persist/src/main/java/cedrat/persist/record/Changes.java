package cedrat.persist.record;

/// The changes of a top-level transaction in one store, which are about to be stored.
///
/// **Threads:** that of the transaction.
public interface Changes {
    /// Stores them. When this returns, they have their place in the log.
    ///
    /// @throws RuntimeException if they are not stored: memory is to be restored
    void commit();

    /// Stores them as a branch of a transaction that spans several stores. When this returns, it can be
    /// committed and rolled back, whatever happens.
    ///
    /// @return false if there is nothing to store
    /// @throws RuntimeException if they are not prepared: memory is to be restored
    boolean prepare(byte[] branch);

    /// The store has committed what was prepared.
    void committed();

    /// The store has nothing of what was prepared, or will have nothing.
    void rolledBack();

    /// They are not stored.
    void abandon();
}
