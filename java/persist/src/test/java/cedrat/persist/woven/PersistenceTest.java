package cedrat.persist.woven;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNotSame;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cedrat.persist.GraphStore;
import cedrat.persist.GraphStoreException;
import cedrat.persist.MemoryGraph;
import cedrat.persist.Persistence;
import cedrat.persist.PersistenceException;
import cedrat.persist.PersistenceOptions;
import cedrat.persist.RwLock;
import cedrat.persist.Transaction;
import java.lang.reflect.Proxy;
import java.util.AbstractMap;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.locks.LockSupport;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.condition.DisabledIfSystemProperty;

/// Objects that outlive the store's opening they were made in.
class PersistenceTest extends StoreFixture {
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

    private record Pair(Object left, Object right) {}

    private static final class Node {
        int value;
        Node next;

        Node(int value, Node next) {
            this.value = value;
            this.next = next;
        }
    }

    @Test
    void fieldsOfEachTypeComeBack() {
        Everything everything = new Everything(17);
        everything.fill(5);
        everything.next = new Everything(18);
        String before = everything.show();
        assertFalse(store.restarted());
        assertTrue(store.mark("everything", everything));
        reopen();
        assertTrue(store.restarted());
        Everything found = store.lookup("everything");
        assertNotSame(everything, found);
        assertEquals(before, found.show());
        assertEquals(18, found.next.fixed);
        assertEquals(0, found.scratch);
        assertNull(found.next.next);
        assertSame(found, store.lookup("everything"));
    }

    /// J9: what a transaction has changed, and its neighbours, are written.
    @Test
    void changesOfEachTypeComeBack() {
        Everything everything = new Everything(1);
        everything.fill(2);
        store.mark("everything", everything);
        for (int seed = 3; seed < 9; seed++) {
            Everything found = store.lookup("everything");
            try (var transaction = Transaction.begin()) {
                found.fill(seed);
                transaction.commit();
            }
            String before = found.show();
            reopen();
            found = store.lookup("everything");
            assertEquals(before, found.show());
        }
    }

    @Test
    void aFieldCostsFewBytes() {
        Everything everything = new Everything(1);
        everything.fill(2);
        store.mark("everything", everything);
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
    void whatIsReachableIsPersistentOnce() {
        Pair shared = new Pair("shared", 1);
        Pair pair = new Pair(shared, new Object[] {shared, "text", null, new int[] {1}, 1L << 60, 2.5, 0.1});
        store.mark("pair", pair);
        int size = graph.size();
        reopen();
        Pair found = store.lookup("pair");
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
        store.mark("again", found.right);
        assertEquals(size, graph.size());
    }

    @Test
    void aCycleComesBack() {
        Node first = new Node(1, null);
        Object[] array = {first, null};
        array[1] = array;
        first.next = new Node(2, first);
        store.mark("first", first);
        store.mark("array", array);
        reopen();
        Object[] found = store.lookup("array");
        assertSame(found, found[1]);
        Node node = store.lookup("first");
        assertSame(node, found[0]);
        assertSame(node, node.next.next);
    }

    @Test
    void aRollbackReachesNeitherMemoryNorStore() {
        Node node = new Node(1, null);
        store.mark("node", node);
        long before = graph.written();
        try (var transaction = Transaction.begin()) {
            node.value = 2;
            node.next = new Node(3, null);
            store.mark("node", new Node(4, null));
            store.mark("other", node);
            transaction.rollback();
        }
        assertEquals(before, graph.written());
        assertEquals(Set.of("node"), store.roots());
        assertSame(node, store.lookup("node"));
        assertNull(node.next);
        reopen();
        Node found = store.lookup("node");
        assertEquals(1, found.value);
        assertNull(store.lookup("other"));
    }

    @Test
    void namesAreMarkedAndUnmarkedInTransactionsOrAlone() {
        Node one = new Node(1, null);
        assertTrue(store.mark("one", one));
        assertFalse(store.mark("one", one));
        try (var transaction = Transaction.begin()) {
            store.unmark("one");
            assertNull(store.lookup("one"));
            store.mark("two", new Node(2, one));
            transaction.commit();
        }
        assertEquals(Set.of("two"), store.roots());
        reopen();
        assertEquals(Set.of("two"), store.roots());
        Node two = store.lookup("two");
        assertEquals(1, two.next.value);
        store.unmark("two");
        store.unmark("never");
        reopen();
        assertEquals(Set.of(), store.roots());
    }

    /// J2
    /// Persistent is what an object becomes, not where it lies: nothing is moved, and references go both ways.
    @Test
    void whatBecomesPersistentStaysWhereItIs() {
        Node node = new Node(1, null);
        Node other = new Node(2, node);
        store.mark("node", node);
        assertSame(node, store.lookup("node"));
        assertSame(node, other.next);
        other.value = 3;
        assertThrows(IllegalStateException.class, () -> node.value = 4);
        Transaction.run(() -> node.next = other);
        assertSame(other, store.<Node>lookup("node").next);
        assertThrows(IllegalStateException.class, () -> other.value = 4);
    }

    @Test
    void whatIsPersistentIsNotStoredToOutsideOfTransactions() {
        Node node = new Node(1, null);
        int[] array = {1};
        node.value = 2;
        array[0] = 2;
        store.mark("node", node);
        store.mark("array", array);
        var thrown = assertThrows(IllegalStateException.class, () -> node.value = 3);
        assertTrue(thrown.getMessage().contains("within a transaction"), thrown.getMessage());
        assertThrows(IllegalStateException.class, () -> array[0] = 3);
        assertEquals(2, node.value);
        assertEquals(2, array[0]);
        new Node(5, node).value = 6;
    }

    /// J2, J3: what a collection is made of is the collection.
    @Test
    void aCollectionIsLockedAndStoredToAsAWhole() throws InterruptedException {
        Map<Integer, String> map = new HashMap<>(Map.of(1, "one", 2, "two"));
        store.mark("map", map);
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
        assertEquals(Map.of(1, "ten", 2, "twenty"), store.lookup("map"));
    }

    private static boolean waitsForALock(Thread thread) {
        return String.valueOf(LockSupport.getBlocker(thread)).startsWith("cedrat.persist.Locks");
    }

    /// J3.2
    @Test
    @DisabledIfSystemProperty(
            named = "cedrat.reads",
            matches = "lock",
            disabledReason = "the agent has the argument, because the test was asked for by its name")
    void readLocksNeedTheAgentsArgument() {
        MemoryGraph other = new MemoryGraph();
        PersistenceOptions options = new PersistenceOptions().readLocks(true);
        var thrown = assertThrows(IllegalStateException.class, () -> Persistence.open(other.open(), options));
        assertTrue(thrown.getMessage().contains("-javaagent:persist.jar=reads=lock"), thrown.getMessage());
        Persistence.open(other.open(), options.readLocks(false)).close();
    }

    @Test
    void onlyTheOutermostTransactionStores() {
        Node node = new Node(1, null);
        store.mark("node", node);
        long before = graph.written();
        try (var outer = Transaction.begin()) {
            try (var inner = Transaction.begin()) {
                node.next = new Node(2, null);
                inner.commit();
            }
            try (var inner = Transaction.begin()) {
                node.value = 7;
                store.mark("inner", node);
                inner.rollback();
            }
            assertEquals(before, graph.written());
            outer.commit();
        }
        assertTrue(graph.written() > before);
        reopen();
        Node found = store.lookup("node");
        assertEquals(1, found.value);
        assertEquals(2, found.next.value);
        assertNull(store.lookup("inner"));
    }

    /// J3
    @Test
    void whatTheStoreRefusesIsRolledBack() {
        Node node = new Node(1, null);
        store.mark("node", node);
        Node next = new Node(2, null);
        graph.refuseCommits(true);
        try (var transaction = Transaction.begin()) {
            node.value = 5;
            node.next = next;
            var thrown = assertThrows(PersistenceException.class, transaction::commit);
            assertTrue(thrown.getMessage().contains("the disk is full"), thrown.getMessage());
        }
        assertEquals(1, node.value);
        assertNull(node.next);
        next.value = 3;
        graph.refuseCommits(false);
        Transaction.run(() -> {
            node.next = next;
        });
        reopen();
        Node found = store.lookup("node");
        assertEquals(3, found.next.value);
    }

    /// J3
    @Test
    void afterASyncThatFailedTheStoreRefusesEverything() {
        Node node = new Node(1, new Node(2, null));
        store.mark("node", node);
        reopen();
        Node found = store.lookup("node");
        graph.refuseSyncs();
        assertThrows(
                PersistenceException.class,
                () -> Transaction.run(() -> {
                    found.value = 5;
                }));
        assertEquals(5, found.value, "the commit may have reached the disk");
        assertThrows(PersistenceException.class, () -> found.next.value++);
        assertThrows(PersistenceException.class, () -> store.lookup("node"));
        assertThrows(PersistenceException.class, () -> store.mark("more", found));
        assertThrows(
                PersistenceException.class,
                () -> Transaction.run(() -> {
                    found.value = 6;
                }));
        assertEquals(5, found.value);
        reopen();
        Node again = store.lookup("node");
        assertEquals(2, again.next.value);
    }

    /// J9: of what the store was asked only it knows what has become.
    @Test
    void whatMayBeStoredIsNotSaidToBeRolledBack() {
        Node node = new Node(1, null);
        store.mark("node", node);
        graph.throwBehindCommits(new StackOverflowError("as a test wants it"));
        PersistenceException thrown = assertThrows(
                PersistenceException.class,
                () -> Transaction.run(() -> {
                    node.value = 5;
                }));
        assertTrue(
                thrown.getMessage().contains("does not know what of the last commits is on the disk"),
                thrown::getMessage);
        assertThrows(PersistenceException.class, () -> store.lookup("node"));
        assertThrows(
                PersistenceException.class,
                () -> Transaction.run(() -> {
                    node.value = 6;
                }));
        reopen();
        assertEquals(5, store.<Node>lookup("node").value);
    }

    @Test
    void commitsWaitUnlessTheyAreNotTo() {
        Node node = new Node(1, null);
        store.mark("node", node);
        assertEquals(graph.lsn(), graph.durable());
        store.close();
        store = Persistence.open(
                graph.open(), new PersistenceOptions().durability(PersistenceOptions.Durability.ASYNC));
        store.mark("again", new Node(2, null));
        assertTrue(graph.lsn() > graph.durable());
    }

    @Test
    void aListOfAMillionIsStoredAndRead() {
        int length = 1_000_000;
        Node first = null;
        for (int i = 0; i < length; i++) {
            first = new Node(i, first);
        }
        store.mark("first", first);
        reopen();
        Node node = store.lookup("first");
        for (int i = length - 1; i >= 0; i--) {
            assertEquals(i, node.value);
            node = node.next;
        }
        assertNull(node);
    }

    @Test
    void anObjectIsReadWhenAReferenceToItIsFollowed() {
        store.mark("node", new Node(1, new Node(2, new Node(3, null))));
        reopen();
        long before = graph.reads();
        Node node = store.lookup("node");
        assertEquals(1, graph.reads() - before);
        assertEquals(2, node.next.value);
        assertEquals(2, graph.reads() - before);
        assertSame(node.next, node.next);
        assertEquals(2, graph.reads() - before);
    }

    /// A reference that is not loaded stays what it was when its object is changed.
    @Test
    void whatIsNotLoadedStays() {
        Everything everything = new Everything(1);
        everything.fill(2);
        everything.next = new Everything(3);
        String before = everything.next.show();
        store.mark("everything", everything);
        reopen();
        Everything found = store.lookup("everything");
        Transaction.run(() -> {
            found.text = null;
            found.any = new int[3];
        });
        reopen();
        Everything again = store.lookup("everything");
        assertNull(again.text);
        assertEquals(before, again.next.show());
        assertArrayEquals(new int[] {2, -2}, again.numbers);
    }

    /// A field that was pending, was set to null, and comes back by a rollback.
    @Test
    void aPendingFieldThatIsOverwrittenComesBackByARollback() {
        store.mark("node", new Node(1, new Node(2, null)));
        reopen();
        Node node = store.lookup("node");
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
        Node again = store.lookup("node");
        assertNull(again.next);
    }

    @Test
    void constantsOfEnumsAreThemselves() {
        store.mark("pair", new Pair(TimeUnit.DAYS, Thread.State.NEW));
        reopen();
        Pair pair = store.lookup("pair");
        assertSame(TimeUnit.DAYS, pair.left);
        assertSame(Thread.State.NEW, pair.right);
        store.mark("unit", TimeUnit.HOURS);
        assertSame(TimeUnit.HOURS, store.lookup("unit"));
        reopen();
        assertSame(TimeUnit.HOURS, store.lookup("unit"));
    }

    @Test
    void stringsAreWhatTheyWere() {
        String[] texts = {"", "latin \u00ff", "\u0100 wide", "\ud83d\ude00", "\ud83d alone", "x".repeat(100_000)};
        store.mark("texts", texts);
        reopen();
        assertArrayEquals(texts, store.<String[]>lookup("texts"));
    }

    @Test
    void arraysOfEachTypeAreWhatTheyWereAndChangeByElement() {
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
        store.mark("arrays", arrays);
        reopen();
        Object[] found = store.lookup("arrays");
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
        Object[] again = store.lookup("arrays");
        assertEquals(expected, java.util.Arrays.deepToString(java.util.Arrays.copyOf(again, 12)));
        assertEquals(7, ((Node[]) ((Object[]) again[12])[0])[0].value);
    }

    @Test
    void anElementCostsFewBytes() {
        int[] array = new int[10_000];
        store.mark("array", array);
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
        store.mark("node", node);
        try (Persistence other = Persistence.open(otherGraph.open(), new PersistenceOptions())) {
            Node foreign = new Node(2, null);
            other.mark("node", foreign);
            var thrown = assertThrows(PersistenceException.class, () -> other.mark("node", new Object[] {null, node}));
            assertTrue(thrown.getMessage().contains("node → [1] leads to"), thrown.getMessage());
            assertSame(foreign, other.lookup("node"));
            assertThrows(
                    PersistenceException.class,
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

    @Test
    void twoThreadsThatLoadAnObjectHaveTheSame() throws Exception {
        int length = 2_000;
        Node first = null;
        for (int i = 0; i < length; i++) {
            first = new Node(i, first);
        }
        store.mark("first", new Object[] {first});
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
                Node node = (Node) store.<Object[]>lookup("first")[0];
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

    /// Each thread follows references of its own to the same texts.
    @Test
    void twoThreadsThatLoadATextHaveTheSame() throws Exception {
        int length = 2_000;
        Pair[][] pairs = new Pair[2][length];
        for (int i = 0; i < length; i++) {
            String text = "text " + i;
            pairs[0][i] = new Pair(text, null);
            pairs[1][i] = new Pair(text, null);
        }
        store.mark("pairs", pairs);
        reopen();
        Pair[][] found = store.lookup("pairs");
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

    /// Of two threads one loads arrays, and the other one finds them, sooner or later.
    @Test
    void whoFindsWhatAnotherLoadsKnowsThatItIsPersistent() throws Exception {
        Table[] tables = new Table[100];
        for (int i = 0; i < tables.length; i++) {
            tables[i] = new Table();
        }
        store.mark("tables", tables);
        reopen();
        Table[] found = store.lookup("tables");
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
        for (Table table : store.<Table[]>lookup("tables")) {
            for (int[] row : table.rows) {
                assertArrayEquals(new int[] {1, 1}, row);
            }
        }
    }

    @Test
    void aClosedStoreRefuses() {
        store.mark("node", new Node(1, new Node(2, null)));
        reopen();
        Node node = store.lookup("node");
        store.close();
        store.close();
        assertEquals(1, node.value);
        assertThrows(IllegalStateException.class, () -> store.lookup("node"));
        assertThrows(IllegalStateException.class, () -> node.next.value++);
        assertThrows(
                IllegalStateException.class,
                () -> Transaction.run(() -> {
                    node.value = 5;
                }));
        assertEquals(1, node.value);
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
    void aLockThatIsTakenWhileAMapIsLoadedEndsNothing() {
        Map<Name, Integer> names = new HashMap<>();
        for (int i = 0; i < 10; i++) {
            names.put(new Name("name " + i), i);
        }
        store.mark("names", new Object[] {new Pair(names, null)});
        reopen();
        Object[] found = store.lookup("names");
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

    @Test
    void aCommitToAStoreThatWasClosedMeanwhileIsRefused() throws Exception {
        Node node = new Node(1, null);
        store.mark("node", node);
        try (var transaction = Transaction.begin()) {
            node.value = 2;
            Thread closer = new Thread(store::close);
            closer.start();
            closer.join();
            assertThrows(IllegalStateException.class, transaction::commit);
        }
        assertEquals(1, node.value);
        try (var transaction = Transaction.begin()) {
            assertEquals(0, transaction.undoSize());
        }
    }

    /// As the native one does while another thread is within a call of it.
    @Test
    void aCloseThatWasRefusedMayBeRepeated() {
        int[] closes = {0};
        GraphStore below = new MemoryGraph().open();
        GraphStore busy = (GraphStore) Proxy.newProxyInstance(
                GraphStore.class.getClassLoader(), new Class<?>[] {GraphStore.class}, (proxy, method, arguments) -> {
                    if (method.getName().equals("close") && ++closes[0] == 1) {
                        throw new GraphStoreException("busy", null, false);
                    }
                    return method.invoke(below, arguments);
                });
        Persistence one = Persistence.open(busy, new PersistenceOptions());
        assertThrows(PersistenceException.class, one::close);
        one.close();
        one.close();
        assertEquals(2, closes[0]);
    }

    @Test
    void aListBelongsToOneStore() {
        List<String> list = new ArrayList<>(List.of("x"));
        store.mark("list", list);
        try (Persistence other = Persistence.open(new MemoryGraph().open(), new PersistenceOptions())) {
            PersistenceException refused = assertThrows(PersistenceException.class, () -> other.mark("list", list));
            assertTrue(refused.getMessage().contains("another store"), refused.getMessage());
        }
        Transaction.run(() -> {
            list.add("y");
        });
        reopen();
        assertEquals(List.of("x", "y"), store.lookup("list"));
    }

    private static final class Caching extends AbstractMap<String, Integer> {
        private final HashMap<String, Integer> entries = new HashMap<>(Map.of("one", 1));
        private transient int hash;

        @Override
        public Set<Map.Entry<String, Integer>> entrySet() {
            return entries.entrySet();
        }

        @Override
        public int hashCode() {
            if (hash == 0) {
                hash = entries.hashCode();
            }
            return hash;
        }
    }

    /// The program's transient field, and the views of its superclass.
    @Test
    void whatIsNotStoredMayBeStoredToOutsideOfTransactions() {
        store.mark("caching", new Caching());
        reopen();
        Caching caching = store.lookup("caching");
        assertEquals(Map.of("one", 1).hashCode(), caching.hashCode());
        assertEquals(Set.of("one"), caching.keySet());
        assertThrows(IllegalStateException.class, () -> caching.entries.put("two", 2));
    }

    /// The way of a refusal begins at a name, wherever the transaction has begun.
    @Test
    void theWayToWhatIsRefusedBeginsAtAName() {
        store.mark("others", new ArrayList<>(List.of("a", new Object[] {new Pair("left", new Holder())})));
        reopen();
        List<?> others = store.lookup("others");
        Holder holder = (Holder) ((Pair) ((Object[]) others.get(1))[0]).right;
        PersistenceException thrown = assertThrows(
                PersistenceException.class,
                () -> Transaction.run(() -> {
                    holder.held = new Object[] {null, new Thread()};
                }));
        String way = "others → [1] → [0] → right → held → [1] leads to an object of java.lang.Thread";
        assertTrue(thrown.getMessage().startsWith(way), thrown.getMessage());
        assertNull(holder.held);
    }

    private static final class Holder {
        Object held;
    }
}
