package cedrat.oracle.state;

/// Ignores all decisions of an oracle: for oracles whose decisions are not kept, and as a base class for
/// listeners that need some kinds only.
///
/// A log must not extend this class: it has to handle each kind, and the kinds that are added later.
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

    @Override
    public void identified(long identity) {}

    @Override
    public void used(long namespace) {}

    @Override
    public void retired(long namespace) {}

    @Override
    public void pruned(long upTo) {}
}
