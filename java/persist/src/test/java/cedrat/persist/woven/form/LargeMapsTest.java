package cedrat.persist.woven.form;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cedrat.persist.MemoryGraph;
import cedrat.persist.Store;
import cedrat.persist.StoreException;
import cedrat.persist.StoreOptions;
import cedrat.persist.Transaction;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicBoolean;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

/// J1h: large maps and sets are loaded, unloaded and stored by part.
class LargeMapsTest {
    /// More than three quarters of 4,096 buckets, so that there are 8,192.
    private static final int ENTRIES = 5_000;
    /// The number of [Sequences].
    private static final int SEQUENCES = 12;

    private static final int TRANSACTIONS = 16;

    /// Equal to itself alone.
    private static final class Item {
        int number;

        Item(int number) {
            this.number = number;
        }
    }

    private static final class TakenBack extends RuntimeException {
        private static final long serialVersionUID = 1;
    }

    private final MemoryGraph graph = new MemoryGraph();
    private Store store = Store.open(graph.open(), new StoreOptions());

    @AfterEach
    void close() {
        store.close();
    }

    private void reopen(long bytesMax) {
        store.close();
        store = Store.open(graph.open(), new StoreOptions().loadedBytesMax(bytesMax));
    }

    private static String key(int number) {
        return number % 50 == 0
                ? "a key that is so long that it is an object of its own, and not a part of its map " + number
                : "key " + number;
    }

    private static Map<String, Item> items(int count) {
        Map<String, Item> items = new HashMap<>();
        for (int i = 0; i < count; i++) {
            items.put(key(i), new Item(i));
        }
        return items;
    }

    @SuppressWarnings("unchecked")
    private Map<String, Item> stored() {
        return store.root("map", Map.class);
    }

    private static void assertHolds(int count, Map<String, Item> map) {
        assertEquals(count, map.size());
        Set<Integer> numbers = new HashSet<>();
        map.forEach((key, item) -> {
            assertEquals(key(item.number), key);
            numbers.add(item.number);
        });
        assertEquals(count, numbers.size());
    }

    // ---- loading

    /// J1h.
    @Test
    void readLoadsOnePart() {
        store.setRoot("map", items(ENTRIES));
        reopen(1 << 30);
        long before = graph.reads();
        assertEquals(1234, stored().get(key(1234)).number);
        assertTrue(graph.reads() - before < 200, () -> "objects read: " + (graph.reads() - before));
        assertNull(stored().get("absent"));
        assertFalse(stored().containsKey("absent too"));
        assertEquals(ENTRIES, stored().size());
        assertTrue(graph.reads() - before < 400, () -> "objects read: " + (graph.reads() - before));
        assertHolds(ENTRIES, stored());
    }

    /// J1h.
    @Test
    void changeStoresOnePart() {
        store.setRoot("map", items(ENTRIES));
        reopen(1 << 30);
        long before = graph.written();
        Transaction.run(() -> {
            stored().put("new", stored().get(key(7)));
            stored().remove(key(8));
            stored().replace(key(9), stored().get(key(10)));
        });
        assertTrue(graph.written() - before < 3_000, () -> "bytes written: " + (graph.written() - before));
        reopen(1 << 30);
        assertEquals(ENTRIES, stored().size());
        assertSame(stored().get(key(7)), stored().get("new"));
        assertNull(stored().get(key(8)));
        assertSame(stored().get(key(10)), stored().get(key(9)));
    }

    /// J1h.
    @Test
    void setIsLoadedByPart() {
        Set<Long> numbers = new HashSet<>();
        for (long i = 0; i < ENTRIES; i++) {
            numbers.add(i * i * i);
        }
        store.setRoot("set", numbers);
        reopen(1 << 30);
        long before = graph.reads();
        Set<Long> set = store.root("set", Object.class);
        assertTrue(set.contains(1_000_000L));
        assertFalse(set.contains(2L));
        assertTrue(graph.reads() - before < 10, () -> "objects read: " + (graph.reads() - before));
        Transaction.run(() -> {
            assertTrue(set.remove(1_000_000L));
            assertTrue(set.add(-1L));
            assertFalse(set.add(27L));
        });
        numbers.remove(1_000_000L);
        numbers.add(-1L);
        assertEquals(numbers, set);
        reopen(1 << 30);
        assertEquals(numbers, store.root("set", Object.class));
    }

    /// J4d.
    @Test
    void keysOfProgramAreLoadedWhole() {
        Map<Object, Object> map = new HashMap<>();
        for (int i = 0; i < ENTRIES; i++) {
            map.put(List.of(i), i);
        }
        store.setRoot("map", map);
        reopen(1 << 30);
        Map<Object, Object> loaded = store.root("map", Object.class);
        assertEquals(map, loaded);
        assertEquals(4321, loaded.get(List.of(4321)));
    }

    /// J4d.
    @Test
    void keyOfProgramEndsParts() {
        store.setRoot("map", items(ENTRIES));
        reopen(1 << 30);
        Map<Object, Object> map = store.root("map", Object.class);
        Object own = new Item(0);
        Transaction.run(() -> {
            map.put(own, "its value");
            map.remove(key(3));
        });
        assertEquals("its value", map.get(own));
        reopen(1 << 30);
        Map<Object, Object> loaded = store.root("map", Object.class);
        assertEquals(ENTRIES, loaded.size());
        assertNull(loaded.get(key(3)));
        assertEquals(4, ((Item) loaded.get(key(4))).number);
        assertTrue(loaded.containsValue("its value"));
        Transaction.run(() -> loaded.keySet().removeIf(key -> key instanceof Item));
        Transaction.run(() -> items(3 * ENTRIES).forEach(loaded::putIfAbsent));
        reopen(1 << 30);
        assertHolds(3 * ENTRIES, stored());
        reopen(1 << 30);
        long before = graph.reads();
        assertEquals(11_111, stored().get(key(11_111)).number);
        assertTrue(graph.reads() - before < 400, () -> "objects read: " + (graph.reads() - before));
    }

    // ---- unloading

    /// J7.
    @Test
    void walkUnloadsWhatIsBehind() {
        store.setRoot("map", items(ENTRIES));
        reopen(20_000);
        for (int walk = 0; walk < 3; walk++) {
            Set<Integer> numbers = new HashSet<>();
            for (Map.Entry<String, Item> entry : stored().entrySet()) {
                assertEquals(key(entry.getValue().number), entry.getKey());
                numbers.add(entry.getValue().number);
            }
            assertEquals(ENTRIES, numbers.size());
        }
        // Of three walks each reads the parts, and only some of the objects, which the virtual machine may have yet.
        assertTrue(graph.reads() > ENTRIES + 200, () -> "objects read: " + graph.reads());
    }

    /// J7d.
    @Test
    void heldEntryIsStoredAfterUnloading() {
        store.setRoot("map", items(ENTRIES));
        reopen(20_000);
        Map<String, Item> map = stored();
        Map.Entry<String, Item> held = null;
        for (Map.Entry<String, Item> entry : map.entrySet()) {
            if (entry.getKey().equals(key(77))) {
                held = entry;
            }
        }
        assertNotNull(held);
        for (Item item : map.values()) {
            assertNotNull(item);
        }
        Map.Entry<String, Item> entry = held;
        Item other = new Item(-77);
        Transaction.run(() -> entry.setValue(other));
        assertSame(other, map.get(key(77)));
        for (Map.Entry<String, Item> one : map.entrySet()) {
            if (one.getKey().equals(key(77))) {
                assertSame(entry, one);
            }
        }
        reopen(20_000);
        assertEquals(-77, stored().get(key(77)).number);
    }

    /// J7.
    @Test
    void readersMissNothingWhileOthersUnload() throws InterruptedException, ExecutionException {
        store.setRoot("map", items(ENTRIES));
        reopen(30_000);
        Map<String, Item> map = stored();
        AtomicBoolean isOver = new AtomicBoolean();
        try (ExecutorService threads = Executors.newFixedThreadPool(3)) {
            List<Future<Object>> readers = new ArrayList<>();
            for (int reader = 0; reader < 3; reader++) {
                Random random = new Random(reader);
                Callable<Object> reads = () -> {
                    while (!isOver.get()) {
                        int number = random.nextInt(ENTRIES);
                        assertEquals(number, map.get(key(number)).number);
                    }
                    return null;
                };
                readers.add(threads.submit(reads));
            }
            for (int i = 0; i < 3; i++) {
                int walked = 0;
                for (Map.Entry<String, Item> entry : map.entrySet()) {
                    walked++;
                    assertNotNull(entry.getValue());
                }
                assertEquals(ENTRIES, walked);
                int count = i;
                Transaction.run(() -> {
                    for (int number = count; number < ENTRIES; number += 97) {
                        map.put(key(number), new Item(number));
                    }
                });
            }
            isOver.set(true);
            for (Future<Object> reader : readers) {
                reader.get();
            }
        }
    }

    /// J7.2d.
    @Test
    void closedStoreRefusesUnloadedEntries() {
        store.setRoot("map", items(ENTRIES));
        reopen(1 << 30);
        Map<String, Item> map = stored();
        assertEquals(5, map.get(key(5)).number);
        store.close();
        assertEquals(5, map.get(key(5)).number);
        int refused = 0;
        for (int i = 0; i < ENTRIES; i++) {
            try {
                assertEquals(i, map.get(key(i)).number);
            } catch (IllegalStateException closed) {
                assertTrue(closed.getMessage().startsWith("the store is closed"));
                refused++;
            }
        }
        assertTrue(refused > ENTRIES / 2, "refused: " + refused);
        store = Store.open(graph.open(), new StoreOptions());
        Map<String, Item> whole = stored();
        assertHolds(ENTRIES, whole);
        store.close();
        assertHolds(ENTRIES, whole);
        assertNull(whole.get("absent"));
        store = Store.open(graph.open(), new StoreOptions());
    }

    // ---- beside a copy

    /// J1h, J9.
    @Test
    void largeMapsAreAsTheirCopies() {
        Sequences.run(SEQUENCES, seed -> new Sequence(seed).run());
    }

    /// A map and a set in a store, and their plain copies.
    private final class Sequence {
        private final Random random;
        private final int keys;
        private Map<String, Integer> map = new HashMap<>();
        private Set<Object> set = new HashSet<>();

        Sequence(long seed) {
            random = new Random(seed);
            // Some never reach the size from which on they have parts, some grow later.
            keys = 2_000 + random.nextInt(3) * 3_000;
        }

        void run() {
            Map<String, Integer> firstMap = new HashMap<>();
            Set<Object> firstSet = new HashSet<>();
            for (int i = 0; i < keys / 2; i++) {
                long number = random.nextLong();
                change(firstMap, firstSet, number);
                change(map, set, number);
            }
            Object[] both = {firstMap, firstSet};
            store.setRoot("both", both);
            for (int i = 0; i < TRANSACTIONS; i++) {
                transact();
                check();
                rest();
            }
        }

        private void rest() {
            switch (random.nextInt(5)) {
                case 0 -> store.collect();
                case 1 -> reopen(random.nextBoolean() ? 1 << 30 : 10_000);
                default -> {}
            }
        }

        private Map<String, Integer> ofStore() {
            Object[] both = store.root("both", Object.class);
            return asMap(both[0]);
        }

        @SuppressWarnings("unchecked")
        private Map<String, Integer> asMap(Object one) {
            return (Map<String, Integer>) one;
        }

        @SuppressWarnings("unchecked")
        private Set<Object> setOfStore() {
            Object[] both = store.root("both", Object.class);
            return (Set<Object>) both[1];
        }

        private void transact() {
            int count = 1 + random.nextInt(random.nextInt(4) == 0 ? keys : 30);
            long[] numbers = random.longs(count).toArray();
            long[] nested = random.longs(random.nextInt(20)).toArray();
            boolean rollsBack = random.nextInt(4) == 0;
            boolean isRefused = random.nextInt(6) == 0;
            boolean keepsNested = random.nextBoolean();
            graph.refuseCommits(isRefused);
            try {
                Transaction.run(() -> {
                    apply(ofStore(), setOfStore(), numbers);
                    attempt(nested, keepsNested);
                    if (rollsBack) {
                        throw new TakenBack();
                    }
                });
            } catch (TakenBack | StoreException e) {
                assertTrue(rollsBack || isRefused);
                return;
            } finally {
                graph.refuseCommits(false);
            }
            apply(map, set, numbers);
            if (keepsNested) {
                apply(map, set, nested);
            }
        }

        private void attempt(long[] numbers, boolean isKept) {
            try {
                Transaction.run(() -> {
                    apply(ofStore(), setOfStore(), numbers);
                    if (!isKept) {
                        throw new TakenBack();
                    }
                });
            } catch (TakenBack e) {
                assertFalse(isKept);
            }
        }

        private void apply(Map<String, Integer> toMap, Set<Object> toSet, long[] numbers) {
            for (long number : numbers) {
                change(toMap, toSet, number);
            }
        }

        private void change(Map<String, Integer> toMap, Set<Object> toSet, long number) {
            Random choice = new Random(number);
            String key = key(choice.nextInt(keys));
            int value = choice.nextInt(100);
            switch (choice.nextInt(16)) {
                case 0 -> toMap.remove(key);
                case 1 -> toMap.merge(key, value, Integer::sum);
                case 2 -> toMap.computeIfAbsent(key, absent -> value);
                case 3 -> toMap.computeIfPresent(key, (same, old) -> old > 50 ? null : old + 1);
                case 4 -> toMap.compute(key, (same, old) -> old == null ? value : null);
                case 5 -> toMap.putIfAbsent(key, value);
                case 6 -> toSet.remove(key);
                case 7 -> toSet.add(value % 2 == 0 ? null : (Object) (value * 1_000_003L));
                case 8 -> {
                    if (choice.nextInt(200) == 0) {
                        rarely(toMap, toSet, choice);
                    }
                }
                case 9, 10, 11 -> toSet.add(key);
                default -> toMap.put(key, value);
            }
        }

        private void rarely(Map<String, Integer> toMap, Set<Object> toSet, Random choice) {
            int limit = choice.nextInt(100);
            switch (choice.nextInt(6)) {
                case 0 -> toMap.clear();
                case 1 -> toMap.values().removeIf(value -> value > limit);
                case 2 -> toMap.replaceAll((key, value) -> value ^ 1);
                case 3 -> {
                    for (Iterator<Map.Entry<String, Integer>> all =
                                    toMap.entrySet().iterator();
                            all.hasNext(); ) {
                        Map.Entry<String, Integer> entry = all.next();
                        if (entry.getValue() == limit) {
                            all.remove();
                        } else if (entry.getValue() > limit) {
                            entry.setValue(limit + 1);
                        }
                    }
                }
                case 4 -> toSet.retainAll(new HashSet<>(toMap.keySet()));
                default -> toSet.addAll(toMap.keySet());
            }
        }

        private void check() {
            assertEquals(map, new HashMap<>(ofStore()));
            assertEquals(map.size(), ofStore().size());
            assertEquals(set, new HashSet<>(setOfStore()));
            try (Store other = Store.open(graph.open(), new StoreOptions())) {
                Object[] both = other.root("both", Object.class);
                assertEquals(map, both[0]);
                assertEquals(set, both[1]);
            }
        }
    }
}
