package cedrat.persist.woven.record;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;

import cedrat.persist.MemoryGraph;
import cedrat.persist.Store;
import cedrat.persist.StoreOptions;
import cedrat.persist.Transaction;
import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandles;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/// Changes that no barrier sees, and the program tells of (J026).
class TouchedTest {
    private static final class Node {
        int value;
        Node next;
        int[] numbers = {1, 2, 3};
    }

    private static final MethodHandle VALUE = setter("value", int.class);
    private static final MethodHandle NEXT = setter("next", Node.class);
    private static final MethodHandle ELEMENT = MethodHandles.arrayElementSetter(int[].class);

    private final MemoryGraph graph = new MemoryGraph();
    private Store store;

    private static MethodHandle setter(String name, Class<?> type) {
        try {
            return MethodHandles.lookup().findSetter(Node.class, name, type);
        } catch (ReflectiveOperationException e) {
            throw new AssertionError(e);
        }
    }

    @BeforeEach
    void open() {
        store = Store.open(graph.open(), new StoreOptions());
    }

    @AfterEach
    void close() {
        store.close();
    }

    private Node reopened() {
        store.close();
        open();
        return store.root("node", Object.class);
    }

    private static void change(Node node, int value) {
        try {
            VALUE.invokeExact(node, value);
            NEXT.invokeExact(node, (Node) null);
            ELEMENT.invokeExact(node.numbers, 1, value);
        } catch (Throwable e) {
            throw new AssertionError(e);
        }
    }

    private void mark() {
        Node node = new Node();
        node.value = 1;
        node.next = new Node();
        node.next.value = 2;
        store.setRoot("node", node);
    }

    @Test
    void aCommitStoresThem() {
        mark();
        Node node = reopened();
        Transaction.run(() -> {
            Store.touched(node);
            Store.touched(node.numbers);
            change(node, 7);
        });
        Node again = reopened();
        assertEquals(7, again.value);
        assertNull(again.next);
        assertArrayEquals(new int[] {1, 7, 3}, again.numbers);
    }

    @Test
    void aRollbackRestoresThem() {
        mark();
        Node node = reopened();
        try (var transaction = Transaction.begin()) {
            Store.touched(node);
            Store.touched(node.numbers);
            change(node, 7);
            transaction.rollback();
        }
        assertEquals(1, node.value);
        assertEquals(2, node.next.value);
        assertArrayEquals(new int[] {1, 2, 3}, node.numbers);
        Transaction.run(() -> {
            node.value++;
        });
        Node again = reopened();
        assertEquals(2, again.value);
        assertEquals(2, again.next.value);
        assertArrayEquals(new int[] {1, 2, 3}, again.numbers);
    }

    @Test
    void touchedOrdinaryObjectIsRestored() {
        Node node = new Node();
        try (var transaction = Transaction.begin()) {
            Store.touched(node);
            change(node, 7);
            transaction.rollback();
        }
        assertEquals(0, node.value);
    }

    @Test
    void theyBelongToATransaction() {
        Node node = new Node();
        assertThrows(IllegalStateException.class, () -> Store.touched(node));
        AtomicInteger number = new AtomicInteger();
        Transaction.run(() -> assertThrows(UnsupportedOperationException.class, () -> Store.touched(number)));
    }
}
