package cedrat.persist.store;

import cedrat.persist.StoreStatistics;
import java.util.concurrent.atomic.LongAdder;

/// Counters of a store since it was opened.
///
/// **Threads:** any.
final class StoreCounters {
    private final LongAdder commits = new LongAdder();
    private final LongAdder refusedCommits = new LongAdder();
    private final LongAdder committedBytes = new LongAdder();
    private final LongAdder newObjects = new LongAdder();
    private final LongAdder loadedObjects = new LongAdder();
    private final LongAdder unloadedObjects = new LongAdder();
    private final LongAdder collections = new LongAdder();
    private final LongAdder removedObjects = new LongAdder();

    void committed(int newObjects, int bytes) {
        commits.increment();
        committedBytes.add(bytes);
        this.newObjects.add(newObjects);
    }

    void refusedCommit() {
        refusedCommits.increment();
    }

    void loaded() {
        loadedObjects.increment();
    }

    void unloaded() {
        unloadedObjects.increment();
    }

    void collected(long removed) {
        collections.increment();
        removedObjects.add(removed);
    }

    StoreStatistics read(long loadedBytes) {
        return new StoreStatistics(
                commits.sum(),
                refusedCommits.sum(),
                committedBytes.sum(),
                newObjects.sum(),
                loadedObjects.sum(),
                unloadedObjects.sum(),
                loadedBytes,
                collections.sum(),
                removedObjects.sum());
    }
}
