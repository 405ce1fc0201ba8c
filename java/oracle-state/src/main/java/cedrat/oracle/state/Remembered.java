package cedrat.oracle.state;

/// Told what an oracle remembers of transactions: what a snapshot is made of, and an oracle from a snapshot.
public interface Remembered {
    /// A transaction is open. `position` rows had been committed when it began ([StatusOracle#position]).
    void open(long start, long position);

    /// One has committed, and somebody may still ask.
    void committed(long start, long commit);

    /// One has aborted, and somebody may still ask.
    void aborted(long start);
}
