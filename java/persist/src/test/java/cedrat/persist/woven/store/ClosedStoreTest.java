package cedrat.persist.woven.store;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cedrat.persist.GraphStore;
import cedrat.persist.MemoryGraph;
import cedrat.persist.RwLock;
import cedrat.persist.Store;
import cedrat.persist.StoreException;
import cedrat.persist.StoreOptions;
import cedrat.persist.Transaction;
import java.io.Serializable;
import java.lang.ref.WeakReference;
import java.lang.reflect.Proxy;
import java.util.AbstractMap;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.BitSet;
import java.util.Collections;
import java.util.Comparator;
import java.util.EnumMap;
import java.util.HashMap;
import java.util.HashSet;
import java.util.IdentityHashMap;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.LinkedList;
import java.util.List;
import java.util.Map;
import java.util.PriorityQueue;
import java.util.Properties;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.FutureTask;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicIntegerArray;
import java.util.concurrent.atomic.AtomicReference;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.function.Executable;

/// J7.2: what a closed store has left in memory can be read, and no transaction changes it.
class ClosedStoreTest extends StoreFixture {
    private static final String CLOSED = "the store is closed: open it, and look up its objects again";
    private static final String OTHER = "it belongs to another store, or to an earlier opening of this one";

    private interface Change<T> {
        void of(T object);
    }

    /// Checks a change of a stored object, and of a loaded one.
    private <T> void check(T object, Change<T> change) {
        Transaction.run(() -> {
            store.setRoot("one", object);
        });
        refuses(object, change);
        open();
        T loaded = store.root("one", Object.class);
        refuses(loaded, change);
        open();
    }

    private <T> void refuses(T object, Change<T> change) {
        String before = show(object);
        store.close();
        assertEquals(before, show(object), "it can be read");
        for (int i = 0; i < 2; i++) {
            IllegalStateException thrown =
                    assertThrows(IllegalStateException.class, () -> Transaction.run(() -> change.of(object)));
            assertEquals(CLOSED, thrown.getMessage(), object.getClass()::getName);
        }
        assertEquals(before, show(object));
        try (var transaction = Transaction.begin()) {
            assertThrows(IllegalStateException.class, () -> change.of(object));
            transaction.commitAsync().join();
        }
        assertEquals(before, show(object), "nothing was changed that could have been committed");
        change.of(object);
    }

    private static String show(Object object) {
        return switch (object) {
            case int[] array -> Arrays.toString(array);
            case Object[] array -> Arrays.deepToString(array);
            default -> object.toString();
        };
    }

    /// J7.2.
    @Test
    void aTransactionDoesNotChangeACollection() {
        check(new ArrayList<>(List.of("a")), list -> list.add("b"));
        check(new ArrayList<>(List.of("a")), list -> list.set(0, "b"));
        check(new ArrayList<>(List.of("b", "a")), list -> list.sort(null));
        check(new ArrayList<>(List.of("b", "a")), Collections::sort);
        check(new ArrayList<>(List.of("a", "b")), list -> list.subList(0, 1).clear());
        check(new ArrayList<>(List.of("a")), list -> list.removeIf(one -> true));
        check(new LinkedList<>(List.of("a")), LinkedList::removeFirst);
        check(new ArrayDeque<>(List.of("a")), deque -> deque.add("b"));
        check(new PriorityQueue<>(List.of("a")), queue -> queue.add("b"));
        check(new HashSet<>(List.of("a")), set -> set.add("b"));
        check(new TreeSet<>(List.of("a")), set -> set.add("b"));
        check(new HashMap<>(Map.of("a", "b")), map -> map.put("a", "c"));
        check(new HashMap<>(Map.of("a", "b")), map -> map.put("b", "c"));
        check(
                new HashMap<>(Map.of("a", "b")),
                map -> map.entrySet().iterator().next().setValue("c"));
        check(new HashMap<>(Map.of("a", "b")), map -> map.keySet().remove("a"));
        check(new LinkedHashMap<>(Map.of("a", "b")), map -> map.put("b", "c"));
        check(new TreeMap<>(Map.of("a", "b")), map -> map.put("b", "c"));
        check(new TreeMap<>(Map.of("a", "b")), map -> map.descendingMap().pollFirstEntry());
        check(new IdentityHashMap<>(Map.of("a", "b")), map -> map.put("b", "c"));
        check(new EnumMap<>(Map.of(Thread.State.NEW, "b")), map -> map.put(Thread.State.BLOCKED, "c"));
        check(Collections.synchronizedList(new ArrayList<>(List.of("a"))), list -> list.add("b"));
        check(Arrays.asList("a", "b"), list -> list.set(0, "c"));
        check(new AbstractMap.SimpleEntry<>("a", "b"), entry -> entry.setValue("c"));
    }

    /// J7.2.
    @Test
    void aTransactionDoesNotChangeAnArray() {
        check(new int[3], array -> array[0]++);
        check(new int[2][2], array -> array[0][0]++);
        check(new String[] {"a"}, array -> array[0] = "b");
        check(new int[] {2, 1}, Arrays::sort);
        check(new int[] {2, 1}, array -> System.arraycopy(array, 0, array, 1, 1));
    }

    /// J7.2.
    @Test
    void wholeObjectsOfClosedStoreCannotChange() {
        check(new StringBuilder("a"), text -> text.append("b"));
        check(new BitSet(), bits -> bits.set(3));
        check(new Properties(), properties -> properties.setProperty("a", "b"));
        check(new AtomicInteger(), AtomicInteger::incrementAndGet);
        check(new AtomicIntegerArray(2), array -> array.incrementAndGet(1));
        check(new AtomicReference<>("a"), reference -> reference.set("b"));
    }

    /// J7.2: the lock is no way around it.
    @Test
    void norWhatItHasLocked() {
        check(new ArrayList<>(List.of("a")), list -> {
            if (isInTransaction()) {
                RwLock.acquireWrite(list);
            }
            list.add("b");
        });
    }

    private static boolean isInTransaction() {
        try {
            RwLock.acquireRead(new Object());
            return true;
        } catch (IllegalStateException outside) {
            return false;
        }
    }

    /// J7.2.
    @Test
    void onlyLoadedObjectsCanBeRead() {
        store.setRoot("nodes", new ArrayList<>(List.of(new Node(1, new Node(2, null)))));
        store.setRoot("map", new HashMap<>(Map.of("a", new Node(3, null))));
        reopen();
        List<Node> nodes = store.root("nodes", List.class);
        Map<String, Node> map = store.root("map", Map.class);
        store.close();
        Transaction.run(() -> {
            assertEquals(1, nodes.getFirst().value);
            assertEquals(3, map.get("a").value);
        });
        assertEquals(1, nodes.getFirst().value);
        refusesAsClosed(() -> nodes.getFirst().next.value++);
        open();
    }

    /// J7.2.
    @Test
    void outsideOfTransactionsItIsMemoryOnly() {
        List<String> list = new ArrayList<>(List.of("a"));
        Node node = new Node(1, null);
        store.setRoot("list", list);
        store.setRoot("node", node);
        store.close();
        list.add("b");
        node.value = 2;
        assertEquals(List.of("a", "b"), list);
        open();
        list.add("c");
        node.value = 3;
        assertEquals(List.of("a"), store.root("list", Object.class));
        assertEquals(1, store.root("node", Node.class).value);
    }

    /// J7.2: objects of a store that is open may change.
    @Test
    void otherStoreRefusesObjectOfClosedOne() {
        List<String> list = new ArrayList<>(List.of("a"));
        int[] array = {1};
        Node node = new Node(1, null);
        store.setRoot("list", list);
        store.setRoot("array", array);
        store.setRoot("node", node);
        store.setRoot("into", new ArrayList<>());
        reopen();
        for (Object old : new Object[] {list, array, node}) {
            StoreException marked = assertThrows(StoreException.class, () -> store.setRoot("old", old));
            assertTrue(marked.getMessage().contains(OTHER), marked::getMessage);
            List<Object> into = store.root("into", List.class);
            StoreException added = assertThrows(StoreException.class, () -> Transaction.run(() -> into.add(old)));
            assertTrue(added.getMessage().contains(OTHER), added::getMessage);
            assertEquals(List.of(), into);
        }
        refusesAsClosed(() -> Transaction.run(() -> list.add("b")));
        store.setRoot("copy", new ArrayList<>(list));
        reopen();
        assertEquals(List.of("a"), store.root("copy", Object.class));
    }

    private interface Order extends Comparator<String>, Serializable {}

    private static final Order BACKWARDS = (one, other) -> other.compareTo(one);
    private static final String[] EMPTY = {};
    private static final List<String> FIXED = List.of("x", "y", "z");
    private static final Map.Entry<String, Integer> PAIR = Map.entry("x", 1);

    /// J7.2: a program has them once, and stores them again whenever it opens a store.
    @Test
    void constantObjectsMayBeStoredAgain() {
        for (int opening = 0; opening < 3; opening++) {
            TreeMap<String, Object> map = new TreeMap<>(BACKWARDS);
            map.put("empty", EMPTY);
            map.put("fixed", FIXED);
            map.put("pair", PAIR);
            map.put("wrapped", Collections.unmodifiableList(FIXED));
            store.setRoot("map", map);
            reopen();
            TreeMap<String, Object> loaded = store.root("map", TreeMap.class);
            assertEquals("wrapped", loaded.firstKey());
            assertEquals(FIXED, loaded.get("fixed"));
        }
    }

    /// J7.2.
    @Test
    void closingTheStoreRollsBackTransaction() throws Exception {
        ArrayList<String> list = new ArrayList<>(List.of("a"));
        HashMap<String, String> map = new HashMap<>();
        store.setRoot("list", list);
        store.setRoot("map", map);
        CountDownLatch inside = new CountDownLatch(1);
        CountDownLatch closed = new CountDownLatch(1);
        FutureTask<Void> task = new FutureTask<>(() -> {
            try (var transaction = Transaction.begin()) {
                for (int i = 0; i < 100; i++) {
                    list.add("b");
                }
                inside.countDown();
                closed.await();
                refusesAsClosed(() -> map.put("a", "b"));
                refusesAsClosed(transaction::commit);
            }
            return null;
        });
        Thread.ofPlatform().start(task);
        inside.await();
        store.close();
        closed.countDown();
        task.get();
        assertEquals(List.of("a"), list);
        assertEquals(Map.of(), map);
        open();
    }

    /// J7.2: as when another thread closes the store while the commit is within it.
    @Test
    void objectsPersistedDuringCloseAreKnown() throws Exception {
        GraphStore below = new MemoryGraph().open();
        Store[] closing = new Store[1];
        GraphStore slow = (GraphStore) Proxy.newProxyInstance(
                GraphStore.class.getClassLoader(), new Class<?>[] {GraphStore.class}, (proxy, method, arguments) -> {
                    Object result = method.invoke(below, arguments);
                    if (method.getName().equals("commit")) {
                        Thread closer = new Thread(closing[0]::close);
                        closer.start();
                        closer.join();
                    }
                    return result;
                });
        closing[0] = Store.open(slow, new StoreOptions().durability(StoreOptions.Durability.ASYNC));
        ArrayList<String> list = new ArrayList<>(List.of("a"));
        closing[0].setRoot("list", list);
        refusesAsClosed(() -> Transaction.run(() -> list.add("b")));
        assertEquals(List.of("a"), list);
    }

    /// J7.2: nothing of the store leads to it any more.
    @Test
    void objectsOfClosedStoreAreCollected() {
        List<WeakReference<Object>> gone = new ArrayList<>();
        markAll(gone);
        store.close();
        store = null;
        for (int round = 0; round < 20 && gone.stream().anyMatch(one -> one.get() != null); round++) {
            System.gc();
        }
        for (WeakReference<Object> one : gone) {
            assertNull(one.get());
        }
        open();
    }

    private void markAll(List<WeakReference<Object>> marked) {
        Object[] all = {new ArrayList<>(List.of("a")), new HashMap<>(Map.of("a", new Node(1, null))), new int[1]};
        for (int i = 0; i < all.length; i++) {
            store.setRoot("root " + i, all[i]);
            marked.add(new WeakReference<>(all[i]));
        }
        marked.add(new WeakReference<>(store));
    }

    private static void refusesAsClosed(Executable work) {
        assertEquals(CLOSED, assertThrows(IllegalStateException.class, work).getMessage());
    }

    /// J7.2.
    @Test
    void anIteratorOfBeforeIsRefusedToo() {
        check(new ArrayList<>(List.of("a", "b")), list -> {
            Iterator<String> iterator = list.iterator();
            iterator.next();
            iterator.remove();
        });
    }
}
