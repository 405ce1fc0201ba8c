package cedrat.persist;

/// The implementation that the agent installs: stores over a [GraphStore], and the transactions of a [Recorder].
///
/// **Threads:** any.
final class StoreRuntime extends PersistenceRuntime {
    private final Recorder recorder;

    StoreRuntime(Recorder recorder) {
        this.recorder = recorder;
    }

    @Override
    protected Persistence open(GraphStore graph, Settings settings) {
        return ObjectStore.open(recorder, graph, settings);
    }

    @Override
    protected void touched(Object object) {
        recorder.unseen.touched(object);
    }

    @Override
    protected void acquire(Object object, boolean toWrite) {
        recorder.transactions.acquire(object, toWrite);
    }
}
