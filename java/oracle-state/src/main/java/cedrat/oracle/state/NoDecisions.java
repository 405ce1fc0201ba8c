package cedrat.oracle.state;

/// Listens to nothing of what an oracle decides: for oracles whose decisions nobody keeps, and for those that
/// want to know of some kinds alone.
///
/// Not for what makes a log: that has to know of each kind, and of those that come to be later.
public class NoDecisions implements Decisions {
    /// One that listens to nothing.
    public NoDecisions() {}

    @Override
    public void committed(long start, long commit, Rows rows) {}

    @Override
    public void wrote(Keys keys) {}

    @Override
    public void aborted(long start) {}

    @Override
    public void ended(long start) {}

    @Override
    public void forgotten(long start) {}
}
