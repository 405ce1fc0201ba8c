package cedrat.persist.store;

import cedrat.persist.StoreStatistics;
import cedrat.persist.event.Counter;

/// Counters of a store since it was opened.
///
/// **Threads:** any.
final class StoreCounters {
    private final Counter commits = new Counter();
    private final Counter refusedCommits = new Counter();
    private final Counter committedBytes = new Counter();
    private final Counter newObjects = new Counter();
    private final Counter loadedObjects = new Counter();
    private final Counter unloadedObjects = new Counter();
    private final Counter collections = new Counter();
    private final Counter removedObjects = new Counter();

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
