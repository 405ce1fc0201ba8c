package cedrat.persist.micrometer;

import cedrat.persist.Store;
import cedrat.persist.StoreStatistics;
import io.micrometer.core.instrument.FunctionCounter;
import io.micrometer.core.instrument.Gauge;
import io.micrometer.core.instrument.MeterRegistry;
import io.micrometer.core.instrument.Tag;
import io.micrometer.core.instrument.Tags;
import io.micrometer.core.instrument.binder.MeterBinder;
import java.util.Objects;
import java.util.function.ToLongFunction;

/// Metrics of one store, from [Store#statistics].
///
/// ```java
/// new StoreMetrics(store, Tags.of("store", "bank")).bindTo(registry);
/// ```
///
/// **Threads:** any.
public final class StoreMetrics implements MeterBinder {
    private final Store store;
    private final Tags tags;

    /// @param tags of each metric: for example the name of the store
    public StoreMetrics(Store store, Iterable<Tag> tags) {
        this.store = Objects.requireNonNull(store);
        this.tags = Tags.of(tags);
    }

    @Override
    public void bindTo(MeterRegistry registry) {
        count(registry, "commits", null, "Transactions whose changes were stored", StoreStatistics::commits);
        count(
                registry,
                "commits.refused",
                null,
                "Transactions that were rolled back, because their changes could not be stored",
                StoreStatistics::refusedCommits);
        count(registry, "committed", "bytes", "Size of the changes in the log", StoreStatistics::committedBytes);
        count(registry, "objects.new", null, "Objects that became persistent", StoreStatistics::newObjects);
        count(registry, "objects.loaded", null, "Objects that were read into memory", StoreStatistics::loadedObjects);
        count(
                registry,
                "objects.unloaded",
                null,
                "Objects whose references were dropped from memory",
                StoreStatistics::unloadedObjects);
        count(registry, "collections", null, "Garbage collections that have ended", StoreStatistics::collections);
        count(
                registry,
                "objects.removed",
                null,
                "Objects that garbage collections have removed",
                StoreStatistics::removedObjects);
        Gauge.builder("cedrat.store.loaded", store, its -> its.statistics().loadedBytes())
                .tags(tags)
                .baseUnit("bytes")
                .description("Estimated size of the objects that are loaded")
                .register(registry);
        Gauge.builder("cedrat.store.stopped", store, its -> its.failure().isPresent() ? 1 : 0)
                .tags(tags)
                .description("1 if the store has stopped after a failure, otherwise 0")
                .register(registry);
    }

    private void count(
            MeterRegistry registry,
            String name,
            String unit,
            String description,
            ToLongFunction<StoreStatistics> value) {
        FunctionCounter.builder("cedrat.store." + name, store, its -> value.applyAsLong(its.statistics()))
                .tags(tags)
                .baseUnit(unit)
                .description(description)
                .register(registry);
    }
}
