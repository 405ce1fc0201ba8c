package cedrat.persist.woven.record;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cedrat.persist.MemoryGraph;
import cedrat.persist.RwLock;
import cedrat.persist.Store;
import cedrat.persist.StoreException;
import cedrat.persist.StoreOptions;
import cedrat.persist.StoreOptions.Durability;
import cedrat.persist.Transaction;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.FutureTask;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/// When commits return, as each transaction says it.
class CommitAsyncTest {
    private static final class Counter {
        int value;
    }

    private final MemoryGraph graph = new MemoryGraph();
    private final Counter counter = new Counter();
    private Store store;

    @BeforeEach
    void open() {
        store = Store.open(graph.open(), new StoreOptions());
        store.setRoot("counter", counter);
    }

    @AfterEach
    void close() {
        store.close();
    }

    /// J9f: a virtual thread gets the exception that a platform thread gets.
    @Test
    void failedWaitThrowsAlikeOnVirtualThreads() throws Exception {
        for (Throwable failure : List.of(new OutOfMemoryError("planted"), new IllegalArgumentException("planted"))) {
            for (Thread.Builder builder : List.of(Thread.ofPlatform(), Thread.ofVirtual())) {
                graph.beforeWait(() -> throwIt(failure));
                FutureTask<Throwable> task = new FutureTask<>(() -> assertThrows(
                        Throwable.class,
                        () -> Transaction.run(() -> {
                            counter.value++;
                        })));
                builder.start(task);
                assertSame(failure, task.get());
            }
        }
    }

    private static void throwIt(Throwable failure) {
        if (failure instanceof Error error) {
            throw error;
        }
        throw (RuntimeException) failure;
    }

    private CompletableFuture<Void> count() {
        try (var transaction = Transaction.begin()) {
            RwLock.acquireWrite(counter);
            counter.value++;
            return transaction.commitAsync();
        }
    }

    /// Keeps back the thread that waits for all commits, from its next one on.
    private CountDownLatch holdNextWait() {
        CountDownLatch go = new CountDownLatch(1);
        graph.beforeWait(() -> {
            try {
                go.await();
            } catch (InterruptedException e) {
                throw new AssertionError(e);
            }
        });
        return go;
    }

    private void countAndWait() {
        Transaction.run(() -> {
            RwLock.acquireWrite(counter);
            counter.value++;
        });
    }

    /// J9.
    @Test
    void commitIsWaitedForLater() {
        CountDownLatch go = holdNextWait();
        CompletableFuture<Void> first = count();
        CompletableFuture<Void> second = count();
        assertEquals(2, counter.value);
        assertFalse(first.isDone());
        assertFalse(second.isDone());
        assertTrue(graph.durable() < graph.lsn() - 1);
        go.countDown();
        first.join();
        second.join();
        assertEquals(graph.lsn(), graph.durable());
        int waits = graph.waits();
        countAndWait();
        assertEquals(waits + 1, graph.waits());
    }

    /// J9.
    @Test
    void storeOfAsynchronousCommitsIsWaitedFor() {
        store.close();
        store = Store.open(graph.open(), new StoreOptions().durability(Durability.ASYNC));
        Counter again = store.root("counter", Counter.class);
        try (var transaction = Transaction.begin()) {
            again.value++;
            transaction.commitAsync().join();
        }
        assertEquals(graph.lsn(), graph.durable());
    }

    /// It may lead to what it has read.
    @Test
    void unchangedTransactionIsWaitedForToo() {
        CountDownLatch go = holdNextWait();
        CompletableFuture<Void> before = count();
        try (var transaction = Transaction.begin()) {
            assertTrue(transaction.commitAsync().isDone(), "it has looked at nothing under a lock");
        }
        CompletableFuture<Void> reader;
        try (var transaction = Transaction.begin()) {
            RwLock.acquireRead(counter);
            reader = transaction.commitAsync();
        }
        assertFalse(before.isDone());
        assertFalse(reader.isDone());
        go.countDown();
        reader.join();
        before.join();
    }

    @Test
    void nestedTransactionRefuses() {
        Transaction.run(() -> {
            try (var nested = Transaction.begin()) {
                assertThrows(IllegalStateException.class, nested::commitAsync);
                assertTrue(nested.isOpen());
            }
        });
    }

    /// J9: a store's own lists do not belong to the transaction that waits.
    @Test
    void waitsInAnotherTransactionLeaveNothingThere() {
        CompletableFuture<Void> durable = count();
        try (var transaction = Transaction.begin()) {
            durable.join();
            assertTrue(durable.isDone());
            assertEquals(0, transaction.undoSize());
        }
    }

    /// J9: what depends on a commit may wait for another one, and so not run on the thread that waits for all.
    @Test
    void dependentActionMayWaitForAnotherCommit() {
        CompletableFuture<Void> both = count().thenRun(() -> count().join());
        both.join();
        assertEquals(2, counter.value);
        assertEquals(graph.lsn(), graph.durable());
    }

    private static <E extends Exception> E failure(Class<E> type, CompletableFuture<Void> durable) {
        return assertInstanceOf(
                type, assertThrows(CompletionException.class, durable::join).getCause());
    }

    @Test
    void failedSyncIsReported() {
        CountDownLatch go = holdNextWait();
        CompletableFuture<Void> durable = count();
        graph.refuseSyncs();
        go.countDown();
        failure(StoreException.class, durable);
        assertTrue(store.failure().isPresent());
    }

    /// J9d.
    @Test
    void ordinaryObjectsWaitForNoStore() {
        CountDownLatch go = holdNextWait();
        CompletableFuture<Void> before = count();
        Counter ordinary = new Counter();
        Transaction.run(() -> {
            RwLock.acquireRead(this);
            ordinary.value++;
        });
        assertEquals(1, ordinary.value);
        assertFalse(before.isDone());
        go.countDown();
        before.join();
    }

    /// J9e: the store is closed between a commit and its wait.
    @Test
    void closingMakesCommitsDurable() {
        graph.beforeWait(store::close);
        countAndWait();
        store = Store.open(graph.open(), new StoreOptions());
        Counter again = store.root("counter", Counter.class);
        assertEquals(1, again.value);
        graph.beforeWait(store::close);
        try (var transaction = Transaction.begin()) {
            again.value++;
            transaction.commitAsync().join();
        }
    }

    /// J9e.
    @Test
    void failedClosingIsReported() {
        CountDownLatch go = holdNextWait();
        CompletableFuture<Void> durable = count();
        graph.refuseClosing();
        assertThrows(StoreException.class, store::close);
        go.countDown();
        failure(IllegalStateException.class, durable);
    }

    /// J9f.
    @Test
    void virtualThreadsKeepNoCarrier() throws Exception {
        try (var threads = Executors.newVirtualThreadPerTaskExecutor()) {
            List<Future<?>> commits = new ArrayList<>();
            for (int i = 0; i < 50; i++) {
                commits.add(threads.submit(this::countAndWait));
            }
            for (Future<?> commit : commits) {
                commit.get();
            }
            assertEquals(50, counter.value);
            assertEquals(graph.lsn(), graph.durable());
            graph.refuseSyncs();
            Future<?> refused = threads.submit(this::countAndWait);
            assertInstanceOf(
                    StoreException.class,
                    assertThrows(ExecutionException.class, refused::get).getCause());
        }
    }
}
