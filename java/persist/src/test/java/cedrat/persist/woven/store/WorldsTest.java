package cedrat.persist.woven.store;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cedrat.persist.MemoryGraph;
import cedrat.persist.Store;
import cedrat.persist.StoreOptions;
import cedrat.persist.Transaction;
import java.math.BigInteger;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.IdentityHashMap;
import java.util.LinkedHashMap;
import java.util.LinkedList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Random;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/// Random graphs of objects after random transactions, of which some roll back, over openings of the store, beside
/// such a graph in memory that has only seen those that committed.
class WorldsTest {
    private static final int ROUNDS = 60;
    private static final int STEPS = 25;

    private static class Thing {
        int number;
        byte[] bytes = {1, 2, 3};
        Thing left;
        Object any;
        final List<Object> list = new ArrayList<>();
        Map<String, Object> map = new LinkedHashMap<>();
    }

    private static final class Special extends Thing {
        long big;
        String text = "special";
        Thing right;
        Object[] array = new Object[4];
        final TreeMap<Integer, Thing> sorted = new TreeMap<>();
        Set<Object> set = new HashSet<>();
        LinkedList<Object> linked = new LinkedList<>();
    }

    private record Pair(Thing thing, Object other) {}

    private static final class World {
        final ArrayList<Thing> things = new ArrayList<>();
    }

    // ---- what happens

    private static Object any(World world, Random random) {
        return switch (random.nextInt(12)) {
            case 0 -> random.nextInt();
            case 1 -> random.nextLong();
            case 2 -> TimeUnit.values()[random.nextInt(7)];
            case 3 -> BigInteger.valueOf(random.nextLong()).pow(3);
            case 4 -> new int[] {random.nextInt(), 2};
            case 5 -> new Pair(thing(world, random), "pair " + random.nextInt(100));
            case 6 -> List.of("list", random.nextInt(10));
            case 7 -> Optional.of(random.nextDouble());
            case 8 -> "text " + random.nextInt(1000);
            case 9 -> new ArrayList<>(Arrays.asList(thing(world, random), null, 7));
            case 10 -> null;
            default -> thing(world, random);
        };
    }

    private static Thing thing(World world, Random random) {
        return world.things.isEmpty() ? null : world.things.get(random.nextInt(world.things.size()));
    }

    private static void step(World world, Random random) {
        Thing thing = thing(world, random);
        if (thing == null || random.nextInt(6) == 0) {
            Thing made = random.nextBoolean() ? new Thing() : new Special();
            made.left = thing;
            world.things.add(made);
        } else if (random.nextInt(25) == 0) {
            world.things.remove(random.nextInt(world.things.size()));
        } else if (thing instanceof Special special && random.nextBoolean()) {
            change(world, special, random);
        } else {
            change(world, thing, random);
        }
    }

    private static void change(World world, Thing thing, Random random) {
        switch (random.nextInt(9)) {
            case 0 -> thing.number = random.nextInt();
            case 1 -> thing.bytes[random.nextInt(thing.bytes.length)]++;
            case 2 -> thing.left = random.nextInt(4) == 0 ? null : thing(world, random);
            case 3 -> thing.any = any(world, random);
            case 4 -> thing.list.add(any(world, random));
            case 5 -> changeList(world, thing.list, random);
            case 6 -> thing.map.put("key " + random.nextInt(9), any(world, random));
            case 7 -> thing.map.remove("key " + random.nextInt(9));
            default -> thing.bytes = new byte[random.nextInt(20) + 1];
        }
    }

    private static void changeList(World world, List<Object> list, Random random) {
        if (list.isEmpty()) {
            list.addAll(List.of(1, 2, 3, 4, 5, 6, 7, 8, 9));
            return;
        }
        int at = random.nextInt(list.size());
        switch (random.nextInt(5)) {
            case 0 -> list.set(at, any(world, random));
            case 1 -> list.remove(at);
            case 2 -> list.add(at, any(world, random));
            case 3 -> list.subList(at, list.size()).clear();
            default -> list.removeLast();
        }
    }

    private static void change(World world, Special thing, Random random) {
        switch (random.nextInt(9)) {
            case 0 -> thing.big = random.nextLong();
            case 1 -> thing.text = random.nextInt(5) == 0 ? null : "text " + random.nextInt();
            case 2 -> thing.right = thing(world, random);
            case 3 -> thing.array[random.nextInt(4)] = any(world, random);
            case 4 -> thing.sorted.put(random.nextInt(30), thing(world, random));
            case 5 -> thing.sorted.pollFirstEntry();
            case 6 -> thing.set.add(random.nextInt(30));
            case 7 -> thing.set.remove(random.nextInt(30));
            default -> {
                thing.linked.addFirst(any(world, random));
                if (thing.linked.size() > 5) {
                    thing.linked.remove(3);
                }
            }
        }
    }

    // ---- what there is

    /// The world as a text: every object by its number, in the order in which one comes to it.
    private static final class Shown {
        private final StringBuilder out = new StringBuilder();
        private final IdentityHashMap<Object, Integer> numbers = new IdentityHashMap<>();
        private final List<Object> found = new ArrayList<>();

        static String of(World world) {
            Shown shown = new Shown();
            shown.reference(world.things);
            for (int i = 0; i < shown.found.size(); i++) {
                shown.out.append('\n').append(i).append(' ');
                shown.object(shown.found.get(i));
            }
            return shown.out.toString();
        }

        private void reference(Object object) {
            boolean isValue = object == null
                    || object instanceof Number && !(object instanceof BigInteger)
                    || object instanceof Enum
                    || object instanceof String;
            if (isValue) {
                out.append(object).append(' ');
                return;
            }
            Integer number = numbers.get(object);
            if (number == null) {
                number = numbers.size();
                numbers.put(object, number);
                found.add(object);
            }
            out.append('#').append(number).append(' ');
        }

        private void all(Iterable<?> objects) {
            out.append(objects.getClass().getSimpleName()).append(' ');
            objects.forEach(this::reference);
        }

        private void object(Object object) {
            switch (object) {
                case Special thing -> {
                    thing(thing);
                    out.append(thing.big).append(' ');
                    for (Object one :
                            new Object[] {thing.text, thing.right, thing.array, thing.sorted, thing.set, thing.linked
                            }) {
                        reference(one);
                    }
                }
                case Thing thing -> thing(thing);
                case Pair(Thing thing, Object other) -> {
                    reference(thing);
                    reference(other);
                }
                case Map<?, ?> map -> {
                    all(map.keySet().stream().toList());
                    all(map.values().stream().toList());
                }
                case Set<?> set -> all(new TreeSet<>(set));
                case Iterable<?> list -> all(list);
                case Object[] array -> all(Arrays.asList(array));
                case byte[] bytes -> out.append(Arrays.toString(bytes));
                case int[] ints -> out.append(Arrays.toString(ints));
                default -> out.append(object.getClass()).append(object);
            }
        }

        private void thing(Thing thing) {
            out.append(thing.getClass().getSimpleName())
                    .append(' ')
                    .append(thing.number)
                    .append(' ');
            for (Object one : new Object[] {thing.bytes, thing.left, thing.any, thing.list, thing.map}) {
                reference(one);
            }
        }
    }

    private final MemoryGraph graph = new MemoryGraph();

    private Store open(long bytes) {
        return Store.open(graph.open(), new StoreOptions().loadedBytesMax(bytes));
    }

    private static void apply(World world, List<Long> steps) {
        for (long step : steps) {
            step(world, new Random(step));
        }
    }

    /// A transaction with one nested in it. What of it committed.
    private static List<Long> transact(World world, Random random) {
        List<Long> first = random.longs(random.nextInt(STEPS)).boxed().toList();
        List<Long> nested = random.longs(random.nextInt(STEPS)).boxed().toList();
        List<Long> last = random.longs(random.nextInt(STEPS)).boxed().toList();
        boolean commits = random.nextInt(4) != 0;
        boolean nestedCommits = random.nextBoolean();
        try (var transaction = Transaction.begin()) {
            apply(world, first);
            try (var inner = Transaction.begin()) {
                apply(world, nested);
                if (nestedCommits) {
                    inner.commit();
                }
            }
            apply(world, last);
            if (commits) {
                transaction.commit();
            }
        }
        List<Long> kept = new ArrayList<>();
        if (commits) {
            kept.addAll(first);
            kept.addAll(nestedCommits ? nested : List.of());
            kept.addAll(last);
        }
        return kept;
    }

    /// J9.
    @ParameterizedTest
    @ValueSource(longs = {1, 2, 3, 4, 5, 6})
    void areAsTheirModels(long seed) {
        Random random = new Random(seed);
        World model = new World();
        Store store = open(1 << 20);
        try {
            store.setRoot("world", new World());
            for (int round = 0; round < ROUNDS; round++) {
                String where = "seed " + seed + ", round " + round;
                apply(model, transact(store.root("world", Object.class), random));
                if (random.nextInt(3) == 0) {
                    assertEquals(Shown.of(model), Shown.of(store.root("world", Object.class)), where);
                }
                if (random.nextInt(3) == 0) {
                    store.close();
                    store = open(random.nextBoolean() ? 3_000 : 1 << 20);
                    assertEquals(
                            Shown.of(model), Shown.of(store.root("world", Object.class)), where + ", opened again");
                }
            }
        } finally {
            store.close();
        }
    }

    /// J9: for a list, the changed elements are stored.
    @Test
    void listElementCostsFewBytes() {
        ArrayList<Object> list = new ArrayList<>();
        for (int i = 0; i < 10_000; i++) {
            list.add(i);
        }
        try (Store store = open(1 << 20)) {
            store.setRoot("list", list);
            long before = graph.written();
            Transaction.run(() -> {
                list.set(5_000, "changed");
                list.removeLast();
                list.add("added");
                list.add("and one more");
            });
            long bytes = graph.written() - before;
            assertTrue(bytes <= 300, "bytes: " + bytes);
        }
        try (Store store = open(1 << 20)) {
            assertEquals(list, store.root("list", Object.class));
        }
    }
}
