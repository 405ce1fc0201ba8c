package cedrat.persist.woven.form;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cedrat.persist.StoreException;
import cedrat.persist.Transaction;
import cedrat.persist.woven.store.StoreFixture;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.Deque;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.Queue;
import java.util.Random;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedDeque;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.ConcurrentMap;
import java.util.concurrent.ConcurrentNavigableMap;
import java.util.concurrent.ConcurrentSkipListMap;
import java.util.concurrent.ConcurrentSkipListSet;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.CopyOnWriteArraySet;
import java.util.concurrent.FutureTask;
import java.util.concurrent.LinkedBlockingDeque;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.function.Consumer;
import java.util.function.Supplier;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/// J5f: collections of `java.util.concurrent` are stored, locked and restored as a whole.
@Timeout(60)
class ConcurrentCollectionsTest extends StoreFixture {
    /// How a collection is changed.
    private record Change(String name, Object made, Consumer<Object> work) {
        @Override
        public String toString() {
            return name;
        }
    }

    private static <T> Change change(String name, T made, Consumer<? super T> work) {
        return new Change(name, made, changed -> work.accept(cast(changed)));
    }

    @SuppressWarnings("unchecked")
    private static <T> T cast(Object object) {
        return (T) object;
    }

    private static <M extends Map<Integer, String>> M filled(M map) {
        IntStream.range(0, 40).forEach(i -> map.put(i * 7919 % 1009, "value " + i));
        return map;
    }

    private static <C extends Collection<Integer>> C filled(C collection) {
        IntStream.range(0, 40).forEach(i -> collection.add(i * 7919 % 1009));
        return collection;
    }

    private static String show(Object object) {
        return switch (object) {
            case ConcurrentHashMap<?, ?> map -> new TreeMap<>(map).toString();
            case ConcurrentHashMap.KeySetView<?, ?> keys -> new ConcurrentSkipListSet<>(keys).toString();
            default -> object.toString();
        };
    }

    private static final int FIRST = 0;
    private static final int SECOND = 7919 % 1009;
    private static final int NEW = 5000;

    static Stream<Change> changes() {
        return Stream.of(changesOfMaps(), changesOfViews(), changesOfCollections(), changesByOthers())
                .flatMap(all -> all);
    }

    private static <M extends ConcurrentMap<Integer, String>> Stream<Change> changes(String name, Supplier<M> maker) {
        return Stream.of(
                change(name + ".put", filled(maker.get()), map -> map.put(NEW, "new")),
                change(name + ".put of an old key", filled(maker.get()), map -> map.put(FIRST, "new")),
                change(name + ".remove", filled(maker.get()), map -> map.remove(FIRST)),
                change(name + ".compute", filled(maker.get()), map -> map.compute(FIRST, (key, value) -> value + "!")),
                change(name + ".merge", filled(maker.get()), map -> map.merge(SECOND, "!", String::concat)),
                change(name + ".computeIfAbsent", filled(maker.get()), map -> map.computeIfAbsent(NEW, key -> "made")),
                change(
                        name + ".computeIfPresent",
                        filled(maker.get()),
                        map -> map.computeIfPresent(FIRST, (key, value) -> null)),
                change(name + ".replaceAll", filled(maker.get()), map -> map.replaceAll((key, value) -> value + key)),
                change(name + ".clear", filled(maker.get()), Map::clear),
                change(
                        name + ".putAll",
                        filled(maker.get()),
                        map -> map.putAll(
                                IntStream.range(0, 500).boxed().collect(Collectors.toMap(i -> i, i -> "all")))));
    }

    private static Stream<Change> changesOfMaps() {
        return Stream.concat(
                changes("ConcurrentHashMap", ConcurrentHashMap::new),
                Stream.concat(
                        changes("ConcurrentSkipListMap", ConcurrentSkipListMap::new),
                        Stream.of(change(
                                "ConcurrentSkipListMap.pollFirstEntry",
                                filled(new ConcurrentSkipListMap<>(Collections.reverseOrder())),
                                ConcurrentSkipListMap::pollFirstEntry))));
    }

    private static <M extends ConcurrentMap<Integer, String>> Stream<Change> viewsOf(String name, Supplier<M> maker) {
        return Stream.of(
                change(name + ".keySet.remove", filled(maker.get()), map -> map.keySet()
                        .remove(FIRST)),
                change(name + ".keySet.removeAll", filled(maker.get()), map -> map.keySet()
                        .removeAll(List.of(FIRST, SECOND))),
                change(name + ".keySet.retainAll", filled(maker.get()), map -> map.keySet()
                        .retainAll(Set.of(FIRST, SECOND))),
                change(name + ".values.removeIf", filled(maker.get()), map -> map.values()
                        .removeIf(value -> value.endsWith("1"))),
                change(name + ".values.remove", filled(maker.get()), map -> map.values()
                        .remove("value 3")),
                change(name + ".entrySet.removeIf", filled(maker.get()), map -> map.entrySet()
                        .removeIf(entry -> entry.getKey() > 500)),
                change(name + ".values.clear", filled(maker.get()), map -> map.values()
                        .clear()),
                change(name + " iterator.remove", filled(maker.get()), map -> {
                    Iterator<Integer> keys = map.keySet().iterator();
                    keys.next();
                    keys.remove();
                }));
    }

    private static Stream<Change> changesOfViews() {
        return Stream.concat(
                viewsOf("ConcurrentHashMap", ConcurrentHashMap::new),
                Stream.concat(
                        viewsOf("ConcurrentSkipListMap", ConcurrentSkipListMap::new),
                        Stream.of(
                                change(
                                        "entry.setValue",
                                        filled(new ConcurrentHashMap<>()),
                                        map -> map.entrySet().iterator().next().setValue("set")),
                                change("keySet(value).add", filled(new ConcurrentHashMap<>()), map -> map.keySet("by")
                                        .add(NEW)),
                                change("subMap.put", filled(new ConcurrentSkipListMap<>()), map -> map.tailMap(900)
                                        .put(NEW, "new")),
                                change(
                                        "descendingMap.pollFirstEntry",
                                        filled(new ConcurrentSkipListMap<>()),
                                        map -> map.descendingMap().pollFirstEntry()),
                                change(
                                        "subMap.keySet.clear",
                                        filled(new ConcurrentSkipListMap<>()),
                                        map -> map.headMap(500).keySet().clear()),
                                change("subSet.add", filled(new ConcurrentSkipListSet<>()), set -> set.tailSet(900)
                                        .add(NEW)),
                                change(
                                        "descendingSet.pollFirst",
                                        filled(new ConcurrentSkipListSet<>()),
                                        set -> set.descendingSet().pollFirst()),
                                change("subList.set", filled(new CopyOnWriteArrayList<>()), list -> list.subList(2, 5)
                                        .set(1, NEW)),
                                change("reversed.add", filled(new CopyOnWriteArrayList<>()), list -> list.reversed()
                                        .add(NEW)),
                                change("reversed deque", filled(new LinkedBlockingDeque<>()), deque -> deque.reversed()
                                        .addFirst(NEW)))));
    }

    private static Stream<Change> changesOfCollections() {
        return Stream.of(
                change("newKeySet.add", filled(ConcurrentHashMap.<Integer>newKeySet()), set -> set.add(NEW)),
                change("newKeySet.remove", filled(ConcurrentHashMap.<Integer>newKeySet()), set -> set.remove(FIRST)),
                change("ConcurrentSkipListSet.add", filled(new ConcurrentSkipListSet<>()), set -> set.add(NEW)),
                change(
                        "ConcurrentSkipListSet.pollLast",
                        filled(new ConcurrentSkipListSet<>(Collections.reverseOrder())),
                        ConcurrentSkipListSet::pollLast),
                change("CopyOnWriteArrayList.add", filled(new CopyOnWriteArrayList<>()), list -> list.add(NEW)),
                change("CopyOnWriteArrayList.sort", filled(new CopyOnWriteArrayList<>()), list -> list.sort(null)),
                change("CopyOnWriteArraySet.add", filled(new CopyOnWriteArraySet<>()), set -> set.add(NEW)),
                change(
                        "CopyOnWriteArraySet.removeIf",
                        filled(new CopyOnWriteArraySet<>()),
                        set -> set.removeIf(number -> number > 500)),
                change("ConcurrentLinkedQueue.add", filled(new ConcurrentLinkedQueue<>()), queue -> queue.add(NEW)),
                change("ConcurrentLinkedQueue.poll", filled(new ConcurrentLinkedQueue<>()), Queue::poll),
                change(
                        "ConcurrentLinkedDeque.addFirst",
                        filled(new ConcurrentLinkedDeque<>()),
                        deque -> deque.addFirst(NEW)),
                change("ConcurrentLinkedDeque.pollLast", filled(new ConcurrentLinkedDeque<>()), Deque::pollLast),
                change(
                        "LinkedBlockingQueue.put",
                        filled(new LinkedBlockingQueue<>(50)),
                        queue -> wait(() -> queue.put(NEW))),
                change("LinkedBlockingQueue.take", filled(new LinkedBlockingQueue<>()), queue -> wait(queue::take)),
                change(
                        "LinkedBlockingDeque.pollLast",
                        filled(new LinkedBlockingDeque<>(50)),
                        LinkedBlockingDeque::pollLast),
                change("LinkedBlockingDeque.clear", filled(new LinkedBlockingDeque<>()), Collection::clear),
                change("ArrayBlockingQueue.add", filled(new ArrayBlockingQueue<>(50, true)), queue -> {
                    wait(queue::take);
                    queue.add(NEW);
                }),
                change(
                        "ArrayBlockingQueue.removeIf",
                        filled(new ArrayBlockingQueue<>(50)),
                        queue -> queue.removeIf(number -> number > 500)));
    }

    /// By classes of the JDK, for the program.
    private static Stream<Change> changesByOthers() {
        return Stream.of(
                change("drainTo", filled(new ConcurrentLinkedQueue<>()), queue -> new LinkedBlockingQueue<>(
                                List.of(NEW))
                        .drainTo(queue)),
                change("drained", filled(new LinkedBlockingQueue<>()), queue -> queue.drainTo(new ArrayList<>(), 3)),
                change("Collectors", filled(new ConcurrentSkipListSet<>()), set -> Stream.of(NEW)
                        .collect(Collectors.toCollection(() -> set))),
                change(
                        "Collections.addAll",
                        filled(new CopyOnWriteArrayList<>()),
                        list -> Collections.addAll(list, NEW)),
                change("synchronizedMap", filled(new ConcurrentHashMap<>()), map -> Collections.synchronizedMap(map)
                        .put(NEW, "new")),
                change("a method reference", filled(new ConcurrentLinkedQueue<>()), queue -> List.of(NEW)
                        .forEach(queue::add)));
    }

    private interface Waiting {
        void run() throws InterruptedException;
    }

    private static void wait(Waiting work) {
        try {
            work.run();
        } catch (InterruptedException e) {
            throw new AssertionError(e);
        }
    }

    /// J5f.
    @ParameterizedTest
    @MethodSource("changes")
    void persistentCollectionChangesInTransaction(Change change) {
        String before = show(change.made);
        Object found = again(change.made);
        assertSame(change.made.getClass(), found.getClass());
        assertEquals(before, show(found));
        assertThrows(IllegalStateException.class, () -> change.work.accept(found));
        Transaction.run(transaction -> {
            change.work.accept(found);
            assertNotEquals(before, show(found));
            transaction.rollback();
        });
        assertEquals(before, show(found));
        Transaction.run(() -> change.work.accept(found));
        String after = show(found);
        // The store of the first one is closed.
        change.work.accept(change.made);
        assertEquals(show(change.made), after);
        assertNotEquals(before, after);
        assertEquals(after, show(reopened()));
    }

    /// J9.
    @ParameterizedTest
    @MethodSource("changes")
    void nestedRollbackRestoresOuterChanges(Change change) {
        Object found = again(change.made);
        Transaction.run(outer -> {
            change.work.accept(found);
            String between = show(found);
            Transaction.run(inner -> {
                if (found instanceof Map<?, ?> map) {
                    map.clear();
                } else {
                    ((Collection<?>) found).clear();
                }
                inner.rollback();
            });
            assertEquals(between, show(found));
            outer.commit();
        });
        String after = show(found);
        assertEquals(after, show(reopened()));
    }

    /// Its hash code is that of many others.
    private record Key(int number) implements Comparable<Key> {
        @Override
        public int hashCode() {
            return number % 3;
        }

        @Override
        public int compareTo(Key other) {
            return Integer.compare(number, other.number);
        }
    }

    /// J5f, J5g: tables that grow, and bins that become trees and lists again.
    @Test
    void randomChangesAgreeWithPlainMaps() {
        Random random = new Random(11);
        Map<Key, Integer> model = new TreeMap<>();
        ConcurrentHashMap<Key, Integer> map = again(new ConcurrentHashMap<>());
        for (int round = 0; round < 150; round++) {
            ConcurrentHashMap<Key, Integer> now = map;
            Map<Key, Integer> changed = new TreeMap<>(model);
            boolean isCommitted = Transaction.call(transaction -> {
                for (int i = random.nextInt(40); i >= 0; i--) {
                    Key key = new Key(random.nextInt(60));
                    if (random.nextInt(5) < 2) {
                        assertEquals(changed.remove(key), now.remove(key));
                    } else {
                        assertEquals(changed.put(key, round(i)), now.put(key, round(i)));
                    }
                }
                boolean isKept = random.nextBoolean();
                if (!isKept) {
                    transaction.rollback();
                }
                return isKept;
            });
            if (isCommitted) {
                model = changed;
            }
            assertEquals(model, new TreeMap<>(map));
            assertEquals(model.size(), map.size());
            for (Key key : model.keySet()) {
                assertEquals(model.get(key), map.get(key));
            }
            if (random.nextInt(10) == 0) {
                map = reopened();
            }
        }
    }

    private static int round(int number) {
        return 31 * number;
    }

    /// J4.
    @Test
    void capacityAndSharedMapComeBack() {
        ConcurrentHashMap<Integer, String> map = filled(new ConcurrentHashMap<>());
        BlockingQueue<Integer> bounded = new ArrayBlockingQueue<>(3, true);
        bounded.add(1);
        List<Object> found = again(new ArrayList<>(List.of(map, map.keySet(), map.keySet("by"), bounded)));
        Map<Integer, String> foundMap = cast(found.get(0));
        assertSame(foundMap.keySet(), found.get(1));
        Transaction.run(() -> assertTrue(
                ConcurrentCollectionsTest.<Set<Integer>>cast(found.get(2)).add(NEW)));
        assertEquals("by", foundMap.get(NEW));
        assertEquals(2, ((BlockingQueue<?>) found.get(3)).remainingCapacity());
    }

    /// J4: an element refers to its collection.
    @Test
    void collectionContainingItselfComesBack() {
        ConcurrentHashMap<String, Object> map = new ConcurrentHashMap<>();
        CopyOnWriteArrayList<Object> list = new CopyOnWriteArrayList<>(List.of(map));
        map.put("list", list);
        ConcurrentHashMap<String, Object> found = again(map);
        assertSame(found, ((List<?>) found.get("list")).get(0));
    }

    private static final class Item {
        int number;

        Item(int number) {
            this.number = number;
        }
    }

    /// J4, J12: elements are objects of the store.
    @Test
    void removedElementsAreCollected() {
        ConcurrentHashMap<String, Item> map = new ConcurrentHashMap<>(Map.of("a", new Item(1), "b", new Item(2)));
        store.setRoot("it", map);
        Transaction.run(() -> {
            map.get("a").number = 5;
            map.remove("b");
        });
        Map<String, Item> found = reopened();
        // The key, and the value.
        assertEquals(2, store.collect());
        assertEquals(5, found.get("a").number);
    }

    /// J3.2, J5f: whatever type the program gives to it, a read locks the map.
    @Test
    void readsLockTheCollection() throws Exception {
        store.setRoot("it", new ConcurrentHashMap<>(Map.of("count", 0)));
        Map<String, Integer> counts = store.root("it", Map.class);
        List<FutureTask<Void>> tasks = new ArrayList<>();
        for (int i = 0; i < 4; i++) {
            tasks.add(new FutureTask<>(
                    () -> {
                        for (int round = 0; round < 200; round++) {
                            Transaction.run(() -> {
                                int count = counts.get("count");
                                counts.put("count", count + 1);
                            });
                        }
                    },
                    null));
        }
        tasks.forEach(task -> Thread.ofPlatform().daemon().start(task));
        for (FutureTask<Void> task : tasks) {
            task.get();
        }
        assertEquals(800, counts.get("count"));
    }

    /// J5: in a transaction, one thread does it.
    @Test
    void bulkOperationsRunInTheTransaction() {
        ConcurrentHashMap<Integer, String> map = again(filled(new ConcurrentHashMap<>()));
        List<Integer> seen = new ArrayList<>();
        Transaction.run(transaction -> {
            map.forEach(1, (key, value) -> seen.add(key));
            map.forEachKey(1, key -> map.put(key, "seen"));
            assertEquals(40, map.reduceValuesToInt(1, value -> value.equals("seen") ? 1 : 0, 0, Integer::sum));
            transaction.rollback();
        });
        assertEquals(List.of(), seen);
        assertEquals("value 0", map.get(FIRST));
    }

    /// J5: a transaction would wait for itself.
    @Test
    void waitingForPersistentQueueIsRefused() {
        LinkedBlockingQueue<Integer> queue = again(new LinkedBlockingQueue<>(1));
        assertRefused("poll", () -> wait(queue::take));
        Transaction.run(() -> assertTrue(queue.offer(1)));
        assertRefused("offer", () -> wait(() -> queue.put(2)));
        assertRefused("removeIf", () -> {
            Iterator<Integer> all = queue.iterator();
            all.next();
            all.remove();
        });
        assertEquals(1, queue.size());
    }

    private static void assertRefused(String says, Runnable work) {
        var thrown = assertThrows(UnsupportedOperationException.class, () -> Transaction.run(work::run));
        assertTrue(thrown.getMessage().contains(says), thrown.getMessage());
    }

    /// J4.
    @Test
    void viewsOfConcurrentCollectionsAreRefused() {
        ConcurrentSkipListMap<Integer, String> map = filled(new ConcurrentSkipListMap<>());
        ConcurrentNavigableMap<Integer, String> part = map.headMap(500);
        List<Object> views = List.of(
                part,
                map.keySet(),
                map.values(),
                filled(new ConcurrentHashMap<>()).values(),
                filled(new ConcurrentHashMap<>()).entrySet().iterator().next(),
                filled(new CopyOnWriteArrayList<>()).subList(1, 2),
                filled(new ConcurrentSkipListSet<>()).headSet(500));
        for (Object view : views) {
            var thrown = assertThrows(StoreException.class, () -> store.setRoot("it", view));
            assertTrue(thrown.getMessage().contains("copy it"), thrown.getMessage());
        }
    }

    /// J5: an ordinary one is older than the transaction.
    @Test
    void viewOfOrdinaryMapIsRefused() {
        ConcurrentHashMap<Integer, String> map = filled(new ConcurrentHashMap<>());
        store.setRoot("it", new ConcurrentHashMap<>());
        assertRefused("ConcurrentHashMap", () -> map.keySet().remove(FIRST));
        Transaction.run(() -> {
            ConcurrentHashMap<Integer, String> made = new ConcurrentHashMap<>();
            made.put(1, "made");
            made.keySet().remove(1);
            assertEquals(0, made.size());
        });
        assertEquals(40, map.size());
    }

    /// J9.
    @Test
    void entryKeepsItsValueAfterRollback() {
        ConcurrentHashMap<Integer, String> map = again(new ConcurrentHashMap<>(Map.of(1, "old")));
        Map.Entry<Integer, String> entry = map.entrySet().iterator().next();
        Transaction.run(transaction -> {
            entry.setValue("new");
            transaction.rollback();
        });
        assertEquals("old", entry.getValue());
    }
}
