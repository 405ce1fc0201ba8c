package cedrat.persist.woven.store;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertSame;

import cedrat.persist.RwLock;
import cedrat.persist.Transaction;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Test;

/// A persistent object is loaded when a reference to it is followed, once, though other threads load too.
class LoadingTest extends StoreFixture {
    private record Pair(Object left, Object right) {}

    @Test
    void listOfMillionIsStoredAndRead() {
        int length = 1_000_000;
        Node first = null;
        for (int i = 0; i < length; i++) {
            first = new Node(i, first);
        }
        store.setRoot("first", first);
        reopen();
        Node node = store.root("first", Node.class);
        for (int i = length - 1; i >= 0; i--) {
            assertEquals(i, node.value);
            node = node.next;
        }
        assertNull(node);
    }

    @Test
    void followedReferenceReadsItsObject() {
        store.setRoot("node", new Node(1, new Node(2, new Node(3, null))));
        reopen();
        long before = graph.reads();
        Node node = store.root("node", Node.class);
        assertEquals(1, graph.reads() - before);
        assertEquals(2, node.next.value);
        assertEquals(2, graph.reads() - before);
        assertSame(node.next, node.next);
        assertEquals(2, graph.reads() - before);
    }

    /// A field that was pending, was set to null, and comes back by a rollback.
    @Test
    void rollbackRestoresOverwrittenPendingField() {
        store.setRoot("node", new Node(1, new Node(2, null)));
        reopen();
        Node node = store.root("node", Node.class);
        try (var transaction = Transaction.begin()) {
            node.next = null;
            assertNull(node.next);
            transaction.rollback();
        }
        assertEquals(2, node.next.value);
        Transaction.run(() -> {
            node.next = null;
        });
        assertNull(node.next);
        reopen();
        Node again = store.root("node", Node.class);
        assertNull(again.next);
    }

    @Test
    void twoThreadsLoadTheSameObject() throws Exception {
        int length = 2_000;
        Node first = null;
        for (int i = 0; i < length; i++) {
            first = new Node(i, first);
        }
        store.setRoot("first", new Object[] {first});
        reopen();
        Node[][] seen = new Node[2][length];
        CyclicBarrier start = new CyclicBarrier(2);
        Thread[] threads = new Thread[2];
        for (int t = 0; t < 2; t++) {
            Node[] mine = seen[t];
            threads[t] = new Thread(() -> {
                try {
                    start.await();
                } catch (Exception e) {
                    throw new AssertionError(e);
                }
                Node node = (Node) store.root("first", Object[].class)[0];
                for (int i = 0; i < length; i++) {
                    mine[i] = node;
                    node = node.next;
                }
            });
            threads[t].start();
        }
        for (Thread thread : threads) {
            thread.join();
        }
        for (int i = 0; i < length; i++) {
            assertNotNull(seen[0][i]);
            assertSame(seen[0][i], seen[1][i]);
        }
    }

    /// J7: each thread follows references of its own to the same texts.
    @Test
    void twoThreadsLoadTheSameString() throws Exception {
        int length = 2_000;
        Pair[][] pairs = new Pair[2][length];
        for (int i = 0; i < length; i++) {
            String text = "text " + i;
            pairs[0][i] = new Pair(text, null);
            pairs[1][i] = new Pair(text, null);
        }
        store.setRoot("pairs", pairs);
        reopen();
        Pair[][] found = store.root("pairs", Pair[][].class);
        CyclicBarrier start = new CyclicBarrier(2);
        Thread[] threads = new Thread[2];
        for (int t = 0; t < 2; t++) {
            Pair[] mine = found[t];
            threads[t] = new Thread(() -> {
                try {
                    start.await();
                } catch (Exception e) {
                    throw new AssertionError(e);
                }
                for (Pair pair : mine) {
                    assertNotNull(pair.left);
                }
            });
            threads[t].start();
        }
        for (Thread thread : threads) {
            thread.join();
        }
        for (int i = 0; i < length; i++) {
            assertEquals("text " + i, found[0][i].left);
            assertSame(found[0][i].left, found[1][i].left);
        }
    }

    private static final class Table {
        int[][] rows = new int[300][2];
    }

    /// J1.1: of two threads one loads arrays, and the other one finds them, sooner or later.
    @Test
    void objectLoadedByOtherThreadIsPersistent() throws Exception {
        Table[] tables = new Table[100];
        for (int i = 0; i < tables.length; i++) {
            tables[i] = new Table();
        }
        store.setRoot("tables", tables);
        reopen();
        Table[] found = store.root("tables", Table[].class);
        AtomicInteger arrived = new AtomicInteger();
        Thread[] threads = new Thread[2];
        for (int t = 0; t < 2; t++) {
            int column = t;
            threads[t] = new Thread(() -> {
                for (int i = 0; i < found.length; i++) {
                    arrived.incrementAndGet();
                    while (arrived.get() < 2 * (i + 1)) {
                        Thread.onSpinWait();
                    }
                    for (int late = 0; late < column * i * 100; late++) {
                        Thread.onSpinWait();
                    }
                    int[][] rows = found[i].rows;
                    Transaction.run(() -> {
                        for (int[] row : rows) {
                            row[column] = 1;
                        }
                    });
                }
            });
            threads[t].start();
        }
        for (Thread thread : threads) {
            thread.join();
        }
        reopen();
        for (Table table : store.root("tables", Table[].class)) {
            for (int[] row : table.rows) {
                assertArrayEquals(new int[] {1, 1}, row);
            }
        }
    }

    private static final class Name {
        static boolean isLockedToHash;

        private final String text;

        Name(String text) {
            this.text = text;
        }

        @Override
        public int hashCode() {
            if (isLockedToHash) {
                RwLock.acquireRead(this);
            }
            return text.hashCode();
        }

        @Override
        public boolean equals(Object other) {
            return other instanceof Name name && name.text.equals(text);
        }
    }

    /// The store fills the map by the program's `hashCode`: that is no change of the transaction that reads it.
    @Test
    void lockDuringMapLoadEndsNothing() {
        Map<Name, Integer> names = new HashMap<>();
        for (int i = 0; i < 10; i++) {
            names.put(new Name("name " + i), i);
        }
        store.setRoot("names", new Object[] {new Pair(names, null)});
        reopen();
        Object[] found = store.root("names", Object[].class);
        Map<?, ?> map;
        Name.isLockedToHash = true;
        try (var transaction = Transaction.begin()) {
            map = (Map<?, ?>) ((Pair) found[0]).left;
            assertEquals(10, map.size());
            assertEquals(0, transaction.undoSize());
        }
        Name.isLockedToHash = false;
        assertEquals(names, map);
    }
}
