package cedrat.oracle.state;

/// Receives each decision of the oracle when it is made. The log keeps the decisions, and a replay applies
/// them.
///
/// Timestamps are not reported when they are given out. A log therefore also keeps the newest timestamp that
/// was given out: a timestamp up to it without a decision belongs to an open transaction.
///
/// A commit is not reported as a [Lifetime]: in the server one would be allocated for each, and a decision shall
/// leave nothing to collect.
public interface Decisions {
    /// A transaction has committed. Every timestamp between the newest one before and `commit` began a
    /// transaction.
    void committed(long start, long commit, Rows rows);

    /// The transaction of the last `committed` has written these keys, of tables whose scans are checked.
    void wrote(Keys keys);

    /// A transaction has aborted.
    void aborted(long start);

    /// A transaction that has written nothing has ended.
    void ended(long start);

    /// A decided transaction is forgotten: its outcome will not be requested again.
    void forgotten(long start);

    /// The oracle has this identity from now on.
    void identified(long identity);

    /// Clients write rows of this namespace from now on.
    void used(long namespace);

    /// A namespace has no rows any more that need an outcome.
    void retired(long namespace);

    /// Snapshots of transactions with start timestamps up to `upTo` may be pruned from now on.
    void pruned(long upTo);
}
