package cedrat.persist.micrometer;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cedrat.persist.Store;
import cedrat.persist.StoreOptions;
import cedrat.persist.Transaction;
import io.micrometer.core.instrument.MeterRegistry;
import io.micrometer.core.instrument.Tags;
import io.micrometer.core.instrument.simple.SimpleMeterRegistry;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class MetricsTest {
    @TempDir
    Path folder;

    private final MeterRegistry registry = new SimpleMeterRegistry();

    private double counter(String name) {
        return registry.get(name).functionCounter().count();
    }

    @Test
    void storeHasMetrics() {
        try (Store store = Store.open(folder.resolve("bank"), new StoreOptions())) {
            new StoreMetrics(store, Tags.of("store", "bank")).bindTo(registry);
            List<String> names = new ArrayList<>();
            store.setRoot("names", names);
            Transaction.run(() -> names.add("Ada"));
            assertEquals(2, counter("cedrat.store.commits"));
            assertTrue(counter("cedrat.store.committed") > 0);
            assertTrue(counter("cedrat.store.objects.new") > 0);
            assertTrue(registry.get("cedrat.store.loaded").gauge().value() > 0);
            assertEquals(0, registry.get("cedrat.store.stopped").gauge().value());
            store.collect();
            assertEquals(1, counter("cedrat.store.collections"));
        }
    }

    @Test
    void transactionsHaveMetrics() {
        new TransactionMetrics().bindTo(registry);
        double before = counter("cedrat.transactions.commits");
        Transaction.run(() -> {});
        assertEquals(1, counter("cedrat.transactions.commits") - before);
        assertEquals(0, counter("cedrat.transactions.deadlocks"));
    }
}
