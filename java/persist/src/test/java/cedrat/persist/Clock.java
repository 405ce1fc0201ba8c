package cedrat.persist;

/// A clock that advances on request.
///
/// **Threads:** any.
public final class Clock {
    private volatile long nanos;

    /// Options of a store whose branches go by it.
    public StoreOptions options() {
        StoreOptions options = new StoreOptions();
        options.nanos = () -> nanos;
        return options;
    }

    /// Advances the clock.
    public void goOn(long nanos) {
        this.nanos += nanos;
    }
}
