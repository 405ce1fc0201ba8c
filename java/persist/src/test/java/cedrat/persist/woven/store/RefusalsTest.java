package cedrat.persist.woven.store;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cedrat.persist.GraphStore;
import cedrat.persist.GraphStoreException;
import cedrat.persist.MemoryGraph;
import cedrat.persist.Store;
import cedrat.persist.StoreException;
import cedrat.persist.StoreOptions;
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
        store.setRoot("node", node);
        store.setRoot("array", array);
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
        Node none = store.root("none", Node.class);
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
        store.setRoot("caching", new Caching());
        reopen();
        Caching caching = store.root("caching", Caching.class);
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
        store.setRoot("others", new ArrayList<>(List.of("a", new Object[] {new Pair("left", new Holder())})));
        reopen();
        List<?> others = store.root("others", List.class);
        Holder holder = (Holder) ((Pair) ((Object[]) others.get(1))[0]).right;
        StoreException thrown = assertThrows(
                StoreException.class,
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
        store.setRoot("map", map);
        reopen();
        Map<?, Holder> stored = store.root("map", Map.class);
        Holder holder = stored.values().iterator().next();
        StoreException thrown = assertThrows(
                StoreException.class,
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
            StoreException thrown = assertThrows(StoreException.class, () -> store.setRoot("map", map));
            assertTrue(thrown.getMessage().startsWith("map → [" + shown + "] leads to"), thrown::getMessage);
        }
    }

    @Test
    void aListBelongsToOneStore() {
        List<String> list = new ArrayList<>(List.of("x"));
        store.setRoot("list", list);
        try (Store other = Store.open(new MemoryGraph().open(), new StoreOptions())) {
            StoreException refused = assertThrows(StoreException.class, () -> other.setRoot("list", list));
            assertTrue(refused.getMessage().contains("another store"), refused.getMessage());
        }
        Transaction.run(() -> {
            list.add("y");
        });
        reopen();
        assertEquals(List.of("x", "y"), store.root("list", Object.class));
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
        assertThrows(StoreException.class, () -> store.setRoot("painted", painted));
        assertEquals(before, graph.classes(), "J9g: classes of a refused commit are defined");
        painted.other = null;
        store.setRoot("painted", painted);
        store.setRoot("red", Colour.RED);
        reopen();
        Painted found = store.root("painted", Painted.class);
        assertEquals(Colour.GREEN, found.colour);
        assertEquals(1, found.nodes.getFirst().value);
        assertEquals(Colour.RED, store.root("red", Object.class));
    }

    /// J9, J3
    @Test
    void commitRefusedByStoreIsRolledBack() {
        Node node = new Node(1, null);
        store.setRoot("node", node);
        Node next = new Node(2, null);
        graph.refuseCommits(true);
        try (var transaction = Transaction.begin()) {
            node.value = 5;
            node.next = next;
            var thrown = assertThrows(StoreException.class, transaction::commit);
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
        Node found = store.root("node", Node.class);
        assertEquals(3, found.next.value);
    }

    /// J9, J3
    @Test
    void failedSyncMakesStoreRefuseEverything() {
        Node node = new Node(1, new Node(2, null));
        store.setRoot("node", node);
        reopen();
        Node found = store.root("node", Node.class);
        graph.refuseSyncs();
        assertThrows(
                StoreException.class,
                () -> Transaction.run(() -> {
                    found.value = 5;
                }));
        assertEquals(5, found.value, "the commit may have reached the disk");
        assertThrows(StoreException.class, () -> found.next.value++);
        assertThrows(StoreException.class, () -> store.root("node", Object.class));
        assertThrows(StoreException.class, () -> store.setRoot("more", found));
        assertThrows(
                StoreException.class,
                () -> Transaction.run(() -> {
                    found.value = 6;
                }));
        assertEquals(5, found.value);
        reopen();
        Node again = store.root("node", Node.class);
        assertEquals(2, again.next.value);
    }

    /// J9: of what the store was asked only it knows what has become.
    @Test
    void possiblyStoredIsNotReportedRolledBack() {
        Node node = new Node(1, null);
        store.setRoot("node", node);
        graph.throwBehindCommits(new StackOverflowError("as a test wants it"));
        StoreException thrown = assertThrows(
                StoreException.class,
                () -> Transaction.run(() -> {
                    node.value = 5;
                }));
        assertTrue(
                thrown.getMessage().contains("cannot tell which of the last commits are durable"), thrown::getMessage);
        assertThrows(StoreException.class, () -> store.root("node", Object.class));
        assertThrows(
                StoreException.class,
                () -> Transaction.run(() -> {
                    node.value = 6;
                }));
        reopen();
        assertEquals(5, store.root("node", Node.class).value);
    }

    @Test
    void aClosedStoreRefuses() {
        store.setRoot("node", new Node(1, new Node(2, null)));
        reopen();
        Node node = store.root("node", Node.class);
        store.close();
        store.close();
        assertEquals(1, node.value);
        assertThrows(IllegalStateException.class, () -> store.root("node", Object.class));
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
        store.setRoot("node", node);
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
        Store one = Store.open(busy, new StoreOptions());
        assertThrows(StoreException.class, one::close);
        one.close();
        one.close();
        assertEquals(2, closes[0]);
    }
}
