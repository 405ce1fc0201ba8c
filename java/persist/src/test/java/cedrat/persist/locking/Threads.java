package cedrat.persist.locking;

import static org.junit.jupiter.api.Assertions.assertFalse;

import cedrat.persist.Elsewhere;
import cedrat.persist.MemoryGraph;
import cedrat.persist.Store;
import cedrat.persist.StoreOptions;
import cedrat.persist.StoreOptions.Isolation;
import java.util.concurrent.Callable;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.locks.LockSupport;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Timeout;

/// A store, and threads whose steps follow each other in an order that the test says.
@Timeout(60)
abstract class Threads {
    private final MemoryGraph graph = new MemoryGraph();
    private final ExecutorService threads =
            Executors.newThreadPerTaskExecutor(Thread.ofPlatform().daemon().factory());
    Store store;

    @AfterEach
    void end() {
        threads.shutdownNow();
        store.close();
    }

    /// Opens the store, in which nothing is loaded yet.
    void open(Isolation isolation) {
        if (store != null) {
            store.close();
        }
        store = Store.open(graph.open(), new StoreOptions().isolation(isolation));
    }

    /// Starts `work`, and returns when its thread waits for a lock.
    <T> Future<T> startAndWait(Callable<T> work) {
        Thread[] started = new Thread[1];
        CountDownLatch isStarted = new CountDownLatch(1);
        Future<T> future = Elsewhere.submit(threads, () -> {
            started[0] = Thread.currentThread();
            isStarted.countDown();
            return work.call();
        });
        try {
            isStarted.await();
        } catch (InterruptedException e) {
            throw new AssertionError(e);
        }
        while (!waitsForALock(started[0]) && !future.isDone()) {
            Thread.onSpinWait();
        }
        assertFalse(future.isDone(), "it should wait");
        return future;
    }

    static boolean waitsForALock(Thread thread) {
        return String.valueOf(LockSupport.getBlocker(thread)).startsWith("cedrat.persist.lock.Locks");
    }

    <T> Future<T> start(Callable<T> work) {
        return Elsewhere.submit(threads, work);
    }

    <T> T elsewhere(Callable<T> work) throws Exception {
        return start(work).get();
    }
}
