package cedrat.persist.store;

import cedrat.persist.GraphStore;
import cedrat.persist.PersistenceRuntime;
import cedrat.persist.Store;
import cedrat.persist.TransactionStatistics;
import cedrat.persist.record.Recorder;

/// The implementation that the agent installs: stores over a [GraphStore], and the transactions of a [Recorder].
///
/// **Threads:** any.
public final class StoreRuntime extends PersistenceRuntime {
    private final Recorder recorder;

    public StoreRuntime(Recorder recorder) {
        this.recorder = recorder;
    }

    @Override
    protected Store open(GraphStore graph, Settings settings) {
        return ObjectStore.open(recorder, graph, settings);
    }

    @Override
    protected void touched(Object object) {
        recorder.unseen.touched(object);
    }

    @Override
    protected TransactionStatistics transactionStatistics() {
        return recorder.transactions.statistics();
    }

    @Override
    protected void acquire(Object object, boolean toWrite) {
        recorder.transactions.acquire(object, toWrite);
    }
}
