package cedrat.persist.woven.record;

import static org.junit.jupiter.api.Assertions.assertEquals;

import cedrat.persist.Transaction;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.BitSet;
import java.util.Collection;
import java.util.Collections;
import java.util.Deque;
import java.util.EnumMap;
import java.util.HashMap;
import java.util.HashSet;
import java.util.IdentityHashMap;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.LinkedList;
import java.util.List;
import java.util.ListIterator;
import java.util.Map;
import java.util.NavigableMap;
import java.util.PriorityQueue;
import java.util.Random;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.Vector;
import java.util.concurrent.TimeUnit;
import java.util.function.BiConsumer;
import java.util.function.Supplier;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/// Collections of `java.util` after random changes, of which some are rolled back, beside a collection that
/// has only seen the others.
class CollectionsTest {
    private static final int ROUNDS = 60;
    private static final int STEPS = 40;

    /// Changes `tested` in transactions, those that commit also `model`, and compares.
    private static <C> void compare(long seed, Supplier<C> maker, BiConsumer<C, Random> change, Shown<C> shown) {
        C tested = maker.get();
        C model = maker.get();
        Random choice = new Random(seed);
        for (int round = 0; round < ROUNDS; round++) {
            List<Long> committed = new ArrayList<>();
            run(tested, choice, change, committed);
            for (long step : committed) {
                change.accept(model, new Random(step));
            }
            String where = maker.get().getClass() + ", seed " + seed + ", round " + round;
            assertEquals(shown.show(model), shown.show(tested), where);
        }
    }

    private interface Shown<C> {
        Object show(C collection);
    }

    /// Some steps, a nested transaction with some more, and some more.
    private static <C> void run(C tested, Random choice, BiConsumer<C, Random> change, List<Long> committed) {
        boolean commits = choice.nextBoolean();
        boolean nestedCommits = choice.nextBoolean();
        List<Long> steps = new ArrayList<>();
        long[] first = choice.longs(choice.nextInt(STEPS)).toArray();
        long[] nested = choice.longs(choice.nextInt(STEPS)).toArray();
        long[] last = choice.longs(choice.nextInt(STEPS)).toArray();
        try (var transaction = Transaction.begin()) {
            apply(tested, first, change);
            try (var inner = Transaction.begin()) {
                apply(tested, nested, change);
                if (nestedCommits) {
                    inner.commit();
                }
            }
            apply(tested, last, change);
            if (commits) {
                transaction.commit();
            }
        }
        if (commits) {
            Arrays.stream(first).forEach(steps::add);
            if (nestedCommits) {
                Arrays.stream(nested).forEach(steps::add);
            }
            Arrays.stream(last).forEach(steps::add);
        }
        committed.addAll(steps);
    }

    private static <C> void apply(C tested, long[] steps, BiConsumer<C, Random> change) {
        for (long step : steps) {
            change.accept(tested, new Random(step));
        }
    }

    private static void changeMap(Map<Integer, String> map, Random random) {
        int key = random.nextInt(200);
        switch (random.nextInt(12)) {
            case 0, 1, 2, 3, 4 -> map.put(key, "value " + random.nextInt());
            case 5, 6 -> map.remove(key);
            case 7 -> map.merge(key, "merged", String::concat);
            case 8 -> map.computeIfAbsent(key, k -> "computed");
            case 9 -> map.entrySet().removeIf(entry -> entry.getKey() % 17 == key % 17);
            case 10 -> map.replaceAll((k, v) -> k % 5 == key % 5 ? "replaced" : v);
            default -> {
                if (key < 10) {
                    map.clear();
                } else if (map instanceof NavigableMap<Integer, String> sorted) {
                    sorted.pollFirstEntry();
                    sorted.headMap(key, true).remove(key);
                } else {
                    for (int i = 0; i < 30; i++) {
                        map.put(key + i, "many");
                    }
                }
            }
        }
    }

    /// J13.
    @ParameterizedTest
    @ValueSource(longs = {1, 2, 3})
    void mapsAreAsTheirModels(long seed) {
        List<Supplier<Map<Integer, String>>> makers = List.of(
                HashMap::new,
                LinkedHashMap::new,
                () -> new LinkedHashMap<>(8, 0.75f, true),
                TreeMap::new,
                java.util.Hashtable::new,
                () -> Collections.synchronizedMap(new HashMap<>()));
        for (Supplier<Map<Integer, String>> maker : makers) {
            // Order, too, where it is one; that of hash tables follows from what was put in and taken out.
            compare(seed, maker, CollectionsTest::changeMap, Map::toString);
        }
    }

    /// Keys that share their hash make trees of a hash table's buckets.
    private record Clashing(int number) implements Comparable<Clashing> {
        @Override
        public int hashCode() {
            return number % 3;
        }

        @Override
        public int compareTo(Clashing other) {
            return Integer.compare(number, other.number);
        }
    }

    @ParameterizedTest
    @ValueSource(longs = {1, 2, 3})
    void bucketsThatAreTreesAreAsTheirModels(long seed) {
        Supplier<Map<Clashing, Integer>> maker = HashMap::new;
        compare(
                seed,
                maker,
                (map, random) -> {
                    Clashing key = new Clashing(random.nextInt(120));
                    if (random.nextInt(3) == 0) {
                        map.remove(key);
                    } else {
                        map.put(key, random.nextInt());
                    }
                },
                TreeMap::new);
    }

    private static void changeCollection(Collection<Integer> collection, Random random) {
        int number = random.nextInt(100);
        switch (random.nextInt(10)) {
            case 0, 1, 2, 3 -> collection.add(number);
            case 4 -> collection.remove((Integer) number);
            case 5 -> collection.removeIf(element -> element % 13 == number % 13);
            case 6 -> collection.addAll(List.of(number, number + 1, number + 2));
            case 7 -> {
                Iterator<Integer> iterator = collection.iterator();
                for (int i = 0; i < number % 7 && iterator.hasNext(); i++) {
                    iterator.next();
                    iterator.remove();
                }
            }
            case 8 -> collection.retainAll(List.of(number, number + 2, number + 4));
            default -> {
                if (collection instanceof List<Integer> list) {
                    changeList(list, random);
                } else if (collection instanceof Deque<Integer> deque) {
                    changeDeque(deque, random);
                } else if (number < 5) {
                    collection.clear();
                }
            }
        }
    }

    private static void changeList(List<Integer> list, Random random) {
        int at = list.isEmpty() ? 0 : random.nextInt(list.size());
        switch (random.nextInt(8)) {
            case 0 -> list.add(at, random.nextInt());
            case 1 -> list.sort(null);
            case 2 -> Collections.reverse(list);
            case 3 -> Collections.shuffle(list, new Random(at));
            case 4 -> list.subList(at, list.size()).clear();
            case 5 -> list.replaceAll(element -> element + 1);
            case 6 -> {
                for (ListIterator<Integer> iterator = list.listIterator(at); iterator.hasNext(); ) {
                    iterator.set(iterator.next() + 2);
                }
            }
            default -> list.addAll(at, Collections.nCopies(40, at));
        }
    }

    private static void changeDeque(Deque<Integer> deque, Random random) {
        switch (random.nextInt(5)) {
            case 0 -> deque.addFirst(random.nextInt());
            case 1 -> deque.addLast(random.nextInt());
            case 2 -> deque.pollFirst();
            case 3 -> deque.pollLast();
            default -> {
                for (int i = 0; i < 40; i++) {
                    deque.push(i);
                }
            }
        }
    }

    /// J13.
    @ParameterizedTest
    @ValueSource(longs = {1, 2, 3})
    void collectionsAreAsTheirModels(long seed) {
        List<Supplier<Collection<Integer>>> makers = List.of(
                ArrayList::new,
                LinkedList::new,
                ArrayDeque::new,
                PriorityQueue::new,
                HashSet::new,
                LinkedHashSet::new,
                TreeSet::new,
                Vector::new,
                () -> Collections.checkedList(new ArrayList<>(), Integer.class));
        for (Supplier<Collection<Integer>> maker : makers) {
            compare(seed, maker, CollectionsTest::changeCollection, collection -> Arrays.asList(collection.toArray()));
        }
    }

    @ParameterizedTest
    @ValueSource(longs = {1, 2, 3})
    void otherCollectionsAreAsTheirModels(long seed) {
        compare(
                seed,
                BitSet::new,
                (bits, random) -> bits.flip(random.nextInt(500), 500 + random.nextInt(9)),
                b -> b.clone());
        compare(
                seed,
                () -> new EnumMap<TimeUnit, Integer>(TimeUnit.class),
                (map, random) -> map.put(TimeUnit.values()[random.nextInt(7)], random.nextInt()),
                EnumMap::clone);
        Integer[] keys = new Integer[50];
        Arrays.setAll(keys, i -> i);
        compare(
                seed,
                () -> new IdentityHashMap<Integer, Integer>(),
                (map, random) -> {
                    if (random.nextBoolean()) {
                        map.put(keys[random.nextInt(50)], random.nextInt());
                    } else {
                        map.remove(keys[random.nextInt(50)]);
                    }
                },
                HashMap::new);
        compare(
                seed,
                () -> Arrays.asList(new Integer[20]),
                (list, random) -> list.set(random.nextInt(20), random.nextInt()),
                ArrayList::new);
    }

    @Test
    void olderIteratorGoesOnAfterRollback() {
        List<Integer> list = new ArrayList<>(List.of(1, 2, 3));
        Iterator<Integer> iterator = list.iterator();
        assertEquals(1, iterator.next());
        try (var transaction = Transaction.begin()) {
            assertEquals(2, iterator.next());
            iterator.remove();
            list.add(4);
            transaction.rollback();
        }
        assertEquals(2, iterator.next());
        assertEquals(List.of(1, 2, 3), list);
    }
}
