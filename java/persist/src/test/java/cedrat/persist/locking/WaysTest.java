package cedrat.persist.locking;

import static org.junit.jupiter.api.Assertions.assertEquals;

import cedrat.persist.StoreOptions.Isolation;
import cedrat.persist.Transaction;
import java.io.ByteArrayOutputStream;
import java.io.ObjectOutputStream;
import java.io.Serializable;
import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.lang.reflect.Array;
import java.lang.reflect.Field;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.BitSet;
import java.util.Collections;
import java.util.Date;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Hashtable;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.LinkedList;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.PriorityQueue;
import java.util.Properties;
import java.util.TreeMap;
import java.util.concurrent.Future;
import java.util.function.Function;
import java.util.stream.Stream;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.MethodSource;

/// J3.2: each way to read something waits for its writer.
class WaysTest extends Threads {
    static final class Counter implements Serializable {
        private static final long serialVersionUID = 1;

        int number;
    }

    @SuppressWarnings("serial")
    static final class World implements Serializable, Cloneable {
        private static final long serialVersionUID = 1;

        int number;
        Object object = "old";
        volatile long volatileNumber;
        int[] numbers = {0, 0};
        String[] texts = {"old", "old"};
        final List<Integer> list = new ArrayList<>(List.of(0));
        final Map<String, Integer> map = new HashMap<>(Map.of("key", 0));
        final Map<String, Integer> tree = new TreeMap<>(Map.of("key", 0));
        final Map<String, Integer> linked = new LinkedHashMap<>(Map.of("key", 0));
        final List<Integer> linkedList = new LinkedList<>(List.of(0));
        final ArrayDeque<Integer> deque = new ArrayDeque<>(List.of(0));
        final PriorityQueue<Integer> heap = new PriorityQueue<>(List.of(0));
        final List<Integer> wrapped = Collections.synchronizedList(new ArrayList<>(List.of(0)));
        final BitSet bits = new BitSet();
        final StringBuilder text = new StringBuilder("old");
        final Date date = new Date(0);
        final Counter counter = new Counter();
        final char[] characters = {'o', 'l', 'd'};
        final Integer[] boxed = {0, 0};
        final List<Integer> fixed = Arrays.asList(0, 0);
        final Properties properties = new Properties();
        final Object[] nested = {new Object[] {new int[] {0}}, null};

        @Override
        protected World clone() throws CloneNotSupportedException {
            return (World) super.clone();
        }

        /// Which its own class reads without a lock.
        Counter counter() {
            return counter;
        }

        private int ofThis() {
            return number;
        }
    }

    /// An access to an object.
    interface Access {
        Object of(World world) throws Exception;
    }

    record Way(String name, Access write, Access read) {
        @Override
        public String toString() {
            return name;
        }
    }

    private static final Field NUMBER;
    private static final MethodHandle GETTER;
    private static final VarHandle NUMBERS;
    private static final VarHandle ELEMENTS = MethodHandles.arrayElementVarHandle(int[].class);

    static {
        try {
            NUMBER = World.class.getDeclaredField("number");
            GETTER = MethodHandles.lookup().findGetter(World.class, "number", int.class);
            NUMBERS = MethodHandles.lookup().findVarHandle(World.class, "volatileNumber", long.class);
        } catch (ReflectiveOperationException e) {
            throw new ExceptionInInitializerError(e);
        }
    }

    private static Object setNumber(World world) {
        world.number = 1;
        world.volatileNumber = 1;
        world.object = "new";
        return null;
    }

    private static Object setElements(World world) {
        world.numbers[1] = 1;
        world.texts[1] = "new";
        world.characters[1] = 'n';
        return null;
    }

    private static int[] innermost(World world) {
        return (int[]) ((Object[]) world.nested[0])[0];
    }

    private static Object setInnermost(World world) {
        innermost(world)[0] = 1;
        return null;
    }

    private static Object setProperty(World world) {
        world.properties.setProperty("key", "new");
        return null;
    }

    private static Object addToCollections(World world) {
        world.list.add(1);
        world.map.put("other", 1);
        world.tree.put("other", 1);
        world.linked.put("other", 1);
        world.linkedList.add(1);
        world.deque.add(1);
        world.heap.add(1);
        world.wrapped.add(1);
        world.bits.set(3);
        world.fixed.set(1, 1);
        return null;
    }

    private static Object changeUnseen(World world) {
        world.text.append("er");
        world.date.setTime(1);
        return null;
    }

    private static Object count(World world) {
        world.counter().number++;
        return null;
    }

    private static Way ofFields(String name, Access read) {
        return new Way(name, WaysTest::setNumber, read);
    }

    private static Way ofArrays(String name, Access read) {
        return new Way(name, WaysTest::setElements, read);
    }

    private static Way ofNested(String name, Access read) {
        return new Way(name, WaysTest::setInnermost, read);
    }

    private static Way ofProperties(String name, Function<Map<?, ?>, Object> read) {
        return new Way(name, WaysTest::setProperty, world -> read.apply(world.properties));
    }

    private static Way ofCollections(String name, Access read) {
        return new Way(name, WaysTest::addToCollections, read);
    }

    private static Way unseen(String name, Access read) {
        return new Way(name, WaysTest::changeUnseen, read);
    }

    static Stream<Way> ways() {
        return Stream.of(
                ofFields("a primitive field", world -> world.number),
                ofFields("a field of two words", world -> world.volatileNumber),
                ofFields("a field of its own", World::ofThis),
                ofFields("a reference", world -> world.object),
                ofFields("a copy", World::clone),
                ofFields("java.lang.reflect.Field.get", NUMBER::get),
                ofFields("java.lang.reflect.Field.getInt", NUMBER::getInt),
                ofFields("a handle of a field", WaysTest::byHandle),
                ofFields("a handle of a variable", world -> (long) NUMBERS.getVolatile(world)),
                ofFields("serialisation", WaysTest::serialised),
                new Way("serialisation of primitive fields", WaysTest::count, world -> serialised(world.counter())),
                ofArrays("an element", world -> world.numbers[0]),
                ofArrays("a reference in an array", world -> world.texts[0]),
                ofArrays("a copy of an array", world -> world.numbers.clone()),
                ofArrays("System.arraycopy", world -> {
                    int[] copy = new int[2];
                    System.arraycopy(world.numbers, 0, copy, 0, 2);
                    return copy;
                }),
                ofArrays("Arrays.copyOf", world -> Arrays.copyOf(world.texts, 2)),
                ofArrays("Arrays.asList", world -> Arrays.asList(world.texts).get(0)),
                ofArrays("a text of an array", world -> new String(world.characters)),
                ofArrays("List.of", world -> List.of(world.texts)),
                ofArrays("String.join", world -> String.join(",", world.texts)),
                ofArrays("java.lang.reflect.Array.get", world -> Array.getInt(world.numbers, 0)),
                ofArrays("a serialised array", world -> serialised(world.numbers)),
                ofArrays("a serialised array of objects", world -> serialised(world.texts)),
                ofArrays("an array of a serialised object", WaysTest::serialised),
                ofArrays("a handle of elements", world -> (int) ELEMENTS.getVolatile(world.numbers, 0)),
                ofArrays("a reference to Arrays.toString", world -> by(Arrays::toString, world.texts)),
                ofArrays("a reference to a constructor", world -> by(String::new, world.characters)),
                ofNested("Arrays.deepToString", world -> Arrays.deepToString(world.nested)),
                ofNested("Arrays.deepHashCode", world -> Arrays.deepHashCode(world.nested)),
                ofNested("Arrays.deepEquals", world -> Arrays.deepEquals(new Object[2], world.nested)),
                ofNested("Objects.deepEquals", world -> Objects.deepEquals(world.nested, new Object[2])),
                ofNested("a reference to Arrays.deepToString", world -> by(Arrays::deepToString, world.nested)),
                ofCollections("ArrayList.get", world -> world.list.get(0)),
                ofCollections("ArrayList.size", world -> world.list.size()),
                ofCollections("ArrayList.toString", world -> world.list.toString()),
                ofCollections("ArrayList.stream", world -> world.list.stream().toList()),
                ofCollections("ArrayList.forEach", world -> {
                    world.list.forEach(element -> {});
                    return null;
                }),
                ofCollections(
                        "ArrayList.iterator", world -> world.list.iterator().next()),
                ofCollections("a view of an ArrayList", world -> world.list.subList(0, 1)),
                ofCollections("a copy of an ArrayList", world -> new ArrayList<>(world.list)),
                ofCollections("ArrayList.clone", world -> ((ArrayList<?>) world.list).clone()),
                ofCollections("ArrayList.equals", world -> List.of(0).equals(world.list)),
                ofCollections("HashMap.get", world -> world.map.get("key")),
                ofCollections("HashMap.containsKey", world -> world.map.containsKey("none")),
                ofCollections("HashMap.size", world -> world.map.size()),
                ofCollections("HashMap.keySet", world -> List.copyOf(world.map.keySet())),
                ofCollections(
                        "HashMap.entrySet",
                        world -> world.map.entrySet().iterator().next()),
                ofCollections("HashMap.clone", world -> ((HashMap<?, ?>) world.map).clone()),
                ofCollections("TreeMap.get", world -> world.tree.get("key")),
                ofCollections("TreeMap.headMap", world -> ((TreeMap<String, Integer>) world.tree)
                        .headMap("z")
                        .size()),
                ofCollections("LinkedHashMap.values", world -> List.copyOf(world.linked.values())),
                ofCollections("LinkedList.getLast", world -> world.linkedList.getLast()),
                ofCollections("ArrayDeque.peek", world -> world.deque.peek()),
                ofCollections("PriorityQueue.peek", world -> world.heap.peek()),
                ofCollections("a wrapper", world -> world.wrapped.get(0)),
                ofCollections("BitSet.get", world -> world.bits.get(3)),
                ofCollections("an array that is a list", world -> world.fixed.get(1)),
                ofCollections(
                        "an iterator of an array",
                        world -> world.fixed.iterator().next()),
                ofCollections("a text of an array that is a list", world -> world.fixed.toString()),
                ofCollections("a hash of an array that is a list", world -> world.fixed.hashCode()),
                ofCollections("a set of an array that is a list", world -> new HashSet<>(world.fixed)),
                ofCollections("a stream of an array that is a list", world -> world.fixed.stream()
                        .toList()),
                ofProperties("Properties as a map", properties -> properties.get("key")),
                ofProperties("the size of Properties", Map::size),
                ofProperties("Properties as a table", properties -> ((Hashtable<?, ?>) properties).contains("new")),
                ofProperties("a text of Properties", Object::toString),
                ofProperties("all Properties", properties -> {
                    properties.forEach((key, value) -> {});
                    return null;
                }),
                unseen("StringBuilder.length", world -> world.text.length()),
                unseen("StringBuilder.toString", world -> world.text.toString()),
                unseen("a StringBuilder in a text", world -> "" + world.text),
                unseen("a StringBuilder as an argument", world -> new StringBuilder().append(world.text)),
                unseen("a StringBuilder made of one", world -> new StringBuilder(world.text)),
                unseen("a reference to StringBuilder.toString", world -> by(StringBuilder::toString, world.text)),
                unseen("a bound reference", world -> by("old"::contentEquals, world.text)),
                unseen("a reference to String.valueOf", world -> WaysTest.<Object>by(String::valueOf, world.text)),
                unseen("Date.getTime", world -> world.date.getTime()),
                unseen("Date.after", world -> new Date(1).after(world.date)));
    }

    private static <T> Object by(Function<T, Object> reference, T read) {
        return reference.apply(read);
    }

    private static Object byHandle(World world) {
        try {
            return (int) GETTER.invokeExact(world);
        } catch (RuntimeException | Error e) {
            throw e;
        } catch (Throwable e) {
            throw new AssertionError(e);
        }
    }

    private static Object serialised(Object object) throws Exception {
        var bytes = new ByteArrayOutputStream();
        try (var out = new ObjectOutputStream(bytes)) {
            out.writeObject(object);
        }
        return bytes.size();
    }

    private World world;

    @BeforeEach
    void fill() {
        open(Isolation.SERIALISABLE);
        store.setRoot("world", new World());
        open(Isolation.SERIALISABLE);
        world = store.root("world", Object.class);
    }

    /// J3.2.
    @ParameterizedTest
    @MethodSource("ways")
    void waitsForItsWriter(Way way) throws Exception {
        World read = world;
        Future<Object> reader;
        try (var transaction = Transaction.begin()) {
            way.write.of(read);
            reader = startAndWait(() -> Transaction.call(() -> way.read.of(read)));
            transaction.commit();
        }
        reader.get();
    }

    /// J3.2: a value that was read in one way does not change, though a writer uses another way.
    @ParameterizedTest
    @MethodSource("ways")
    void letsItsWriterWait(Way way) throws Exception {
        World read = world;
        Future<Object> writer;
        try (var transaction = Transaction.begin()) {
            way.read.of(read);
            writer = startAndWait(() -> Transaction.call(() -> way.write.of(read)));
            transaction.commit();
        }
        writer.get();
    }

    /// J3.2: an iterator, and an entry, of before the transaction.
    @ParameterizedTest
    @MethodSource("early")
    void earlierObjectsAreReadUnderLocks(String name, Access first, Use then) throws Exception {
        Object early = first.of(world);
        Future<Object> reader;
        try (var transaction = Transaction.begin()) {
            world.list.set(0, 1);
            world.map.put("key", 1);
            world.boxed[0] = 1;
            reader = startAndWait(() -> Transaction.call(() -> then.of(early)));
            transaction.commit();
        }
        assertEquals(1, reader.get());
    }

    /// A use of an object.
    interface Use {
        Object of(Object object);
    }

    static Stream<Arguments> early() {
        Access list = world -> world.list.iterator();
        Access map = world -> world.map.values().iterator();
        Access entry = world -> world.map.entrySet().iterator().next();
        Use next = object -> ((Iterator<?>) object).next();
        Access array = world -> Arrays.asList(world.boxed);
        Access ofArray = world -> Arrays.asList(world.boxed).iterator();
        Use copy = object -> ((List<?>) object).toArray()[0];
        Use value = object -> ((Map.Entry<?, ?>) object).getValue();
        return Stream.of(
                Arguments.of("an iterator of a list", list, next),
                Arguments.of("an iterator of a map", map, next),
                Arguments.of("an entry", entry, value),
                Arguments.of("a list that is an array", array, copy),
                Arguments.of("an iterator of an array", ofArray, next));
    }
}
