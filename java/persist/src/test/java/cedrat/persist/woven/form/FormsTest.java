package cedrat.persist.woven.form;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cedrat.persist.MemoryGraph;
import cedrat.persist.Store;
import cedrat.persist.StoreException;
import cedrat.persist.StoreOptions;
import cedrat.persist.Transaction;
import java.io.File;
import java.io.IOException;
import java.io.Serializable;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.net.URI;
import java.net.URL;
import java.net.URLConnection;
import java.net.URLStreamHandler;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.LocalTime;
import java.time.MonthDay;
import java.time.OffsetDateTime;
import java.time.OffsetTime;
import java.time.Period;
import java.time.Year;
import java.time.YearMonth;
import java.time.ZoneId;
import java.time.ZoneOffset;
import java.time.ZonedDateTime;
import java.util.AbstractMap;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.BitSet;
import java.util.Collection;
import java.util.Collections;
import java.util.Comparator;
import java.util.Currency;
import java.util.Date;
import java.util.EnumMap;
import java.util.EnumSet;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Hashtable;
import java.util.IdentityHashMap;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.LinkedList;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalDouble;
import java.util.OptionalInt;
import java.util.OptionalLong;
import java.util.PriorityQueue;
import java.util.Properties;
import java.util.Random;
import java.util.Set;
import java.util.Stack;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.UUID;
import java.util.Vector;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicIntegerArray;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicLongArray;
import java.util.concurrent.atomic.AtomicReference;
import java.util.concurrent.atomic.AtomicReferenceArray;
import java.util.function.Function;
import java.util.function.IntUnaryOperator;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

/// J4: objects of the JDK come back as what they mean, whichever fields this version of it has.
class FormsTest {
    private final MemoryGraph graph = new MemoryGraph();
    private final List<Store> stores = new ArrayList<>();

    /// Stores and loads.
    private <T> T again(T object) {
        try (Store store = Store.open(graph.open(), new StoreOptions())) {
            store.setRoot("it", object);
        }
        Store store = Store.open(graph.open(), new StoreOptions());
        stores.add(store);
        return store.root("it", Object.class);
    }

    @AfterEach
    void close() {
        stores.forEach(Store::close);
    }

    private void comesBack(Object object) {
        comesBackAs(object, Function.identity());
    }

    private <T> void comesBackAs(T object, Function<T, ?> shown) {
        T found = again(object);
        assertSame(object.getClass(), found.getClass());
        assertEquals(shown.apply(object), shown.apply(found));
    }

    private enum Planet {
        MERCURY,
        VENUS,
        EARTH {
            @Override
            int moons() {
                return 1;
            }
        };

        int moons() {
            return 0;
        }
    }

    private enum Many {
        A0,
        A1,
        A2,
        A3,
        A4,
        A5,
        A6,
        A7,
        A8,
        A9,
        B0,
        B1,
        B2,
        B3,
        B4,
        B5,
        B6,
        B7,
        B8,
        B9,
        C0,
        C1,
        C2,
        C3,
        C4,
        C5,
        C6,
        C7,
        C8,
        C9,
        D0,
        D1,
        D2,
        D3,
        D4,
        D5,
        D6,
        D7,
        D8,
        D9,
        E0,
        E1,
        E2,
        E3,
        E4,
        E5,
        E6,
        E7,
        E8,
        E9,
        F0,
        F1,
        F2,
        F3,
        F4,
        F5,
        F6,
        F7,
        F8,
        F9,
        G0,
        G1,
        G2,
        G3,
        G4,
        G5,
        G6,
        G7,
        G8,
        G9
    }

    /// Its hash is another one in each run, as that of an object is.
    private static final class Key {
        private final String name;

        Key(String name) {
            this.name = name;
        }
    }

    private static final class Holder {
        Object value;

        Holder(Object value) {
            this.value = value;
        }
    }

    /// J4.
    @Test
    void valuesComeBack() throws Exception {
        for (Object value : new Object[] {
            Long.MAX_VALUE,
            0.1,
            "text",
            new BigInteger("-123456789012345678901234567890"),
            new BigDecimal("-1234567890.12345678901234567890"),
            OptionalInt.of(5),
            OptionalLong.of(5),
            OptionalDouble.of(0.1),
            UUID.randomUUID(),
            Duration.ofSeconds(-5, 7),
            Instant.MAX,
            Instant.parse("2026-11-22T12:00:00.123456789Z"),
            LocalDate.MIN,
            LocalDateTime.MAX,
            LocalTime.of(1, 2, 3, 4),
            MonthDay.of(2, 29),
            OffsetDateTime.MIN,
            OffsetTime.MAX,
            Period.of(1, -2, 3),
            ZoneOffset.ofHoursMinutes(-3, -30),
            ZoneId.of("Europe/Paris"),
            Year.of(-5),
            YearMonth.of(123_456, 7),
            ZonedDateTime.of(2026, 10, 25, 2, 30, 0, 0, ZoneId.of("Europe/Paris"))
                    .withLaterOffsetAtOverlap(),
            URI.create("https://example.org/a?b=c#d"),
            new File("a/b"),
            Path.of("/a/b c"),
            Path.of(""),
            URI.create("https://example.org/a?b=c#d").toURL(),
            new Date(123_456_789),
            Locale.forLanguageTag("de-Latn-CH-u-ca-gregory"),
            Locale.of("no", "NO", "NY"),
            new BitSet(),
            BitSet.valueOf(new long[] {5, 0, 7}),
            Optional.of("there"),
            Map.entry("a", 1),
            new AbstractMap.SimpleEntry<>("a", null),
            new AbstractMap.SimpleImmutableEntry<>(null, "b"),
        }) {
            comesBack(value);
        }
    }

    @Test
    void valuesWithoutEqualsComeBack() {
        comesBackAs(new StringBuilder("text"), StringBuilder::toString);
        comesBackAs(new StringBuffer("text"), StringBuffer::toString);
        comesBackAs(new AtomicInteger(5), AtomicInteger::get);
        comesBackAs(new AtomicLong(5), AtomicLong::get);
        comesBackAs(new AtomicBoolean(true), AtomicBoolean::get);
        comesBackAs(new AtomicReference<>("text"), AtomicReference::get);
        comesBackAs(new AtomicIntegerArray(new int[] {1, -2}), AtomicIntegerArray::toString);
        comesBackAs(new AtomicLongArray(new long[] {1, Long.MIN_VALUE}), AtomicLongArray::toString);
        comesBackAs(new AtomicReferenceArray<>(new Object[] {"text", null, 7}), AtomicReferenceArray::toString);
        comesBackAs(Pattern.compile("a+", Pattern.CASE_INSENSITIVE), pattern -> pattern + " " + pattern.flags());
        Random random = new Random(5);
        random.nextGaussian();
        random.nextInt();
        Random found = again(random);
        // The store that it was stored in is closed, so this one changes in no transaction any more.
        int number = random.nextInt();
        double gaussian = random.nextGaussian();
        Transaction.run(() -> {
            assertEquals(number, found.nextInt());
            assertEquals(gaussian, found.nextGaussian());
        });
    }

    @Test
    void propertiesComeBackWithTheirDefaults() {
        Properties defaults = new Properties();
        defaults.setProperty("host", "localhost");
        Properties properties = new Properties(defaults);
        properties.setProperty("port", "80");
        properties.put("an object", Planet.EARTH);
        Properties found = again(properties);
        assertEquals("localhost", found.getProperty("host"));
        assertEquals(properties, found);
        assertThrows(IllegalStateException.class, () -> found.setProperty("port", "81"));
        Transaction.run(() -> {
            found.setProperty("port", "81");
        });
        assertEquals("81", found.getProperty("port"));
    }

    @Test
    void atomicArrayReferringToItselfIsRestored() {
        AtomicReferenceArray<Object> array = new AtomicReferenceArray<>(2);
        array.set(1, array);
        AtomicReferenceArray<Object> found = again(array);
        assertSame(found, found.get(1));
    }

    private static final class Names extends ArrayList<String> {
        private static final long serialVersionUID = 1;

        String first;
    }

    @Test
    void subclassOfStatefulJdkClassIsRefused() {
        var thrown = assertThrows(StoreException.class, () -> again(List.of(new Names())));
        assertTrue(
                thrown.getMessage().contains("it → [0] leads to an object of " + Names.class.getName())
                        && thrown.getMessage()
                                .contains("extends java.util.ArrayList, whose fields have no barriers: keep a field of "
                                        + "type ArrayList in place of the superclass"),
                thrown.getMessage());
    }

    /// Nothing but its handler knows the protocol.
    @Test
    void urlWithOwnHandlerIsRefused() throws Exception {
        URL url = URL.of(URI.create("own:there"), new URLStreamHandler() {
            @Override
            protected URLConnection openConnection(URL any) throws IOException {
                throw new IOException("it is never opened");
            }
        });
        var thrown = assertThrows(StoreException.class, () -> again(url));
        assertTrue(thrown.getMessage().contains("store the string"), thrown.getMessage());
    }

    @Test
    void classesAndSingletonsComeBackAsThemselves() {
        for (Object object : new Object[] {
            String.class,
            int.class,
            int[].class,
            Planet[][].class,
            Planet.EARTH,
            Planet.VENUS,
            Currency.getInstance("EUR"),
            Collections.emptyList(),
            Collections.emptyMap(),
            List.of(),
            Map.of(),
            Set.of(),
            Optional.empty(),
            OptionalInt.empty(),
            Comparator.naturalOrder(),
            Collections.reverseOrder(),
            String.CASE_INSENSITIVE_ORDER,
            ZoneOffset.UTC,
            Locale.ROOT,
            BigInteger.ONE
        }) {
            assertSame(object, again(object));
        }
        for (Object box : new Object[] {1, 2L, (byte) 3, (short) 4, 'c', 1.5f, 2.5, true, Long.MIN_VALUE >> 8, -1}) {
            assertEquals(box, again(box));
        }
    }

    private static <T extends Collection<Object>> T filled(T collection) {
        for (int i = 0; i < 200; i++) {
            collection.add(i * 7919 % 1009);
        }
        return collection;
    }

    private static <T extends Map<Object, Object>> T filledMap(T map) {
        for (int i = 0; i < 200; i++) {
            map.put(i * 7919 % 1009, "value " + i);
        }
        return map;
    }

    /// J4.
    @Test
    void listsAndQueuesComeBack() {
        comesBack(filled(new ArrayList<>()));
        comesBack(filled(new LinkedList<>()));
        comesBack(filled(new Vector<>()));
        comesBack(filled(new Stack<>()));
        comesBackAs(filled(new ArrayDeque<>()), ArrayList::new);
        PriorityQueue<Object> queue = again(filled(new PriorityQueue<>()));
        PriorityQueue<Object> reverse = again(filled(new PriorityQueue<>(Collections.reverseOrder())));
        assertEquals(
                filled(new PriorityQueue<>()).stream().toList(), queue.stream().toList());
        Transaction.run(() -> {
            assertEquals(filled(new TreeSet<>()).first(), queue.poll());
        });
        Transaction.run(() -> {
            assertEquals(filled(new TreeSet<>()).last(), reverse.poll());
        });
        comesBack(Arrays.asList(1, "two", null));
        ArrayList<Object> itself = new ArrayList<>();
        itself.add(itself);
        ArrayList<Object> found = again(itself);
        assertSame(found, found.get(0));
    }

    /// J4.
    @Test
    void setsAndMapsComeBack() {
        comesBack(filled(new HashSet<>()));
        comesBackAs(filled(new LinkedHashSet<>()), ArrayList::new);
        comesBackAs(filled(new TreeSet<>()), ArrayList::new);
        comesBackAs(filled(new TreeSet<>(Collections.reverseOrder())), ArrayList::new);
        comesBack(filledMap(new HashMap<>()));
        comesBack(filledMap(new Hashtable<>()));
        comesBackAs(filledMap(new LinkedHashMap<>()), map -> new ArrayList<>(map.entrySet()));
        comesBackAs(filledMap(new TreeMap<>()), map -> new ArrayList<>(map.entrySet()));
        comesBackAs(filledMap(new TreeMap<>(Collections.reverseOrder())), map -> new ArrayList<>(map.keySet()));
        HashMap<Object, Object> withNulls = new HashMap<>();
        withNulls.put(null, "null");
        withNulls.put("null", null);
        comesBack(withNulls);
        LinkedHashMap<Object, Object> byAccess = new LinkedHashMap<>(16, 0.75f, true);
        filledMap(byAccess).get(7919 % 1009);
        LinkedHashMap<Object, Object> found = again(byAccess);
        assertEquals(new ArrayList<>(byAccess.keySet()), new ArrayList<>(found.keySet()));
        Object eldest = found.keySet().iterator().next();
        Transaction.run(() -> {
            assertTrue(found.containsKey(eldest) && found.get(eldest) != null);
        });
        assertEquals(eldest, new ArrayList<>(found.keySet()).getLast());
    }

    @Test
    void collectionsOfConstantsComeBack() {
        comesBack(new EnumMap<>(Planet.class));
        EnumMap<Planet, Object> map = new EnumMap<>(Planet.class);
        map.put(Planet.EARTH, "home");
        map.put(Planet.MERCURY, null);
        comesBack(map);
        comesBack(EnumSet.of(Planet.EARTH, Planet.VENUS));
        comesBack(EnumSet.noneOf(Planet.class));
        comesBack(EnumSet.of(Many.A0, Many.G9));
        EnumSet<Planet> found = again(EnumSet.noneOf(Planet.class));
        Transaction.run(() -> assertTrue(found.add(Planet.VENUS)));
        assertEquals(EnumSet.of(Planet.VENUS), found);
    }

    /// J4.
    /// Hashes of keys are others when they are loaded.
    @Test
    void hashTablesAreMadeAnew() {
        Map<Key, String> hashed = new HashMap<>();
        Map<Key, String> byIdentity = new IdentityHashMap<>();
        Key[] keys = new Key[100];
        for (int i = 0; i < keys.length; i++) {
            keys[i] = new Key("key " + i);
            hashed.put(keys[i], "value " + i);
            byIdentity.put(keys[i], "value " + i);
        }
        Object[] found = again(new Object[] {hashed, byIdentity, keys});
        for (Key key : (Key[]) found[2]) {
            String value = key.name.replace("key", "value");
            assertEquals(value, ((Map<?, ?>) found[0]).get(key));
            assertEquals(value, ((Map<?, ?>) found[1]).get(key));
        }
    }

    private record Point(int x, List<Integer> more) {}

    /// J4.
    /// Hash and comparison methods of keys read objects that are loaded with them.
    @Test
    void keysMayLeadToCollections() {
        Map<Object, String> map = new HashMap<>();
        map.put(List.of(1, 2), "of");
        map.put(new ArrayList<>(List.of(3, 4)), "list");
        map.put(new HashSet<>(Set.of(List.of(5), "six")), "set");
        map.put(new Point(7, new ArrayList<>(List.of(8))), "record");
        map.put(Map.of(List.of(9), 10), "map");
        Map<Object, String> found = again(map);
        assertEquals(map, found);
        assertEquals("record", found.get(new Point(7, List.of(8))));
        assertEquals("set", found.get(Set.of("six", List.of(5))));
        assertEquals("map", found.get(Map.of(List.of(9), 10)));
    }

    @Test
    void collectionsThatDoNotChangeComeBack() {
        comesBack(List.of(1));
        comesBack(List.of(1, 2, 3));
        comesBack(Set.of(1));
        comesBack(Set.of(1, 2, 3));
        comesBack(Map.of(1, 2));
        comesBack(Map.of(1, 2, 3, 4));
        comesBack(List.copyOf(filled(new ArrayList<>())));
        comesBack(Map.copyOf(filledMap(new HashMap<>())));
        comesBack(Stream.of(1, null, 3).toList());
        comesBack(Stream.of(1, 2, 3).toList());
        assertThrows(NullPointerException.class, () -> again(List.of(1, 2, 3)).contains(null));
        assertEquals(false, again(Stream.of(1, 2, 3).toList()).contains(null));
        comesBack(Collections.singletonList(null));
        comesBack(Collections.singleton(1));
        comesBack(Collections.singletonMap(1, null));
        comesBack(Collections.nCopies(1000, "x"));
    }

    @Test
    void wrappersComeBackAroundWhatTheyWrap() {
        wraps(filled(new ArrayList<>()), Collections::unmodifiableList);
        wraps(filled(new LinkedList<>()), Collections::unmodifiableList);
        wraps(filled(new ArrayDeque<>()), Collections::unmodifiableCollection);
        wraps(filled(new ArrayDeque<>()), Collections::unmodifiableSequencedCollection);
        wraps(filled(new HashSet<>()), Collections::unmodifiableSet);
        wraps(filled(new LinkedHashSet<>()), Collections::unmodifiableSequencedSet);
        wraps(filled(new TreeSet<>()), Collections::unmodifiableSortedSet);
        wraps(filled(new TreeSet<>()), Collections::unmodifiableNavigableSet);
        wraps(filled(new ArrayList<>()), Collections::synchronizedList);
        wraps(filled(new LinkedList<>()), Collections::synchronizedList);
        wraps(filled(new ArrayDeque<>()), Collections::synchronizedCollection);
        wraps(filled(new HashSet<>()), Collections::synchronizedSet);
        wraps(filled(new TreeSet<>()), Collections::synchronizedSortedSet);
        wraps(filled(new TreeSet<>()), Collections::synchronizedNavigableSet);
        wraps(filled(new ArrayDeque<>()), Collections::asLifoQueue);
        wrapsMap(filledMap(new HashMap<>()), Collections::unmodifiableMap);
        wrapsMap(filledMap(new LinkedHashMap<>()), Collections::unmodifiableSequencedMap);
        wrapsMap(filledMap(new TreeMap<>()), Collections::unmodifiableSortedMap);
        wrapsMap(filledMap(new TreeMap<>()), Collections::unmodifiableNavigableMap);
        wrapsMap(filledMap(new HashMap<>()), Collections::synchronizedMap);
        wrapsMap(filledMap(new TreeMap<>()), Collections::synchronizedSortedMap);
        wrapsMap(filledMap(new TreeMap<>()), Collections::synchronizedNavigableMap);
        Set<Object> fromMap = filled(Collections.newSetFromMap(new HashMap<>()));
        comesBack(fromMap);
        comesBackAs(Collections.reverseOrder(String.CASE_INSENSITIVE_ORDER), order -> order.compare("a", "B"));
    }

    private <C extends Collection<Object>> void wraps(C inner, Function<C, Object> wrapper) {
        Object[] found = again(new Object[] {inner, wrapper.apply(inner)});
        Collection<Object> wrapped = inCollection(found[1]);
        assertSame(wrapper.apply(inner).getClass(), wrapped.getClass());
        Transaction.run(() -> assertTrue(inCollection(found[0]).remove(0)));
        assertEquals(199, wrapped.size());
        assertEquals(new ArrayList<>(inCollection(found[0])), new ArrayList<>(wrapped));
    }

    private <M extends Map<Object, Object>> void wrapsMap(M inner, Function<M, Object> wrapper) {
        Object[] found = again(new Object[] {inner, wrapper.apply(inner)});
        Map<?, ?> wrapped = (Map<?, ?>) found[1];
        assertSame(wrapper.apply(inner).getClass(), wrapped.getClass());
        Transaction.run(() -> assertEquals("value 0", ((Map<?, ?>) found[0]).remove(0)));
        assertEquals(199, wrapped.size());
        assertEquals(found[0], wrapped);
    }

    @SuppressWarnings("unchecked")
    private static Collection<Object> inCollection(Object object) {
        return (Collection<Object>) object;
    }

    private interface Shift extends IntUnaryOperator, Serializable {}

    @Test
    void serialisableLambdasComeBack() {
        int by = 5;
        Holder holder = new Holder("captured");
        Shift shift = number -> number + by;
        assertEquals(7, again(shift).applyAsInt(2));
        TreeMap<String, Integer> map =
                new TreeMap<>((Comparator<String> & Serializable) (left, right) -> right.compareTo(left));
        map.put("a", 1);
        map.put("b", 2);
        TreeMap<String, Integer> found = again(map);
        assertEquals("b", found.firstKey());
        Object[] both =
                again(new Object[] {holder, (Function<String, Object> & Serializable) text -> text + holder.value});
        @SuppressWarnings("unchecked")
        Function<String, Object> function = (Function<String, Object>) both[1];
        assertEquals("is captured", function.apply("is "));
        Comparator<String> comparing =
                again(Comparator.comparing((Function<String, Integer> & Serializable) String::length));
        assertTrue(comparing.compare("aa", "b") > 0);
    }

    @Test
    void theOrderOfConstantsIsNotStored() {
        try (Store store = Store.open(graph.open(), new StoreOptions())) {
            Holder holder = new Holder(TimeUnit.DAYS);
            store.setRoot("holder", holder);
            Transaction.run(() -> {
                holder.value = null;
            });
            assertNull(holder.value);
        }
    }

    private void assertRefused(String says, Object object) {
        Holder holder = new Holder(null);
        Object[] array = {null, holder};
        try (Store store = Store.open(graph.open(), new StoreOptions())) {
            store.setRoot("array", array);
            Holder inner = new Holder(object);
            StoreException thrown = assertThrows(
                    StoreException.class,
                    () -> Transaction.run(() -> {
                        array[0] = "kept";
                        holder.value = new ArrayList<>(List.of(1, inner));
                    }));
            assertTrue(
                    thrown.getMessage()
                            .contains("value → [1] → value leads to an object of "
                                    + object.getClass().getName()),
                    thrown.getMessage());
            assertTrue(thrown.getMessage().contains(says), thrown.getMessage());
            assertNull(array[0]);
            assertNull(holder.value);
            var ofRoot = assertThrows(StoreException.class, () -> store.setRoot("root", Map.of("key", inner)));
            assertTrue(ofRoot.getMessage().startsWith("root → [key] → value leads to"), ofRoot.getMessage());
            Transaction.run(() -> {
                holder.value = "fine";
            });
        }
    }

    @Test
    void refusalOfObjectNamesThePath() throws Exception {
        assertRefused("a thread ends", new Thread());
        assertRefused("a class loader", ClassLoader.getSystemClassLoader());
        try (java.net.ServerSocket socket = new java.net.ServerSocket()) {
            assertRefused("keep the address", socket);
        }
        assertRefused("a stream ends", new java.io.ByteArrayInputStream(new byte[0]));
        assertRefused("lambda that is not serialisable", (Runnable) () -> {});
        assertRefused("such as ConcurrentHashMap", new java.util.concurrent.PriorityBlockingQueue<>());
        assertRefused("use RwLock", new java.util.concurrent.locks.ReentrantLock());
        assertRefused("may remove its entries at any time", new java.util.WeakHashMap<>());
        assertRefused("copy it", new ArrayList<>(List.of(1, 2, 3)).subList(0, 2));
        assertRefused("copy it", new HashMap<>(Map.of(1, 2)).keySet());
        assertRefused("copy it", new TreeMap<>(Map.of(1, 2)).headMap(2));
        assertRefused("make the view where it is used", Collections.checkedList(new ArrayList<>(), String.class));
        assertRefused("used once", Stream.of(1));
        assertRefused("keep a field of type ArrayList", new ArrayList<Object>() {
            private static final long serialVersionUID = 1;
        });
    }
}
