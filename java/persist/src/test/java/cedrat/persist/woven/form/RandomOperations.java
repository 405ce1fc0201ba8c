package cedrat.persist.woven.form;

import java.time.DayOfWeek;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.Comparator;
import java.util.ConcurrentModificationException;
import java.util.Deque;
import java.util.EmptyStackException;
import java.util.EnumMap;
import java.util.EnumSet;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Hashtable;
import java.util.IdentityHashMap;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.LinkedList;
import java.util.List;
import java.util.ListIterator;
import java.util.Map;
import java.util.NavigableMap;
import java.util.NavigableSet;
import java.util.NoSuchElementException;
import java.util.PriorityQueue;
import java.util.Random;
import java.util.Set;
import java.util.Stack;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.Vector;
import java.util.function.IntFunction;
import java.util.function.Supplier;
import java.util.stream.Collectors;

/// Collections of each form, of elements of several kinds, and what programs do with them: an operation is a
/// number, by which two collections that are equal are changed alike.
final class RandomOperations {
    private static final int KEYS = 60;
    /// Not many more elements than these.
    private static final int SIZE_MAX = 300;

    private RandomOperations() {}

    // ---- elements

    /// Equal to nothing but itself; changes.
    static final class Named {
        int number;

        Named(int number) {
            this.number = number;
        }

        @Override
        public String toString() {
            return "N" + number;
        }
    }

    /// Many have the same hash, so that a hash table makes trees of them.
    record Same(int number) implements Comparable<Same> {
        @Override
        public int hashCode() {
            return number % 3;
        }

        @Override
        public int compareTo(Same other) {
            return Integer.compare(number, other.number);
        }

        @Override
        public String toString() {
            return "S" + number;
        }
    }

    /// Its hash comes from what it refers to.
    static final class Key implements Comparable<Key> {
        private final int number;
        private final String name;

        Key(int number) {
            this.number = number;
            name = "k" + number;
        }

        @Override
        public boolean equals(Object other) {
            return other instanceof Key key && key.number == number;
        }

        @Override
        public int hashCode() {
            return name.hashCode() & 15;
        }

        @Override
        public int compareTo(Key other) {
            return Integer.compare(number, other.number);
        }

        @Override
        public String toString() {
            return name;
        }
    }

    private static int number(Object element) {
        return switch (element) {
            case null -> -1;
            case Integer number -> number;
            case String text -> Integer.parseInt(text.substring(1));
            case Same same -> same.number;
            case Key key -> key.number;
            case Named named -> named.number;
            case Enum<?> constant -> constant.ordinal();
            default -> throw new AssertionError(element);
        };
    }

    // ---- collections

    /// A class of collections, and what their elements or keys are.
    record Kind(String name, boolean isOrdered, Supplier<Object> maker, int keys, IntFunction<Object> elements) {
        Object make() {
            return maker.get();
        }

        private Object element(Random random) {
            return elements.apply(random.nextInt(keys));
        }

        /// An element that may be there: one that is equal to itself alone is looked for.
        private Object element(Iterable<?> there, Random random) {
            Object made = element(random);
            Object found = made instanceof Named ? find(there, number(made)) : null;
            return found == null ? made : found;
        }

        /// Returns `count` elements that are absent if they are equal to themselves alone.
        private List<Object> others(Collection<?> there, int count, Random random) {
            List<Object> others = new ArrayList<>();
            Set<Integer> numbers = new HashSet<>();
            there.forEach(element -> numbers.add(number(element)));
            for (int i = 0; i < count; i++) {
                Object made = element(random);
                if (!(made instanceof Named) || numbers.add(number(made))) {
                    others.add(made);
                }
            }
            return others;
        }

        @Override
        public String toString() {
            return name;
        }
    }

    static List<Kind> kinds() {
        List<Kind> kinds = new ArrayList<>();
        addKinds(kinds, "Integer", number -> number);
        addKinds(kinds, "String", number -> "s" + number);
        addKinds(kinds, "Same", Same::new);
        addKinds(kinds, "Key", Key::new);
        addKinds(kinds, "Named", Named::new);
        kinds.add(new Kind("IdentityHashMap", false, IdentityHashMap::new, KEYS, Named::new));
        addEnums(kinds, DayOfWeek.class);
        // More than a `long` has bits.
        addEnums(kinds, Character.UnicodeScript.class);
        return kinds;
    }

    private static <E extends Enum<E>> void addEnums(List<Kind> kinds, Class<E> type) {
        E[] constants = type.getEnumConstants();
        int keys = Math.min(constants.length, KEYS + 10);
        IntFunction<Object> elements = number -> constants[number];
        String of = " of " + type.getSimpleName();
        kinds.add(new Kind("EnumMap" + of, true, () -> new EnumMap<E, Object>(type), keys, elements));
        kinds.add(new Kind("EnumSet" + of, true, () -> EnumSet.noneOf(type), keys, elements));
    }

    private static void addKinds(List<Kind> kinds, String of, IntFunction<Object> elements) {
        Map<String, Supplier<Object>> ordered = new LinkedHashMap<>();
        Map<String, Supplier<Object>> others = new LinkedHashMap<>();
        others.put("HashMap", HashMap::new);
        others.put("Hashtable", Hashtable::new);
        others.put("HashSet", HashSet::new);
        ordered.put("LinkedHashMap", LinkedHashMap::new);
        ordered.put("LinkedHashMap by access", () -> new LinkedHashMap<>(16, 0.75f, true));
        ordered.put("LinkedHashSet", LinkedHashSet::new);
        ordered.put("ArrayList", ArrayList::new);
        ordered.put("Vector", Vector::new);
        ordered.put("Stack", Stack::new);
        ordered.put("LinkedList", LinkedList::new);
        ordered.put("ArrayDeque", ArrayDeque::new);
        ordered.put("synchronizedList", () -> Collections.synchronizedList(new ArrayList<>()));
        ordered.put("synchronizedMap", () -> Collections.synchronizedMap(new LinkedHashMap<>()));
        ordered.put("newSetFromMap", () -> Collections.newSetFromMap(new LinkedHashMap<>()));
        if (elements.apply(0) instanceof Comparable) {
            others.put("PriorityQueue", PriorityQueue::new);
            others.put("PriorityQueue reversed", () -> new PriorityQueue<>(Comparator.reverseOrder()));
            ordered.put("TreeMap", TreeMap::new);
            ordered.put("TreeMap reversed", () -> new TreeMap<>(Collections.reverseOrder()));
            ordered.put("TreeSet", TreeSet::new);
            ordered.put("TreeSet reversed", () -> new TreeSet<>(Comparator.reverseOrder()));
        }
        ordered.forEach((name, maker) -> kinds.add(new Kind(name + " of " + of, true, maker, KEYS, elements)));
        others.forEach((name, maker) -> kinds.add(new Kind(name + " of " + of, false, maker, KEYS, elements)));
    }

    /// Returns the visible content.
    static List<String> show(Kind kind, Object collection) {
        List<String> shown = new ArrayList<>();
        if (collection instanceof Map<?, ?> map) {
            map.forEach((key, value) -> shown.add(key + "=" + value));
            shown.add("size " + map.size());
            // A map by access would move them.
            if (!kind.name.startsWith("LinkedHashMap by access")) {
                new ArrayList<>(map.keySet()).forEach(key -> shown.add(key + " " + map.containsKey(key)));
            }
        } else {
            Collection<?> all = (Collection<?>) collection;
            all.forEach(element -> shown.add(String.valueOf(element)));
            shown.add("size " + all.size());
            if (all instanceof Set<?>) {
                new ArrayList<>(all).forEach(element -> shown.add(element + " " + all.contains(element)));
            }
            if (all instanceof PriorityQueue<?> heap) {
                shown.add("first " + heap.peek());
            }
        }
        if (!kind.isOrdered) {
            Collections.sort(shown);
        }
        return shown;
    }

    // ---- operations

    /// Does something with a collection: what is equal is equal afterwards.
    @SuppressWarnings("unchecked")
    static void change(Kind kind, Object collection, long operation) {
        Random random = new Random(operation);
        try {
            switch (collection) {
                case Map<?, ?> map -> changeMap(kind, (Map<Object, Object>) map, random);
                case PriorityQueue<?> heap -> changeHeap(kind, (PriorityQueue<Object>) heap, random);
                case LinkedList<?> list
                when random.nextBoolean() -> changeQueue(kind, (LinkedList<Object>) list, random);
                case List<?> list -> changeList(kind, (List<Object>) list, random);
                case Deque<?> queue -> changeQueue(kind, (Deque<Object>) queue, random);
                default -> changeSet(kind, (Set<Object>) collection, random);
            }
        } catch (NoSuchElementException
                | IndexOutOfBoundsException
                | EmptyStackException
                | ConcurrentModificationException e) {
            // The collection had too few elements for it, or cannot do it, and so has the other.
        }
    }

    private static Object find(Iterable<?> elements, int number) {
        for (Object element : elements) {
            if (number(element) == number) {
                return element;
            }
        }
        return null;
    }

    private static Object value(Random random) {
        int number = random.nextInt(1000);
        return switch (random.nextInt(6)) {
            case 0 -> number;
            case 1 -> "v" + number;
            case 2 -> new Named(number);
            case 3 -> new ArrayList<Object>(List.of(number, "x" + number));
            case 4 -> (long) number << 40;
            default -> new Key(number);
        };
    }

    private static int many(Random random) {
        return random.nextInt(random.nextInt(8) == 0 ? 200 : 9);
    }

    private static void removeEach(Iterator<Object> iterator, int divisor) {
        while (iterator.hasNext()) {
            if (number(iterator.next()) % divisor == 0) {
                iterator.remove();
            }
        }
    }

    private static Set<Object> keptOf(Collection<Object> elements, int rest) {
        return elements.stream().filter(element -> number(element) % 11 != rest).collect(Collectors.toSet());
    }

    private static void changeMap(Kind kind, Map<Object, Object> map, Random random) {
        Object key = kind.element(map.keySet(), random);
        Object value = value(random);
        int divisor = 2 + random.nextInt(5);
        switch (random.nextInt(24)) {
            case 0, 1, 2, 3 -> map.put(key, value);
            case 4, 5 -> map.remove(key);
            case 6 -> map.computeIfAbsent(key, any -> value);
            case 7 -> map.computeIfPresent(key, (any, old) -> null);
            case 8 -> map.compute(key, (any, old) -> old == null ? value : null);
            case 9 -> map.merge(key, value, (old, other) -> other);
            case 10 -> map.replaceAll((any, old) -> number(any) % divisor == 0 ? "r" + number(any) : old);
            case 11 -> {
                for (Map.Entry<Object, Object> entry : map.entrySet()) {
                    if (number(entry.getKey()) % divisor == 0) {
                        entry.setValue("e" + divisor);
                    }
                }
            }
            case 12 -> map.keySet().removeIf(any -> number(any) % divisor == 0);
            case 13 -> map.values().removeIf(any -> any.toString().length() % divisor == 0);
            case 14 -> removeEach(map.keySet().iterator(), divisor);
            case 15 -> map.keySet().retainAll(keptOf(map.keySet(), divisor));
            case 16 -> {
                if (random.nextInt(4) == 0) {
                    map.clear();
                }
            }
            case 17, 18 -> {
                Map<Object, Object> others = new LinkedHashMap<>();
                kind.others(map.keySet(), many(random), random).forEach(other -> others.put(other, value(random)));
                map.putAll(others);
            }
            case 19 -> toAndFro(map, key, value);
            case 20 -> setStale(map, key);
            case 21 -> map.get(key);
            case 22 -> changeValue(map, key, random);
            default -> changeEnds(kind, map, key, value, random);
        }
    }

    /// So that nothing, or next to nothing, is left to store.
    private static void toAndFro(Map<Object, Object> map, Object key, Object value) {
        Object old = map.remove(key);
        map.put(key, value);
        map.remove(key);
        if (old != null) {
            map.put(key, old);
        }
    }

    /// By an entry that has gone; those of some maps are views of a place, which is another's by then.
    private static void setStale(Map<Object, Object> map, Object key) {
        if (map instanceof IdentityHashMap || map instanceof EnumMap || map instanceof NavigableMap) {
            return;
        }
        Map.Entry<Object, Object> entry = null;
        for (Map.Entry<Object, Object> each : map.entrySet()) {
            if (number(each.getKey()) == number(key)) {
                entry = each;
            }
        }
        if (entry != null) {
            map.remove(entry.getKey());
            entry.setValue("stale");
            map.put(key, "new");
            entry.setValue("stale too");
        }
    }

    private static void changeValue(Map<Object, Object> map, Object key, Random random) {
        int number = random.nextInt(50);
        switch (map.get(key)) {
            case Named named -> named.number = number;
            case ArrayList<?> list -> {
                @SuppressWarnings("unchecked")
                List<Object> numbers = (List<Object>) list;
                numbers.add(number);
            }
            case null, default -> map.replace(key, number);
        }
    }

    private static void changeEnds(Kind kind, Map<Object, Object> map, Object key, Object value, Random random) {
        switch (map) {
            case NavigableMap<Object, Object> sorted -> {
                Object bound = kind.element(random);
                switch (random.nextInt(6)) {
                    case 0 -> sorted.pollFirstEntry();
                    case 1 -> sorted.pollLastEntry();
                    case 2 -> sorted.headMap(bound, random.nextBoolean()).clear();
                    case 3 -> sorted.descendingMap().remove(key);
                    case 4 -> sorted.descendingMap().tailMap(bound).entrySet().forEach(entry -> entry.setValue("d"));
                    default -> removeEach(sorted.tailMap(bound).keySet().iterator(), 3);
                }
            }
            case LinkedHashMap<Object, Object> linked -> {
                switch (random.nextInt(5)) {
                    case 0 -> linked.pollFirstEntry();
                    case 1 -> linked.pollLastEntry();
                    case 2 -> linked.putFirst(key, value);
                    case 3 -> linked.putLast(key, value);
                    default -> linked.reversed().sequencedEntrySet().removeIf(entry -> number(entry.getKey()) % 7 == 3);
                }
            }
            default -> map.putAll(map);
        }
    }

    private static void changeList(Kind kind, List<Object> list, Random random) {
        int size = list.size();
        int at = size == 0 ? 0 : random.nextInt(size);
        int to = size == 0 ? 0 : at + random.nextInt(Math.min(size - at, 6) + 1);
        int divisor = 2 + random.nextInt(5);
        Object element = kind.element(random);
        switch (random.nextInt(26)) {
            case 0, 1, 2, 3 -> list.add(element);
            case 4 -> list.add(at, element);
            case 5 -> list.set(at, element);
            case 6, 7, 8 -> list.remove(at);
            case 9 -> list.subList(at, to).clear();
            case 10 -> list.sort(Comparator.comparingInt(RandomOperations::number));
            case 11 -> Collections.shuffle(list, random);
            case 12 -> Collections.reverse(list);
            case 13 -> Collections.swap(list, at, size - 1 - at);
            case 14 -> list.replaceAll(any -> number(any) % divisor == 0 ? element : any);
            case 15 -> list.removeIf(any -> number(any) % divisor == 0 || list.size() > SIZE_MAX);
            case 16 -> list.addAll(at, kind.others(List.of(), many(random), random));
            case 17 -> stepThrough(list, element);
            case 18 -> changeCapacity(list, size + random.nextInt(40));
            case 19 -> {
                if (random.nextInt(3) == 0) {
                    list.clear();
                }
            }
            case 20 -> {
                list.addLast(element);
                list.removeFirst();
            }
            case 21 -> {
                List<Object> part = list.subList(at, to);
                part.add(element);
                part.set(0, element);
                part.remove(part.size() - 1);
            }
            case 22 -> {
                List<Object> reversed = list.reversed();
                reversed.add(element);
                reversed.set(0, element);
            }
            case 23 -> {
                // Nothing is left to store.
                Object old = list.get(at);
                list.set(at, element);
                list.set(at, old);
                list.add(element);
                list.remove(list.size() - 1);
            }
            case 24 -> list.retainAll(keptOf(list, divisor));
            default -> {
                if (find(list, number(element)) instanceof Named named) {
                    named.number = (named.number + 1) % KEYS;
                }
            }
        }
    }

    private static void stepThrough(List<Object> list, Object element) {
        ListIterator<Object> iterator = list.listIterator();
        while (iterator.hasNext()) {
            switch (number(iterator.next()) % 7) {
                case 0 -> iterator.set(element);
                case 1 -> iterator.remove();
                case 2 -> {
                    if (list.size() < SIZE_MAX) {
                        iterator.add(element);
                    }
                }
                default -> iterator.nextIndex();
            }
        }
    }

    private static void changeCapacity(List<Object> list, int capacity) {
        switch (list) {
            case ArrayList<Object> array when capacity % 2 == 0 -> array.trimToSize();
            case ArrayList<Object> array -> array.ensureCapacity(capacity);
            case Vector<Object> vector when capacity % 3 == 0 -> vector.trimToSize();
            case Vector<Object> vector when capacity % 3 == 1 -> vector.ensureCapacity(capacity);
            case Vector<Object> vector -> vector.setSize(vector.size() / 2);
            default -> list.reversed().removeFirst();
        }
    }

    private static void changeHeap(Kind kind, PriorityQueue<Object> heap, Random random) {
        int divisor = 2 + random.nextInt(5);
        Object element = kind.element(random);
        switch (random.nextInt(12)) {
            case 0, 1, 2, 3 -> heap.add(element);
            case 4, 5 -> heap.poll();
            case 6 -> heap.remove(element);
            case 7 -> heap.removeIf(any -> number(any) % divisor == 0);
            case 8 -> {
                if (random.nextInt(3) == 0) {
                    heap.clear();
                }
            }
            case 9 -> heap.addAll(kind.others(List.of(), many(random), random));
            case 10 -> {
                heap.add(element);
                heap.remove(element);
            }
            default -> heap.retainAll(keptOf(heap, divisor));
        }
    }

    private static void changeQueue(Kind kind, Deque<Object> queue, Random random) {
        int divisor = 2 + random.nextInt(5);
        Object element = kind.element(random);
        switch (random.nextInt(16)) {
            case 0, 1 -> queue.addFirst(element);
            case 2, 3, 4 -> queue.addLast(element);
            case 5 -> queue.pollFirst();
            case 6 -> queue.pollLast();
            case 7 -> queue.removeIf(any -> number(any) % divisor == 0 || queue.size() > SIZE_MAX);
            case 8 -> queue.removeFirstOccurrence(find(queue, number(element)));
            case 9 -> queue.removeLastOccurrence(find(queue, number(element)));
            case 10 -> removeEach(queue.iterator(), divisor);
            case 11 -> removeEach(queue.descendingIterator(), divisor);
            case 12 -> {
                if (random.nextInt(3) == 0) {
                    queue.clear();
                }
            }
            case 13 -> queue.addAll(kind.others(List.of(), many(random), random));
            case 14 -> {
                // Once round the array.
                for (int i = 0; i < 20; i++) {
                    queue.addLast(element);
                    queue.pollFirst();
                }
            }
            default -> queue.reversed().addFirst(element);
        }
    }

    private static void changeSet(Kind kind, Set<Object> set, Random random) {
        int divisor = 2 + random.nextInt(5);
        Object element = kind.element(set, random);
        switch (random.nextInt(16)) {
            case 0, 1, 2, 3 -> set.add(element);
            case 4, 5 -> set.remove(element);
            case 6 -> set.removeIf(any -> number(any) % divisor == 0);
            case 7 -> set.retainAll(keptOf(set, divisor));
            case 8 -> {
                if (random.nextInt(3) == 0) {
                    set.clear();
                }
            }
            case 9, 10 -> set.addAll(kind.others(set, many(random), random));
            case 11 -> removeEach(set.iterator(), divisor);
            case 12 -> {
                // Nothing is left to store.
                if (set.remove(element)) {
                    set.add(element);
                } else {
                    set.add(element);
                    set.remove(element);
                }
            }
            default -> changeEnds(kind, set, element, random);
        }
    }

    private static void changeEnds(Kind kind, Set<Object> set, Object element, Random random) {
        switch (set) {
            case NavigableSet<Object> sorted -> {
                Object bound = kind.element(random);
                switch (random.nextInt(5)) {
                    case 0 -> sorted.pollFirst();
                    case 1 -> sorted.pollLast();
                    case 2 -> sorted.headSet(bound, true).clear();
                    case 3 -> sorted.descendingSet().add(element);
                    default -> sorted.descendingSet().tailSet(bound, true).pollFirst();
                }
            }
            case LinkedHashSet<Object> linked -> {
                switch (random.nextInt(4)) {
                    case 0 -> linked.removeFirst();
                    case 1 -> linked.removeLast();
                    case 2 -> linked.addFirst(element);
                    default -> linked.reversed().addFirst(element);
                }
            }
            default -> set.addAll(set);
        }
    }
}
