package cedrat.persist.woven.store;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cedrat.persist.GraphStore;
import cedrat.persist.GraphStoreException;
import cedrat.persist.MemoryGraph;
import cedrat.persist.Persistence;
import cedrat.persist.PersistenceException;
import cedrat.persist.PersistenceOptions;
import cedrat.persist.Transaction;
import java.lang.reflect.Proxy;
import java.util.AbstractMap;
import java.util.ArrayList;
import java.util.Collections;
import java.util.EnumMap;
import java.util.HashMap;
import java.util.Hashtable;
import java.util.IdentityHashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import org.junit.jupiter.api.Test;

/// Refusals of a store, and the state after them: of one that is closed, or has failed, and of objects that it cannot
/// store.
class RefusalsTest extends StoreFixture {
    private record Pair(Object left, Object right) {}

    @Test
    void persistentObjectRefusesAssignmentOutside() {
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

    @Test
    void refusedChangeNamesCallAndCaller() {
        ThreadLocal<Integer> local = new ThreadLocal<>();
        var thrown = assertThrows(UnsupportedOperationException.class, () -> Transaction.run(() -> local.set(1)));
        assertTrue(
                thrown.getMessage()
                        .startsWith("cannot call set of an object of java.lang.ThreadLocal in a transaction, in "
                                + RefusalsTest.class.getName()),
                thrown.getMessage());
        assertTrue(thrown.getMessage().contains(" (RefusalsTest.java:"), thrown.getMessage());
        assertNull(local.get());
    }

    @Test
    void readOfNullNamesTheField() {
        Node none = store.lookup("none");
        var thrown = assertThrows(NullPointerException.class, () -> none.next.value = 1);
        assertTrue(thrown.getStackTrace()[0].getMethodName().endsWith("$next"), thrown.getStackTrace()[0]::toString);
        assertTrue(thrown.getMessage().contains("\"next\" because \"object\" is null"), thrown.getMessage());
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
    void transientStateAllowsAssignmentOutside() {
        store.mark("caching", new Caching());
        reopen();
        Caching caching = store.lookup("caching");
        assertEquals(Map.of("one", 1).hashCode(), caching.hashCode());
        assertEquals(Set.of("one"), caching.keySet());
        assertThrows(IllegalStateException.class, () -> caching.entries.put("two", 2));
    }

    private static final class Holder {
        Object held;
    }

    /// The way of a refusal begins at a name, wherever the transaction has begun.
    @Test
    void pathOfRefusalBeginsAtAName() {
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

    private enum Size {
        SMALL,
        LARGE;

        @Override
        public String toString() {
            throw new AssertionError("who is refused runs none of the program's code");
        }
    }

    private record Key(int number) {
        @Override
        public int hashCode() {
            return number;
        }

        @Override
        public String toString() {
            throw new AssertionError("who is refused runs none of the program's code");
        }
    }

    private void wayIs(String way, Map<?, Holder> map) {
        store.mark("map", map);
        reopen();
        Map<?, Holder> stored = store.lookup("map");
        Holder holder = stored.values().iterator().next();
        PersistenceException thrown = assertThrows(
                PersistenceException.class,
                () -> Transaction.run(() -> {
                    holder.held = new Thread();
                }));
        String whole = "map → " + way + " → held leads to an object of java.lang.Thread";
        assertTrue(thrown.getMessage().startsWith(whole), thrown::getMessage);
    }

    private static <K> Map<K, Holder> put(Map<K, Holder> map, K key) {
        map.put(key, new Holder());
        return map;
    }

    /// A map that was stored before.
    @Test
    void pathOfRefusalNamesKeys() {
        wayIs("[k]", put(new HashMap<>(), "k"));
        wayIs("[7]", put(new TreeMap<>(), 7));
        wayIs("[" + Long.MAX_VALUE + "]", put(new LinkedHashMap<>(), Long.MAX_VALUE));
        wayIs("[0.1]", put(new Hashtable<>(), 0.1));
        wayIs("[true]", put(new HashMap<>(), true));
        wayIs("[x]", put(new HashMap<>(), 'x'));
        wayIs("[null]", put(new HashMap<>(), null));
        wayIs("[LARGE]", put(new HashMap<>(), Size.LARGE));
        wayIs("[SMALL]", put(new EnumMap<>(Size.class), Size.SMALL));
        wayIs("[k]", put(new IdentityHashMap<>(), "k"));
        wayIs("[k]", Map.of("k", new Holder()));
        wayIs("[k]", Collections.singletonMap("k", new Holder()));
        wayIs("[k]", Collections.unmodifiableMap(put(new HashMap<>(), "k")));
        wayIs("[" + "k".repeat(60) + "…]", put(new HashMap<>(), "k".repeat(5_000)));
        wayIs("[…]", put(new HashMap<>(), new Key(1)));
        wayIs("[…]", put(new HashMap<>(), List.of("k")));
    }

    /// As of one that is stored by the commit that is refused.
    @Test
    void pathThroughMapRunsNoProgramCode() {
        for (Object key : new Object[] {Size.LARGE, new Key(1)}) {
            Map<Object, Object> map = new HashMap<>();
            map.put(key, new Thread());
            String shown = key instanceof Size ? "LARGE" : "an object of " + Key.class.getName();
            PersistenceException thrown = assertThrows(PersistenceException.class, () -> store.mark("map", map));
            assertTrue(thrown.getMessage().startsWith("map → [" + shown + "] leads to"), thrown::getMessage);
        }
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

    private enum Colour {
        RED,
        GREEN
    }

    private static final class Painted {
        private final Colour colour = Colour.GREEN;
        private final List<Node> nodes = List.of(new Node(1, null));
        private Object other;
    }

    /// J9g: a program without these classes still opens the store.
    @Test
    void refusedCommitDefinesNoClass() {
        int before = graph.classes();
        Painted painted = new Painted();
        painted.other = Thread.currentThread();
        assertThrows(PersistenceException.class, () -> store.mark("painted", painted));
        assertEquals(before, graph.classes(), "J9g: classes of a refused commit are defined");
        painted.other = null;
        store.mark("painted", painted);
        store.mark("red", Colour.RED);
        reopen();
        Painted found = store.lookup("painted");
        assertEquals(Colour.GREEN, found.colour);
        assertEquals(1, found.nodes.getFirst().value);
        assertEquals(Colour.RED, store.lookup("red"));
    }

    /// J9, J3
    @Test
    void commitRefusedByStoreIsRolledBack() {
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

    /// J9, J3
    @Test
    void failedSyncMakesStoreRefuseEverything() {
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
    void possiblyStoredIsNotReportedRolledBack() {
        Node node = new Node(1, null);
        store.mark("node", node);
        graph.throwBehindCommits(new StackOverflowError("as a test wants it"));
        PersistenceException thrown = assertThrows(
                PersistenceException.class,
                () -> Transaction.run(() -> {
                    node.value = 5;
                }));
        assertTrue(
                thrown.getMessage().contains("cannot tell which of the last commits are durable"), thrown::getMessage);
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

    @Test
    void commitToMeanwhileClosedStoreIsRefused() throws Exception {
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
    void refusedCloseMayBeRepeated() {
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
}
