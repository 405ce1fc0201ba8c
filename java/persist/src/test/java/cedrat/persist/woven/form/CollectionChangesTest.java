package cedrat.persist.woven.form;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cedrat.persist.StoreException;
import cedrat.persist.Transaction;
import cedrat.persist.woven.branch.TestXid;
import cedrat.persist.woven.store.StoreFixture;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.Comparator;
import java.util.Deque;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Hashtable;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.LinkedList;
import java.util.List;
import java.util.ListIterator;
import java.util.Map;
import java.util.Objects;
import java.util.PriorityQueue;
import java.util.Random;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.Vector;
import java.util.function.Consumer;
import java.util.function.Supplier;
import java.util.stream.Stream;
import javax.transaction.xa.XAException;
import javax.transaction.xa.XAResource;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;
import org.junit.jupiter.params.provider.ValueSource;

/// Collections of which few entries change at a time, beside others in memory that have only seen what committed.
class CollectionChangesTest extends StoreFixture {
    private static final int LARGE = 100_000;
    /// For one entry: what is new, and the places that lead to it; in a heap, as many as it has levels.
    private static final int BYTES_MAX = 800;

    private static final int ROUNDS = 300;

    /// A class of collections, and what happens to them.
    private static final class Kind {
        private final String name;
        private final Supplier<Object> maker;
        private final boolean isOrdered;

        Kind(String name, boolean isOrdered, Supplier<Object> maker) {
            this.name = name;
            this.maker = maker;
            this.isOrdered = isOrdered;
        }

        /// Returns the visible content.
        Object show(Object collection) {
            if (isOrdered) {
                return collection.toString();
            }
            return switch (collection) {
                case Map<?, ?> map -> new HashMap<>(map);
                case PriorityQueue<?> queue -> {
                    List<Object> all = new ArrayList<>();
                    PriorityQueue<?> copy = new PriorityQueue<>(queue);
                    while (!copy.isEmpty()) {
                        all.add(copy.poll());
                    }
                    yield all;
                }
                default -> new HashSet<>((Collection<?>) collection);
            };
        }

        @Override
        public String toString() {
            return name;
        }
    }

    /// Many of them have the same hash, so that a hash table makes trees of them.
    private record Same(int number) implements Comparable<Same> {
        @Override
        public int hashCode() {
            return number % 2;
        }

        @Override
        public int compareTo(Same other) {
            return Integer.compare(number, other.number);
        }
    }

    static Stream<Kind> kinds() {
        return Stream.of(
                new Kind("HashMap", false, HashMap::new),
                new Kind("Hashtable", false, Hashtable::new),
                new Kind("LinkedHashMap", true, LinkedHashMap::new),
                new Kind("LinkedHashMap by access", true, () -> new LinkedHashMap<>(16, 0.75f, true)),
                new Kind("TreeMap", true, TreeMap::new),
                new Kind("TreeMap reversed", true, () -> new TreeMap<>(Collections.reverseOrder())),
                new Kind("HashSet", false, HashSet::new),
                new Kind("LinkedHashSet", true, LinkedHashSet::new),
                new Kind("TreeSet", true, TreeSet::new),
                new Kind("ArrayDeque", true, ArrayDeque::new),
                new Kind("LinkedList", true, LinkedList::new),
                new Kind("PriorityQueue", false, PriorityQueue::new),
                new Kind("PriorityQueue reversed", false, () -> new PriorityQueue<>(Comparator.reverseOrder())));
    }

    // ---- bytes

    @SuppressWarnings("unchecked")
    private static void add(Object collection, int number) {
        if (collection instanceof Map<?, ?> map) {
            ((Map<Object, Object>) map).put(number, "value " + number);
        } else {
            ((Collection<Object>) collection).add(number);
        }
    }

    private static void remove(Object collection, int number) {
        switch (collection) {
            case Map<?, ?> map -> map.remove(number);
            case Deque<?> queue -> queue.removeFirst();
            default -> ((Collection<?>) collection).remove(number);
        }
    }

    private void expectFewBytes(String what, Runnable change) {
        long before = graph.written();
        Transaction.run(change::run);
        long bytes = graph.written() - before;
        assertTrue(bytes > 0 && bytes <= BYTES_MAX, what + ": " + bytes);
    }

    /// J9.
    @ParameterizedTest
    @MethodSource("kinds")
    void anEntryOfMany(Kind kind) {
        Object made = kind.maker.get();
        for (int i = 0; i < LARGE; i++) {
            add(made, i);
        }
        store.setRoot("collection", made);
        Transaction.run(() -> add(made, LARGE + 1)); // It may grow just now.
        expectFewBytes("put", () -> add(made, LARGE + 2));
        expectFewBytes("remove", () -> remove(made, LARGE / 2));
        expectFewBytes("put again", () -> add(made, LARGE / 2));
        Object expected = kind.show(made);
        reopen();
        Object found = store.root("collection", Object.class);
        assertEquals(expected, kind.show(found));
        Transaction.run(() -> add(found, LARGE + 3));
        expectFewBytes("put after opening", () -> add(found, LARGE + 4));
        expectFewBytes("remove after opening", () -> remove(found, LARGE / 3));
        expected = kind.show(found);
        reopen();
        assertEquals(expected, kind.show(store.root("collection", Object.class)));
    }

    /// J9.
    @Test
    void aValueOfMany() {
        Map<Object, Object> map = new LinkedHashMap<>();
        for (int i = 0; i < LARGE; i++) {
            map.put("key " + i, i);
        }
        store.setRoot("collection", map);
        reopen();
        Map<Object, Object> found = store.root("collection", Map.class);
        expectFewBytes("put", () -> found.put("key 77", "other"));
        expectFewBytes("set", () -> found.entrySet().iterator().next().setValue("first"));
        reopen();
        Map<Object, Object> again = store.root("collection", Map.class);
        assertEquals("other", again.get("key 77"));
        assertEquals("first", again.get("key 0"));
        assertEquals(LARGE, again.size());
    }

    // ---- beside a model

    /// J9.
    @ParameterizedTest
    @MethodSource("kinds")
    void areAsTheirModels(Kind kind) {
        for (int seed = 0; seed < 2; seed++) {
            Random random = new Random(seed);
            Object model = kind.maker.get();
            store.setRoot("collection", kind.maker.get());
            for (int round = 0; round < ROUNDS; round++) {
                round(kind, model, random, "seed " + seed + ", round " + round);
            }
            reopen();
            assertEquals(kind.show(model), kind.show(store.root("collection", Object.class)), "seed " + seed);
        }
    }

    private void round(Kind kind, Object model, Random random, String when) {
        if (random.nextInt(5) == 0) {
            reopen();
        }
        Object collection = store.root("collection", Object.class);
        assertEquals(kind.show(model), kind.show(collection), when);
        int steps = 1 + random.nextInt(4);
        long[] seeds = random.longs(steps).toArray();
        boolean rollsBack = random.nextInt(6) == 0;
        long nested = random.nextInt(4) == 0 ? random.nextLong() : 0;
        Transaction.run(transaction -> {
            for (long seed : seeds) {
                step(collection, new Random(seed));
            }
            if (nested != 0) {
                Transaction.run(inner -> {
                    step(collection, new Random(nested));
                    if (nested % 2 == 0) {
                        inner.rollback();
                    }
                });
            }
            if (rollsBack) {
                transaction.rollback();
            }
        });
        if (!rollsBack) {
            for (long seed : seeds) {
                step(model, new Random(seed));
            }
            if (nested % 2 != 0) {
                step(model, new Random(nested));
            }
        }
        assertEquals(kind.show(model), kind.show(collection), when);
    }

    @SuppressWarnings("unchecked")
    private static void step(Object collection, Random random) {
        switch (collection) {
            case TreeMap<?, ?> map -> stepTree((TreeMap<Object, Object>) map, random);
            case LinkedHashMap<?, ?> map -> stepLinked((LinkedHashMap<Object, Object>) map, random);
            case Map<?, ?> map -> stepMap((Map<Object, Object>) map, random);
            case LinkedList<?> list -> stepList((LinkedList<Object>) list, random);
            case Deque<?> queue -> stepQueue((Deque<Object>) queue, random);
            case PriorityQueue<?> heap -> stepHeap((PriorityQueue<Object>) heap, random);
            default -> stepSet((Set<Object>) collection, random);
        }
    }

    private static Object key(Random random) {
        int number = random.nextInt(60);
        return new Same(number);
    }

    private static Object value(Random random) {
        return switch (random.nextInt(3)) {
            case 0 -> random.nextInt();
            case 1 -> "text " + random.nextInt(100);
            default -> List.of(random.nextInt());
        };
    }

    private static void stepMap(Map<Object, Object> map, Random random) {
        Object key = key(random);
        switch (random.nextInt(14)) {
            case 0, 1, 2, 3, 4 -> map.put(key, value(random));
            case 5, 6 -> map.remove(key);
            case 7 -> map.putIfAbsent(key, value(random));
            case 8 -> map.compute(key, (any, old) -> old == null ? "none" : null);
            case 9 -> map.keySet().removeIf(any -> any instanceof Same same && same.number % 7 == 3);
            case 10 -> {
                for (Map.Entry<Object, Object> entry : map.entrySet()) {
                    if (entry.getKey().equals(key)) {
                        entry.setValue(value(random));
                    }
                }
            }
            case 11 -> {
                Map<Object, Object> more = new LinkedHashMap<>();
                int count = random.nextInt(40);
                for (int i = 0; i < count; i++) {
                    more.put(key(random), i);
                }
                map.putAll(more);
            }
            case 12 -> {
                Object value = map.remove(key);
                map.put(key, value == null ? 0 : value);
            }
            default -> {
                if (random.nextInt(10) == 0) {
                    map.clear();
                }
            }
        }
    }

    private static void stepLinked(LinkedHashMap<Object, Object> map, Random random) {
        switch (random.nextInt(10)) {
            case 0 -> map.putFirst(key(random), value(random));
            case 1 -> map.putLast(key(random), value(random));
            case 2 -> map.pollFirstEntry();
            case 3 -> map.pollLastEntry();
            case 4 -> map.get(key(random));
            default -> stepMap(map, random);
        }
    }

    private static void stepTree(TreeMap<Object, Object> map, Random random) {
        switch (random.nextInt(8)) {
            case 0 -> map.pollFirstEntry();
            case 1 -> map.pollLastEntry();
            case 2 -> {
                Object key = key(random);
                if (random.nextInt(4) == 0) {
                    map.headMap(key, true).clear();
                } else {
                    map.remove(map.floorKey(key) == null ? key : map.floorKey(key));
                }
            }
            default -> stepMap(map, random);
        }
    }

    private static void stepSet(Set<Object> set, Random random) {
        Object key = key(random);
        switch (random.nextInt(8)) {
            case 0, 1, 2 -> set.add(key);
            case 3, 4 -> set.remove(key);
            case 5 -> set.removeIf(any -> any instanceof Same same && same.number % 5 == 2);
            case 6 -> set.addAll(List.of(new Same(70), new Same(71), new Same(72)));
            default -> {
                if (random.nextInt(8) == 0) {
                    set.clear();
                } else if (set instanceof LinkedHashSet<Object> linked) {
                    linked.addFirst(key);
                }
            }
        }
    }

    private static void stepQueue(Deque<Object> queue, Random random) {
        switch (random.nextInt(9)) {
            case 0, 1 -> queue.addFirst(value(random));
            case 2, 3, 4 -> queue.addLast(value(random));
            case 5 -> queue.pollFirst();
            case 6 -> queue.pollLast();
            case 7 -> queue.removeIf(any -> any.hashCode() % 5 == 0);
            default -> {
                if (random.nextInt(6) == 0) {
                    queue.clear();
                } else {
                    for (int i = 0; i < 12; i++) {
                        queue.add(i);
                    }
                }
            }
        }
    }

    private static void stepList(LinkedList<Object> list, Random random) {
        int at = random.nextInt(list.size() + 1);
        switch (random.nextInt(8)) {
            case 0, 1 -> list.add(at, value(random));
            case 2 -> {
                if (at < list.size()) {
                    list.remove(at);
                }
            }
            case 3 -> {
                if (at < list.size()) {
                    list.set(at, value(random));
                }
            }
            case 4 -> {
                ListIterator<Object> each = list.listIterator();
                while (each.hasNext()) {
                    Object value = each.next();
                    if (Objects.hashCode(value) % 4 == 0) {
                        each.remove();
                        each.add(value + "!");
                        each.add(null);
                    }
                }
                Iterator<Object> nulls = list.iterator();
                while (list.size() > 30 && nulls.hasNext()) {
                    if (nulls.next() == null) {
                        nulls.remove();
                    }
                }
            }
            case 5 -> Collections.reverse(list);
            default -> {
                list.removeIf(Objects::isNull);
                stepQueue(list, random);
            }
        }
    }

    private static void stepHeap(PriorityQueue<Object> heap, Random random) {
        switch (random.nextInt(6)) {
            case 0, 1, 2 -> heap.add(random.nextInt(1000));
            case 3 -> heap.poll();
            case 4 -> heap.removeIf(any -> any.hashCode() % 7 == 0);
            default -> {
                if (random.nextInt(8) == 0) {
                    heap.clear();
                } else {
                    heap.remove(heap.isEmpty() ? 0 : Collections.max(heap, Comparator.comparing(Object::hashCode)));
                }
            }
        }
    }

    // ---- corners

    /// J9: a commit that is refused leaves the places of entries as they were.
    @Test
    void aRefusedCommitMovesNothing() {
        Map<Object, Object> map = new LinkedHashMap<>();
        for (int i = 0; i < 100; i++) {
            map.put(i, i);
        }
        store.setRoot("collection", map);
        for (int i = 0; i < 3; i++) {
            int key = i;
            graph.refuseCommits(true);
            assertThrows(
                    StoreException.class,
                    () -> Transaction.run(() -> {
                        map.remove(key);
                        map.put("never " + key, key);
                        map.put("neither " + key, key);
                    }));
            graph.refuseCommits(false);
            Transaction.run(() -> {
                map.remove(key + 50);
                map.put("then " + key, key);
            });
        }
        String expected = map.toString();
        reopen();
        assertEquals(expected, store.root("collection", Object.class).toString());
    }

    // ---- what comes to nothing

    /// A collection, what takes it a new array or table and leaves nothing to store, and a change of that.
    private record Netted(String name, Object made, Consumer<Object> nothing, Consumer<Object> change) {
        @Override
        public String toString() {
            return name;
        }
    }

    @SuppressWarnings("unchecked")
    static Stream<Netted> netted() {
        return Stream.of(
                new Netted(
                        "ArrayList.ensureCapacity",
                        new ArrayList<>(List.of("a", "b", "c")),
                        list -> ((ArrayList<Object>) list).ensureCapacity(100),
                        list -> ((List<Object>) list).set(0, "other")),
                new Netted(
                        "Vector.trimToSize",
                        new Vector<>(List.of("a", "b", "c")),
                        list -> {
                            ((Vector<Object>) list).ensureCapacity(100);
                            ((Vector<Object>) list).trimToSize();
                        },
                        list -> Collections.reverse((List<Object>) list)),
                new Netted(
                        "ArrayList.add",
                        new ArrayList<>(new ArrayList<>(Collections.nCopies(10, "a"))),
                        list -> {
                            ((List<Object>) list).add("b");
                            ((List<Object>) list).removeLast();
                        },
                        list -> ((List<Object>) list).set(3, "other")),
                new Netted(
                        "HashMap.put",
                        new HashMap<>(numbered(12)),
                        map -> {
                            ((Map<Object, Object>) map).put(99, 99);
                            ((Map<Object, Object>) map).remove(99);
                        },
                        map -> ((Map<Object, Object>) map).remove(3)),
                new Netted(
                        "PriorityQueue.add",
                        filled(new PriorityQueue<Object>(3), 1, 2, 3),
                        heap -> {
                            ((PriorityQueue<Object>) heap).add(9);
                            ((PriorityQueue<Object>) heap).remove(9);
                        },
                        heap -> {
                            ((PriorityQueue<Object>) heap).add(0);
                            ((PriorityQueue<Object>) heap).poll();
                            ((PriorityQueue<Object>) heap).poll();
                        }));
    }

    private static Map<Object, Object> numbered(int count) {
        Map<Object, Object> map = new HashMap<>();
        for (int i = 0; i < count; i++) {
            map.put(i, i);
        }
        return map;
    }

    private static Object filled(Collection<Object> collection, Object... elements) {
        Collections.addAll(collection, elements);
        return collection;
    }

    /// J9: the new array is the collection's though nothing was stored, so that what is stored to it is not lost.
    @ParameterizedTest
    @MethodSource("netted")
    void changesWithoutEffectKeepTheirParts(Netted netted) {
        store.setRoot("collection", netted.made);
        Transaction.run(() -> netted.nothing.accept(netted.made));
        Transaction.run(() -> netted.change.accept(netted.made));
        String expected = netted.made.toString();
        reopen();
        assertEquals(expected, store.root("collection", Object.class).toString());
    }

    /// J9: as that, of a branch that has nothing to prepare.
    @ParameterizedTest
    @MethodSource("netted")
    void branchWithoutEffectKeepsItsParts(Netted netted) throws XAException {
        store.setRoot("collection", netted.made);
        XAResource resource = store.xaResource();
        TestXid branch = new TestXid(7, new byte[] {1}, new byte[0]);
        resource.start(branch, XAResource.TMNOFLAGS);
        Transaction.run(() -> netted.nothing.accept(netted.made));
        resource.end(branch, XAResource.TMSUCCESS);
        assertEquals(XAResource.XA_RDONLY, resource.prepare(branch));
        Transaction.run(() -> netted.change.accept(netted.made));
        String expected = netted.made.toString();
        reopen();
        assertEquals(expected, store.root("collection", Object.class).toString());
    }

    @Test
    void refusedValueIsNamedByItsKey() {
        Map<Object, Object> map = new HashMap<>();
        for (int i = 0; i < 100; i++) {
            map.put("key " + i, i);
        }
        store.setRoot("collection", map);
        var thrown = assertThrows(
                StoreException.class,
                () -> Transaction.run(() -> map.put("key 7", new Object[] {Thread.currentThread()})));
        assertTrue(thrown.getMessage().contains("[key 7] → [0] leads to"), thrown.getMessage());
    }

    private static boolean isReversed;

    private record Ranked(int rank) implements Comparable<Ranked> {
        @Override
        public int compareTo(Ranked other) {
            return isReversed ? Integer.compare(other.rank, rank) : Integer.compare(rank, other.rank);
        }
    }

    /// J9: as if the class had changed between two runs.
    @Test
    void heapWithNewComparatorIsStoredAnew() {
        PriorityQueue<Ranked> heap = new PriorityQueue<>();
        for (int i = 0; i < 40; i++) {
            heap.add(new Ranked(i));
        }
        store.setRoot("collection", heap);
        isReversed = true;
        try {
            reopen();
            PriorityQueue<Ranked> found = store.root("collection", PriorityQueue.class);
            Transaction.run(() -> found.add(new Ranked(100)));
            reopen();
            PriorityQueue<Ranked> again = store.root("collection", PriorityQueue.class);
            assertEquals(new HashSet<>(found), new HashSet<>(again));
            assertEquals(41, again.size());
            assertEquals(100, again.peek().rank);
        } finally {
            isReversed = false;
        }
    }

    /// J9.
    /// An entry that the program has kept is none of the map any more: when its cell is another's, and when the
    /// whole was stored since.
    @ParameterizedTest
    @ValueSource(ints = {1, 60})
    void anEntryThatHasGoneChangesNothing(int removed) {
        Map<Object, Object> map = new HashMap<>();
        for (int i = 0; i < 100; i++) {
            map.put(i, i);
        }
        store.setRoot("collection", map);
        Map.Entry<Object, Object> gone = map.entrySet().iterator().next();
        assertEquals(0, gone.getKey());
        Transaction.run(() -> map.keySet().removeIf(any -> (int) any < removed));
        Transaction.run(() -> map.put("other", 1));
        Transaction.run(() -> {
            gone.setValue("nothing");
            map.put("another", 2);
        });
        Map<Object, Object> expected = new HashMap<>(map);
        reopen();
        assertEquals(expected, store.root("collection", Object.class));
    }
}
