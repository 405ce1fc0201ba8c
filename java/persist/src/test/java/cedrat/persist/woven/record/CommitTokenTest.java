package cedrat.persist.woven.record;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cedrat.persist.CommitToken;
import cedrat.persist.MemoryGraph;
import cedrat.persist.Persistence;
import cedrat.persist.PersistenceException;
import cedrat.persist.PersistenceOptions;
import cedrat.persist.PersistenceOptions.Durability;
import cedrat.persist.RwLock;
import cedrat.persist.Transaction;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/// When commits return, as each transaction says it.
class CommitTokenTest {
    private static final class Counter {
        int value;
    }

    private final MemoryGraph graph = new MemoryGraph();
    private final Counter counter = new Counter();
    private Persistence store;

    @BeforeEach
    void open() {
        store = Persistence.open(graph.open(), new PersistenceOptions());
        store.mark("counter", counter);
    }

    @AfterEach
    void close() {
        store.close();
    }

    private CommitToken count(Durability durability) {
        try (var transaction = Transaction.begin()) {
            RwLock.acquireWrite(counter);
            counter.value++;
            return transaction.commit(durability);
        }
    }

    /// J9.
    @Test
    void aTokenIsWaitedForLater() {
        CommitToken first = count(Durability.ASYNC);
        CommitToken second = count(Durability.ASYNC);
        CommitToken third = count(Durability.ASYNC);
        assertFalse(first.isDurable());
        assertTrue(graph.durable() < graph.lsn() - 1);
        second.await();
        assertEquals(graph.lsn() - 1, graph.durable());
        int waits = graph.waits();
        first.await();
        assertEquals(waits, graph.waits());
        assertTrue(first.isDurable());
        assertTrue(second.isDurable());
        assertFalse(third.isDurable());
        third.await();
        third.await();
        assertTrue(third.isDurable());
    }

    /// J9.
    @Test
    void transactionOptionOverridesStoreOption() {
        store.close();
        store = Persistence.open(graph.open(), new PersistenceOptions().durability(Durability.ASYNC));
        Counter again = store.lookup("counter");
        try (var transaction = Transaction.begin()) {
            again.value++;
            CommitToken token = transaction.commit(Durability.SYNC);
            assertTrue(token.isDurable());
        }
        assertEquals(graph.lsn(), graph.durable());
    }

    /// It may lead to what it has read.
    @Test
    void unchangedTransactionHasATokenToo() {
        CommitToken before = count(Durability.ASYNC);
        try (var transaction = Transaction.begin()) {
            assertTrue(transaction.commit(Durability.ASYNC).isDurable(), "it has looked at nothing under a lock");
        }
        assertFalse(before.isDurable());
        try (var transaction = Transaction.begin()) {
            RwLock.acquireRead(counter);
            CommitToken token = transaction.commit(Durability.ASYNC);
            assertFalse(token.isDurable());
            token.await();
        }
        assertTrue(before.isDurable());
    }

    @Test
    void aNestedOneHasNone() {
        Transaction.run(() -> {
            try (var nested = Transaction.begin()) {
                assertThrows(IllegalStateException.class, () -> nested.commit(Durability.ASYNC));
                assertTrue(nested.isOpen());
            }
        });
    }

    /// J9: a store's own lists do not belong to the transaction that waits.
    @Test
    void waitsInAnotherTransactionLeaveNothingThere() {
        CommitToken token = count(Durability.ASYNC);
        try (var transaction = Transaction.begin()) {
            token.await();
            assertTrue(token.isDurable());
            assertEquals(0, transaction.undoSize());
        }
    }

    @Test
    void failedSyncIsReported() {
        CommitToken token = count(Durability.ASYNC);
        graph.refuseSyncs();
        assertThrows(PersistenceException.class, token::await);
        assertThrows(PersistenceException.class, token::isDurable);
    }

    /// J9d.
    @Test
    void ordinaryObjectsWaitForNoStore() {
        CommitToken before = count(Durability.ASYNC);
        Counter ordinary = new Counter();
        graph.refuseSyncs();
        Transaction.run(() -> {
            RwLock.acquireRead(this);
            ordinary.value++;
        });
        assertEquals(1, ordinary.value);
        assertFalse(before.isDurable());
    }

    /// J9e: the store is closed between a commit and its wait.
    @Test
    void closingMakesCommitsDurable() {
        CommitToken token = count(Durability.ASYNC);
        graph.beforeWait(store::close);
        assertTrue(count(Durability.SYNC).isDurable());
        token.await();
        assertTrue(token.isDurable());
    }

    /// J9e.
    @Test
    void failedClosingIsReported() {
        CommitToken token = count(Durability.ASYNC);
        graph.refuseClosing();
        for (int closing = 0; closing < 2; closing++) {
            if (closing == 0) {
                assertThrows(PersistenceException.class, store::close);
            } else {
                store.close();
            }
            assertThrows(IllegalStateException.class, token::await);
            assertThrows(IllegalStateException.class, token::isDurable);
        }
    }

    /// J9f.
    @Test
    void virtualThreadsKeepNoCarrier() throws Exception {
        try (var threads = Executors.newVirtualThreadPerTaskExecutor()) {
            List<Future<CommitToken>> tokens = new ArrayList<>();
            for (int i = 0; i < 50; i++) {
                tokens.add(threads.submit(() -> count(Durability.SYNC)));
            }
            for (Future<CommitToken> token : tokens) {
                assertTrue(token.get().isDurable());
            }
            assertEquals(50, counter.value);
            graph.refuseSyncs();
            Future<CommitToken> refused = threads.submit(() -> count(Durability.SYNC));
            assertInstanceOf(
                    PersistenceException.class,
                    assertThrows(ExecutionException.class, refused::get).getCause());
        }
    }
}
