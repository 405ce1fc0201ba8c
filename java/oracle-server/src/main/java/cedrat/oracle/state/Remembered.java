package cedrat.oracle.state;

/// Receives the transactions that an oracle remembers: to write a snapshot, or to restore an oracle from one.
public interface Remembered {
    /// The oracle has this identity. Received before all transactions, if at all.
    void identified(long identity);

    /// The oracle was restored from a backup, and has this generation. Received directly after the identity, if at
    /// all.
    void restored(long generation);

    /// Clients have written rows of this namespace. Received before all transactions, in ascending order.
    void used(long namespace);

    /// Snapshots of transactions with start timestamps up to `upTo` may have been pruned. Received before
    /// all transactions, if at all.
    void pruned(long upTo);

    /// A transaction is open. `position` rows had been committed when it began ([StatusOracle#position]).
    void open(long start, long position);

    /// A transaction has committed, and its outcome may still be requested.
    void committed(Lifetime lifetime);

    /// A transaction has aborted, and its outcome may still be requested.
    void aborted(long start);
}
