package cedrat.persist.woven.store;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNotSame;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cedrat.persist.MemoryGraph;
import cedrat.persist.Store;
import cedrat.persist.StoreException;
import cedrat.persist.StoreOptions;
import cedrat.persist.Transaction;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/// Objects that outlive the opening of the store that they were made in.
class StoreTest extends StoreFixture {
    private record Pair(Object left, Object right) {}

    private static class Base {
        boolean bool;
        byte tiny;
        short small;
        Object any;
    }

    private static final class Everything extends Base {
        char character;
        int number;
        long big;
        float real;
        double exact;
        String text;
        int[] numbers;
        Everything next;
        /// Hides that of the superclass.
        Object any;

        transient int scratch;
        final int fixed;

        Everything(int fixed) {
            this.fixed = fixed;
        }

        void fill(int seed) {
            bool = (seed & 1) == 0;
            tiny = (byte) (seed * 3);
            small = (short) (seed * 5);
            character = (char) ('a' + seed);
            number = seed * 7;
            big = seed * 11L << 33;
            real = seed / 3f;
            exact = seed / 7.0;
            text = "text " + seed;
            numbers = new int[] {seed, -seed};
            any = seed;
            super.any = TimeUnit.values()[seed % 7];
            scratch = seed;
        }

        String show() {
            return bool + " " + tiny + " " + small + " " + character + " " + number + " " + big + " " + real + " "
                    + exact + " " + text + " " + java.util.Arrays.toString(numbers) + " " + any + " " + super.any + " "
                    + fixed;
        }
    }

    @Test
    void fieldsOfEachTypeComeBack() {
        Everything everything = new Everything(17);
        everything.fill(5);
        everything.next = new Everything(18);
        String before = everything.show();
        assertTrue(store.isNew());
        assertTrue(store.setRoot("everything", everything));
        reopen();
        assertFalse(store.isNew());
        Everything found = store.root("everything", Everything.class);
        assertNotSame(everything, found);
        assertEquals(before, found.show());
        assertEquals(18, found.next.fixed);
        assertEquals(0, found.scratch);
        assertNull(found.next.next);
        assertSame(found, store.root("everything", Object.class));
    }

    @Test
    void rootOfOtherClassIsRefused() {
        store.setRoot("node", new Node(1, null));
        Node node = store.root("node", Object.class);
        assertEquals(1, node.value);
        StoreException thrown = assertThrows(StoreException.class, () -> store.root("node", Everything.class));
        assertEquals(
                "the root node is a " + Node.class.getName() + ", not a " + Everything.class.getName()
                        + ": ask for that class or one that it extends",
                thrown.getMessage());
        assertThrows(StoreException.class, () -> store.root("node", Map.class, HashMap::new));
    }

    /// All threads that find no root receive the same new one.
    @ParameterizedTest
    @EnumSource
    void missingRootIsMadeOnce(StoreOptions.Isolation isolation) throws Exception {
        store.close();
        store = Store.open(graph.open(), new StoreOptions().isolation(isolation));
        for (int round = 0; round < 50; round++) {
            String name = "map " + round;
            CountDownLatch go = new CountDownLatch(1);
            List<Future<Map<String, Integer>>> found = new ArrayList<>();
            try (var threads = Executors.newFixedThreadPool(4)) {
                for (int thread = 0; thread < 4; thread++) {
                    boolean isOuter = thread % 2 == 0;
                    found.add(threads.submit(() -> {
                        go.await();
                        return isOuter
                                ? store.root(name, Map.class, HashMap::new)
                                : Transaction.call(() -> store.root(name, Map.class, HashMap::new));
                    }));
                }
                go.countDown();
            }
            Map<String, Integer> map = store.root(name, Map.class);
            for (Future<Map<String, Integer>> one : found) {
                assertSame(map, one.get());
            }
        }
    }

    @Test
    void newRootIsPartOfTransaction() {
        try (var transaction = Transaction.begin()) {
            Map<String, Integer> map = store.root("map", Map.class, HashMap::new);
            map.put("a", 1);
            assertSame(map, store.root("map", Map.class));
            transaction.rollback();
        }
        assertNull(store.root("map", Map.class));
        assertThrows(NullPointerException.class, () -> store.root("map", Map.class, () -> null));
        assertEquals(Set.of(), store.rootNames());
    }

    /// J9: what a transaction has changed, and its neighbours, are written.
    @Test
    void changesOfEachTypeComeBack() {
        Everything everything = new Everything(1);
        everything.fill(2);
        store.setRoot("everything", everything);
        for (int seed = 3; seed < 9; seed++) {
            Everything found = store.root("everything", Everything.class);
            try (var transaction = Transaction.begin()) {
                found.fill(seed);
                transaction.commit();
            }
            String before = found.show();
            reopen();
            found = store.root("everything", Object.class);
            assertEquals(before, found.show());
        }
    }

    /// J9.
    @Test
    void aFieldCostsFewBytes() {
        Everything everything = new Everything(1);
        everything.fill(2);
        store.setRoot("everything", everything);
        long before = graph.written();
        Transaction.run(() -> {
            everything.tiny++;
            everything.small++;
        });
        assertTrue(graph.written() - before <= 32, "bytes: " + (graph.written() - before));
        before = graph.written();
        Transaction.run(() -> {
            everything.number++;
        });
        Transaction.run(() -> assertNotNull(everything.text));
        assertEquals(32, graph.written() - before);
    }

    @Test
    void reachableObjectsBecomePersistentOnce() {
        Pair shared = new Pair("shared", 1);
        Pair pair = new Pair(shared, new Object[] {shared, "text", null, new int[] {1}, 1L << 60, 2.5, 0.1});
        store.setRoot("pair", pair);
        int size = graph.size();
        reopen();
        Pair found = store.root("pair", Pair.class);
        Object[] array = (Object[]) found.right;
        assertSame(found.left, array[0]);
        assertEquals("shared", ((Pair) array[0]).left);
        assertEquals("text", array[1]);
        assertNull(array[2]);
        assertArrayEquals(new int[] {1}, (int[]) array[3]);
        assertEquals(1L << 60, array[4]);
        assertEquals(2.5, array[5]);
        assertEquals(0.1, array[6]);
        assertEquals(new Pair("shared", 1), shared);
        store.setRoot("again", found.right);
        assertEquals(size, graph.size());
    }

    @Test
    void aCycleComesBack() {
        Node first = new Node(1, null);
        Object[] array = {first, null};
        array[1] = array;
        first.next = new Node(2, first);
        store.setRoot("first", first);
        store.setRoot("array", array);
        reopen();
        Object[] found = store.root("array", Object[].class);
        assertSame(found, found[1]);
        Node node = store.root("first", Node.class);
        assertSame(node, found[0]);
        assertSame(node, node.next.next);
    }

    @Test
    void aRollbackReachesNeitherMemoryNorStore() {
        Node node = new Node(1, null);
        store.setRoot("node", node);
        long before = graph.written();
        try (var transaction = Transaction.begin()) {
            node.value = 2;
            node.next = new Node(3, null);
            store.setRoot("node", new Node(4, null));
            store.setRoot("other", node);
            transaction.rollback();
        }
        assertEquals(before, graph.written());
        assertEquals(Set.of("node"), store.rootNames());
        assertSame(node, store.root("node", Object.class));
        assertNull(node.next);
        reopen();
        Node found = store.root("node", Node.class);
        assertEquals(1, found.value);
        assertNull(store.root("other", Object.class));
    }

    @Test
    void namesAreMarkedInTransactionsOrAlone() {
        Node one = new Node(1, null);
        assertTrue(store.setRoot("one", one));
        assertFalse(store.setRoot("one", one));
        try (var transaction = Transaction.begin()) {
            store.removeRoot("one");
            assertNull(store.root("one", Object.class));
            store.setRoot("two", new Node(2, one));
            transaction.commit();
        }
        assertEquals(Set.of("two"), store.rootNames());
        reopen();
        assertEquals(Set.of("two"), store.rootNames());
        Node two = store.root("two", Node.class);
        assertEquals(1, two.next.value);
        store.removeRoot("two");
        store.removeRoot("never");
        reopen();
        assertEquals(Set.of(), store.rootNames());
    }

    /// J2
    /// Persistent is what an object becomes, not where it lies: nothing is moved, and references go both ways.
    @Test
    void persistentObjectKeepsItsPlace() {
        Node node = new Node(1, null);
        Node other = new Node(2, node);
        store.setRoot("node", node);
        assertSame(node, store.root("node", Object.class));
        assertSame(node, other.next);
        other.value = 3;
        assertThrows(IllegalStateException.class, () -> node.value = 4);
        Transaction.run(() -> node.next = other);
        assertSame(other, store.root("node", Node.class).next);
        assertThrows(IllegalStateException.class, () -> other.value = 4);
    }

    /// J2, J3: what a collection is made of is the collection.
    @Test
    void collectionIsLockedAsAWhole() throws InterruptedException {
        Map<Integer, String> map = new HashMap<>(Map.of(1, "one", 2, "two"));
        store.setRoot("map", map);
        assertThrows(IllegalStateException.class, () -> map.replace(1, "ten"));
        assertThrows(
                IllegalStateException.class,
                () -> map.entrySet().iterator().next().setValue("ten"));
        CountDownLatch isChanged = new CountDownLatch(1);
        Thread other = new Thread(() -> {
            try {
                isChanged.await();
            } catch (InterruptedException e) {
                throw new AssertionError(e);
            }
            Transaction.run(() -> {
                map.replace(2, "twenty");
            });
        });
        other.start();
        try (var transaction = Transaction.begin()) {
            map.replace(1, "ten");
            isChanged.countDown();
            while (other.isAlive() && !waitsForALock(other)) {
                Thread.onSpinWait();
            }
            assertTrue(waitsForALock(other));
            assertEquals("two", map.get(2));
            transaction.commit();
        }
        other.join();
        reopen();
        assertEquals(Map.of(1, "ten", 2, "twenty"), store.root("map", Object.class));
    }

    private static boolean waitsForALock(Thread thread) {
        return String.valueOf(LockSupport.getBlocker(thread)).startsWith("cedrat.persist.lock.Locks");
    }

    @Test
    void onlyTheOutermostTransactionStores() {
        Node node = new Node(1, null);
        store.setRoot("node", node);
        long before = graph.written();
        try (var outer = Transaction.begin()) {
            try (var inner = Transaction.begin()) {
                node.next = new Node(2, null);
                inner.commit();
            }
            try (var inner = Transaction.begin()) {
                node.value = 7;
                store.setRoot("inner", node);
                inner.rollback();
            }
            assertEquals(before, graph.written());
            outer.commit();
        }
        assertTrue(graph.written() > before);
        reopen();
        Node found = store.root("node", Node.class);
        assertEquals(1, found.value);
        assertEquals(2, found.next.value);
        assertNull(store.root("inner", Object.class));
    }

    @Test
    void commitsWaitUnlessTheyAreNotTo() {
        Node node = new Node(1, null);
        store.setRoot("node", node);
        assertEquals(graph.lsn(), graph.durable());
        store.close();
        store = Store.open(graph.open(), new StoreOptions().durability(StoreOptions.Durability.ASYNC));
        store.setRoot("again", new Node(2, null));
        assertTrue(graph.lsn() > graph.durable());
    }

    /// A reference that is not loaded stays what it was when its object is changed.
    @Test
    void unloadedObjectsStay() {
        Everything everything = new Everything(1);
        everything.fill(2);
        everything.next = new Everything(3);
        String before = everything.next.show();
        store.setRoot("everything", everything);
        reopen();
        Everything found = store.root("everything", Everything.class);
        Transaction.run(() -> {
            found.text = null;
            found.any = new int[3];
        });
        reopen();
        Everything again = store.root("everything", Everything.class);
        assertNull(again.text);
        assertEquals(before, again.next.show());
        assertArrayEquals(new int[] {2, -2}, again.numbers);
    }

    @Test
    void constantsOfEnumsAreThemselves() {
        store.setRoot("pair", new Pair(TimeUnit.DAYS, Thread.State.NEW));
        reopen();
        Pair pair = store.root("pair", Pair.class);
        assertSame(TimeUnit.DAYS, pair.left);
        assertSame(Thread.State.NEW, pair.right);
        store.setRoot("unit", TimeUnit.HOURS);
        assertSame(TimeUnit.HOURS, store.root("unit", Object.class));
        reopen();
        assertSame(TimeUnit.HOURS, store.root("unit", Object.class));
    }

    @Test
    void stringsAreWhatTheyWere() {
        String[] texts = {"", "latin \u00ff", "\u0100 wide", "\ud83d\ude00", "\ud83d alone", "x".repeat(100_000)};
        store.setRoot("texts", texts);
        reopen();
        assertArrayEquals(texts, store.root("texts", String[].class));
    }

    @Test
    void arraysOfEachTypeChangeByElement() {
        Object[] arrays = {
            new boolean[] {true, false},
            new byte[] {1, -1},
            new char[] {'a', '\uffff'},
            new short[] {1, Short.MIN_VALUE},
            new int[] {1, Integer.MIN_VALUE},
            new long[] {1, Long.MIN_VALUE},
            new float[] {1, Float.NaN},
            new double[] {1, -0.0},
            new String[] {"a", null},
            new Object[0],
            new int[0],
            new long[2][3],
            new Object[] {new Node[] {new Node(1, null)}},
        };
        store.setRoot("arrays", arrays);
        reopen();
        Object[] found = store.root("arrays", Object[].class);
        assertTrue(
                java.util.Arrays.deepEquals(java.util.Arrays.copyOf(arrays, 12), java.util.Arrays.copyOf(found, 12)));
        assertEquals(1, ((Node[]) ((Object[]) found[12])[0])[0].value);
        for (int i = 0; i < found.length; i++) {
            assertSame(arrays[i].getClass(), found[i].getClass());
        }
        Transaction.run(() -> {
            ((boolean[]) found[0])[1] = true;
            ((byte[]) found[1])[0] = 7;
            ((char[]) found[2])[1] = 'z';
            ((short[]) found[3])[1] = 7;
            ((int[]) found[4])[0] = 7;
            ((long[]) found[5])[1] = 7;
            ((float[]) found[6])[0] = 7;
            ((double[]) found[7])[0] = 7;
            ((String[]) found[8])[1] = "seven";
            ((long[][]) found[11])[1] = new long[] {7};
            ((Node[]) ((Object[]) found[12])[0])[0] = new Node(7, null);
            System.arraycopy(new int[] {8}, 0, (int[]) found[4], 1, 1);
        });
        String expected = java.util.Arrays.deepToString(java.util.Arrays.copyOf(found, 12));
        reopen();
        Object[] again = store.root("arrays", Object[].class);
        assertEquals(expected, java.util.Arrays.deepToString(java.util.Arrays.copyOf(again, 12)));
        assertEquals(7, ((Node[]) ((Object[]) again[12])[0])[0].value);
    }

    /// J9.
    @Test
    void anElementCostsFewBytes() {
        int[] array = new int[10_000];
        store.setRoot("array", array);
        long before = graph.written();
        Transaction.run(() -> {
            array[17] = 1;
            array[18] = 2;
            array[9_000] = 3;
        });
        assertTrue(graph.written() - before <= 64, "bytes: " + (graph.written() - before));
    }

    @Test
    void twoStoresFitIntoAProcess() {
        MemoryGraph otherGraph = new MemoryGraph();
        Node node = new Node(1, null);
        store.setRoot("node", node);
        try (Store other = Store.open(otherGraph.open(), new StoreOptions())) {
            Node foreign = new Node(2, null);
            other.setRoot("node", foreign);
            var thrown = assertThrows(StoreException.class, () -> other.setRoot("node", new Object[] {null, node}));
            assertTrue(thrown.getMessage().contains("node → [1] leads to"), thrown.getMessage());
            assertSame(foreign, other.root("node", Object.class));
            assertThrows(
                    StoreException.class,
                    () -> Transaction.run(() -> {
                        node.value = 3;
                        foreign.value = 3;
                    }));
            assertEquals(1, node.value);
            assertEquals(2, foreign.value);
            Transaction.run(() -> {
                foreign.value = node.value + 10;
            });
            assertEquals(11, foreign.value);
        }
    }
}
