package cedrat.oracle.state;

/// Told of all that the oracle decides, as it decides: what the log has to keep, and what a replay is made
/// of.
///
/// Timestamps are not told of when they are given out. Whoever keeps decisions keeps beside them up to where
/// timestamps were given out: those without a decision are open transactions (O5).
public interface Decisions {
    /// A transaction has committed. Every timestamp between the newest one before and `commit` began a
    /// transaction.
    void committed(long start, long commit, Rows rows);

    /// The transaction that was told to have committed just now has written these keys, of tables whose scans
    /// are checked.
    void wrote(Keys keys);

    /// A transaction has aborted.
    void aborted(long start);

    /// A transaction that has written nothing has ended.
    void ended(long start);

    /// What became of a transaction will not be asked for any more.
    void forgotten(long start);
}
