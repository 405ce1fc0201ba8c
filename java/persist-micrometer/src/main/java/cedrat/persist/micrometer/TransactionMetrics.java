package cedrat.persist.micrometer;

import cedrat.persist.Transaction;
import cedrat.persist.TransactionStatistics;
import io.micrometer.core.instrument.FunctionCounter;
import io.micrometer.core.instrument.MeterRegistry;
import io.micrometer.core.instrument.Tag;
import io.micrometer.core.instrument.Tags;
import io.micrometer.core.instrument.binder.MeterBinder;
import java.util.function.ToLongFunction;

/// Metrics of all top-level transactions of the process, from [Transaction#statistics]. Bind them once.
///
/// **Threads:** any.
public final class TransactionMetrics implements MeterBinder {
    private final Tags tags;

    /// Metrics without tags.
    public TransactionMetrics() {
        this(Tags.empty());
    }

    /// @param tags of each metric
    public TransactionMetrics(Iterable<Tag> tags) {
        this.tags = Tags.of(tags);
    }

    @Override
    public void bindTo(MeterRegistry registry) {
        count(registry, "commits", "Transactions that have committed", TransactionStatistics::commits);
        count(registry, "rollbacks", "Transactions that were rolled back", TransactionStatistics::rollbacks);
        count(registry, "lock.waits", "Requests for a lock that had to wait", TransactionStatistics::lockWaits);
        count(
                registry,
                "deadlocks",
                "Transactions that were rolled back to end a deadlock",
                TransactionStatistics::deadlocks);
    }

    private void count(
            MeterRegistry registry, String name, String description, ToLongFunction<TransactionStatistics> value) {
        // The counter holds its object by a weak reference, and the class stays.
        FunctionCounter.builder(
                        "cedrat.transactions." + name,
                        Transaction.class,
                        type -> value.applyAsLong(Transaction.statistics()))
                .tags(tags)
                .description(description)
                .register(registry);
    }
}
