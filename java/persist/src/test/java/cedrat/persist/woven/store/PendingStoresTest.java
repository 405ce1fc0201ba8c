package cedrat.persist.woven.store;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cedrat.persist.Transaction;
import cedrat.persist.record.TestStore;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.lang.reflect.Field;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.atomic.AtomicReferenceFieldUpdater;
import java.util.function.Consumer;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

/// J1, J2: stores to references that are pending, and stores outside of transactions.
class PendingStoresTest {
    private static class Node {
        volatile Node next;
        String text;
        int count;
        long size;
    }

    private static Node initialised;

    private static final class Initialised {
        static int count;

        static {
            initialised.count = 1;
        }
    }

    private static final VarHandle NEXT;

    static {
        try {
            NEXT = MethodHandles.lookup().findVarHandle(Node.class, "next", Node.class);
        } catch (ReflectiveOperationException e) {
            throw new ExceptionInInitializerError(e);
        }
    }

    private final TestStore store = new TestStore();
    private final Node node = store.add(new Node());
    private final Node next = new Node();
    private final Node other = new Node();

    @AfterEach
    void close() {
        store.close();
    }

    private void letGo() {
        store.letGo(node, "next");
        store.pend(node, "next", next);
        store.letGo(node, "text");
        store.pend(node, "text", "text");
        store.takeReads();
    }

    /// Not null, and not pending either.
    private void assertRestored() {
        assertFalse(store.isPending(node, "next"));
        store.takeReads();
        assertSame(next, node.next);
        assertTrue(store.takeReads().isEmpty());
    }

    private void assertRestores(Consumer<Node> change) {
        letGo();
        try (var transaction = Transaction.begin()) {
            change.accept(node);
            assertSame(other, node.next);
            transaction.rollback();
        }
        assertRestored();
        letGo();
        assertThrows(
                ArithmeticException.class,
                () -> Transaction.run(() -> {
                    change.accept(node);
                    throw new ArithmeticException();
                }));
        assertRestored();
        letGo();
        assertEquals(1, Transaction.<Integer, RuntimeException>call(transaction -> {
            change.accept(node);
            transaction.rollback();
            return 1;
        }));
        assertRestored();
        letGo();
        try (var outer = Transaction.begin()) {
            try (var inner = Transaction.begin()) {
                change.accept(node);
                inner.rollback();
            }
            assertSame(next, node.next);
            try (var inner = Transaction.begin()) {
                change.accept(node);
                inner.commit();
            }
            outer.rollback();
        }
        assertRestored();
        letGo();
        Transaction.run(() -> change.accept(node));
        assertSame(other, node.next);
    }

    /// J1.
    @Test
    void assignmentLoadsTheValueToRestore() {
        assertRestores(changed -> changed.next = other);
    }

    @Test
    void onlyTheAssignedFieldIsLoaded() {
        letGo();
        try (var transaction = Transaction.begin()) {
            node.next = other;
            node.next = null;
            node.count++;
            assertEquals(List.of("next"), store.takeReads());
            assertTrue(store.isPending(node, "text"));
            assertNull(node.next);
            transaction.rollback();
        }
        assertRestored();
        assertTrue(store.isPending(node, "text"));
    }

    /// J1.
    @Test
    void storesByHandlesAndReflectionLoadToo() throws ReflectiveOperationException {
        assertRestores(changed -> NEXT.set(changed, other));
        assertRestores(changed -> NEXT.compareAndSet(changed, next, other));
        assertRestores(changed -> NEXT.getAndSet(changed, other));
        var updater = AtomicReferenceFieldUpdater.newUpdater(Node.class, Node.class, "next");
        assertRestores(changed -> updater.set(changed, other));
        assertRestores(changed -> updater.compareAndSet(changed, next, other));
        Field field = Node.class.getDeclaredField("next");
        assertRestores(changed -> {
            try {
                field.set(changed, other);
            } catch (IllegalAccessException e) {
                throw new AssertionError(e);
            }
        });
    }

    @Test
    void rollbackRestoresNoIdentity() {
        letGo();
        Node made = new Node();
        try (var transaction = Transaction.begin()) {
            NEXT.set(node, other);
            store.remove(node);
            NEXT.set(made, other);
            transaction.rollback();
        }
        store.takeReads();
        node.text = null;
        assertNull(node.text);
        assertTrue(store.takeReads().isEmpty());
    }

    /// J2
    @Test
    void storesOutsideOfTransactionsAreRefused() throws ReflectiveOperationException {
        Field text = Node.class.getDeclaredField("text");
        List<Runnable> stores = List.of(
                () -> node.count = 1,
                () -> node.size++,
                () -> node.text = "other",
                () -> node.next = other,
                () -> NEXT.set(node, other),
                () -> {
                    try {
                        text.set(node, "other");
                    } catch (IllegalAccessException e) {
                        throw new AssertionError(e);
                    }
                });
        for (Runnable one : stores) {
            var thrown = assertThrows(IllegalStateException.class, one::run);
            assertTrue(thrown.getMessage().contains("within a transaction"), thrown.getMessage());
        }
        assertEquals(0, node.count + node.size);
        assertNull(node.text);
        assertNull(node.next);
        other.count = 1;
        Transaction.run(() -> stores.forEach(Runnable::run));
        assertEquals(1, node.count);
        try (TestStore another = new TestStore()) {
            store.close();
            node.count = 2;
            another.takeReads();
        }
        node.count = 3;
    }

    /// J2: it belongs to no transaction.
    @Test
    void storesOfAClassInitialiserAreRefused() {
        initialised = node;
        try (var transaction = Transaction.begin()) {
            var thrown = assertThrows(ExceptionInInitializerError.class, () -> Initialised.count++);
            assertTrue(thrown.getCause() instanceof IllegalStateException, "" + thrown.getCause());
            transaction.rollback();
        }
        assertEquals(0, node.count);
    }

    /// J2
    @Test
    void whileATransactionOfAnotherThreadLives() throws InterruptedException {
        List<Throwable> thrown = new ArrayList<>();
        Thread thread;
        try (var transaction = Transaction.begin()) {
            other.count = 5;
            thread = Thread.ofVirtual().start(() -> {
                try {
                    next.count = 1;
                    node.count = 1;
                } catch (IllegalStateException e) {
                    thrown.add(e);
                }
            });
            thread.join();
            transaction.commit();
        }
        assertEquals(1, next.count);
        assertEquals(1, thrown.size());
        assertEquals(0, node.count);
    }
}
