package cedrat.persist.isolation;

import static org.junit.jupiter.api.Assertions.assertEquals;

import cedrat.persist.RwLock;
import cedrat.persist.Store;
import cedrat.persist.StoreOptions;
import cedrat.persist.StoreOptions.Isolation;
import cedrat.persist.Transaction;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/// The examples of isolation in the documentation, on several threads.
class IsolationTest {
    private static final int THREADS = 4;
    private static final int TRANSACTIONS = 20_000;

    @TempDir
    Path folder;

    /// As in the quick start.
    static final class Counter {
        int starts;
    }

    private static void onThreads(Callable<Void> work) throws Exception {
        try (ExecutorService threads = Executors.newFixedThreadPool(THREADS)) {
            List<Future<Void>> all = new ArrayList<>();
            for (int thread = 0; thread < THREADS; thread++) {
                all.add(threads.submit(() -> {
                    for (int i = 0; i < TRANSACTIONS; i++) {
                        work.call();
                    }
                    return null;
                }));
            }
            for (Future<Void> one : all) {
                one.get();
            }
        }
    }

    /// J3.2: the store has the default options.
    @Test
    void defaultIsolationLosesNoUpdate() throws Exception {
        try (Store store = Store.open(folder, new StoreOptions())) {
            store.setRoot("counter", new Counter());
            Counter counter = store.root("counter", Counter.class);
            onThreads(() -> {
                Transaction.run(() -> {
                    counter.starts++;
                });
                return null;
            });
            assertEquals(THREADS * TRANSACTIONS, counter.starts, "J3.2: updates are lost");
        }
    }

    /// J3: with the weaker level, the program takes a lock before it reads.
    @Test
    void explicitLocksLoseNoUpdate() throws Exception {
        StoreOptions options = new StoreOptions().isolation(Isolation.READ_UNCOMMITTED);
        try (Store store = Store.open(folder, options)) {
            store.setRoot("counter", new Counter());
            Counter counter = store.root("counter", Counter.class);
            onThreads(() -> {
                Transaction.run(() -> {
                    RwLock.acquireWrite(counter);
                    counter.starts++;
                });
                return null;
            });
            assertEquals(THREADS * TRANSACTIONS, counter.starts, "J3: updates are lost");
        }
    }
}
