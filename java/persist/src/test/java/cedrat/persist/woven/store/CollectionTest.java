package cedrat.persist.woven.store;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertSame;

import cedrat.persist.MemoryGraph;
import cedrat.persist.Store;
import cedrat.persist.StoreOptions;
import cedrat.persist.Transaction;
import org.junit.jupiter.api.Test;

/// J8: unreachable objects are removed from the store, and nothing else.
class CollectionTest {
    private static final int LENGTH = 50;

    private static final class Node {
        int value;
        int[] numbers = {1, 2, 3};
        Node next;

        Node(int value, Node next) {
            this.value = value;
            this.next = next;
        }
    }

    private final MemoryGraph graph = new MemoryGraph();

    CollectionTest() {
        try (Store store = open()) {
            Node first = null;
            for (int i = LENGTH - 1; i >= 0; i--) {
                first = new Node(i, first);
            }
            store.setRoot("first", first);
        }
    }

    private Store open() {
        return Store.open(graph.open(), new StoreOptions());
    }

    private static int length(Node first) {
        int length = 0;
        for (Node node = first; node != null; node = node.next) {
            assertEquals(length++, node.value);
            assertEquals(3, node.numbers.length);
        }
        return length;
    }

    /// J8.
    @Test
    void unreachableObjectsAreRemoved() {
        assertEquals(2 * LENGTH, graph.size());
        try (Store store = open()) {
            assertEquals(0, store.collect());
            Node first = store.root("first", Node.class);
            Transaction.run(() -> first.next = null);
        }
        try (Store store = open()) {
            assertEquals(2 * (LENGTH - 1), store.collect());
            assertEquals(2, graph.size());
            assertEquals(1, length(store.root("first", Object.class)));
            store.removeRoot("first");
        }
        try (Store store = open()) {
            assertEquals(2, store.collect());
            assertNull(store.root("first", Object.class));
        }
        assertEquals(0, graph.size());
    }

    /// J8.
    @Test
    void heldObjectsStayWithReferencedOnes() {
        try (Store store = open()) {
            Node first = store.root("first", Node.class);
            Node second = first.next;
            Transaction.run(() -> first.next = null);
            assertEquals(0, store.collect());
            Transaction.run(() -> first.next = second);
        }
        try (Store store = open()) {
            Node first = store.root("first", Node.class);
            assertEquals(LENGTH, length(first));
            assertSame(first.next, first.next);
            assertEquals(0, store.collect());
        }
    }

    /// J8.
    @Test
    void objectRemovedAndPutBackStays() {
        try (Store store = open()) {
            Node first = store.root("first", Node.class);
            try (var transaction = Transaction.begin()) {
                first.next = null;
                assertEquals(0, store.collect());
                transaction.rollback();
            }
            assertEquals(0, store.collect());
            assertEquals(LENGTH, length(first));
        }
    }
}
