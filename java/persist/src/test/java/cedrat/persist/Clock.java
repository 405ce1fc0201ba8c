package cedrat.persist;

/// A clock that goes when it is told to.
///
/// **Threads:** any.
public final class Clock {
    private volatile long nanos;

    /// Options of a store whose branches go by it.
    public PersistenceOptions options() {
        PersistenceOptions options = new PersistenceOptions();
        options.nanos = () -> nanos;
        return options;
    }

    /// So much time goes by.
    public void goOn(long nanos) {
        this.nanos += nanos;
    }
}
