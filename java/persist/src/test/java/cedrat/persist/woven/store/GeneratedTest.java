package cedrat.persist.woven.store;

import static org.junit.jupiter.api.Assertions.assertEquals;

import cedrat.persist.MemoryGraph;
import cedrat.persist.Store;
import cedrat.persist.StoreOptions;
import cedrat.persist.Transaction;
import cedrat.persist.woven.store.Program.Generated;
import cedrat.persist.woven.weave.Compiled;
import cedrat.persist.woven.weave.Compiled.Compiler;
import java.io.IOException;
import java.lang.reflect.Array;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.math.BigInteger;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.LocalDate;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Random;
import java.util.Set;
import java.util.TreeMap;
import java.util.function.Function;
import java.util.stream.LongStream;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/// Random classes, and random graphs of their objects: what is stored is what comes back, the same where it
/// was the same; what a change of the classes makes of it is what the guide says.
class GeneratedTest {
    /// `-Dcedrat.programs=…`: how many programs are made.
    private static final int PROGRAMS = Integer.getInteger("cedrat.programs", 12);

    private static final int OBJECTS = 40;
    private static final int TRANSACTIONS = 12;

    @TempDir
    Path folder;

    static LongStream seeds() {
        long first = Long.getLong("cedrat.seed", 1);
        return LongStream.range(first, first + PROGRAMS);
    }

    // ---- graphs

    /// A version of the classes, loaded.
    private static final class Loaded {
        final Program program;
        final Map<String, String> types;
        final ClassLoader loader;
        final Method make;

        Loaded(Program program, Path folder) throws IOException {
            this.program = program;
            types = program.fields();
            loader =
                    Compiled.of(Files.createTempDirectory(folder, "program"), Compiler.JAVAC, "Made", program.source());
            try {
                make = loader.loadClass("Made").getMethod("make", String.class, Object.class, Function.class);
            } catch (ReflectiveOperationException e) {
                throw new AssertionError(e);
            }
        }

        Class<?> load(String name) {
            try {
                return loader.loadClass(name.replace(".Inner", "$Inner"));
            } catch (ClassNotFoundException e) {
                throw new AssertionError(e);
            }
        }

        Object make(String name, Object outer, Function<String, Object> values) {
            try {
                return make.invoke(null, name, outer, values);
            } catch (InvocationTargetException e) {
                throw new AssertionError(e.getCause());
            } catch (IllegalAccessException e) {
                throw new AssertionError(e);
            }
        }
    }

    /// Objects that a graph is made of.
    private static final class Values {
        private final Loaded loaded;
        private final Random random;
        final List<Object> objects = new ArrayList<>();
        /// By their types: those that several places share.
        private final Map<String, List<Object>> shared = new HashMap<>();

        Values(Loaded loaded, Random random, Collection<?> objects) {
            this.loaded = loaded;
            this.random = random;
            this.objects.addAll(objects);
        }

        void makeObjects(int count) {
            List<String> names = loaded.program.concrete();
            for (int i = 0; i < count; i++) {
                String name = names.get(i < names.size() ? i : random.nextInt(names.size()));
                Object outer = name.endsWith(".Inner") ? instance(name.replace(".Inner", "")) : null;
                if (!name.endsWith(".Inner") || outer != null) {
                    objects.add(loaded.make(name, outer, null));
                }
            }
            for (String record : List.of("R0", "R1", "R0")) {
                objects.add(loaded.make(record, null, this::ofField));
            }
        }

        Object ofField(String field) {
            return ofType(loaded.types.get(field));
        }

        private Object ofType(String type) {
            switch (type) {
                case "boolean":
                    return random.nextBoolean();
                case "byte":
                    return (byte) random.nextInt();
                case "char":
                    return (char) random.nextInt();
                case "short":
                    return (short) random.nextInt();
                case "int":
                    return random.nextInt();
                case "long":
                    return random.nextLong();
                case "float":
                    return Float.intBitsToFloat(random.nextInt());
                case "double":
                    return Double.longBitsToDouble(random.nextLong());
                default:
            }
            if (random.nextInt(6) == 0) {
                return null;
            }
            List<Object> known = shared.computeIfAbsent(type, key -> new ArrayList<>());
            if (!known.isEmpty() && random.nextInt(3) == 0) {
                return known.get(random.nextInt(known.size()));
            }
            Object made = reference(type);
            known.add(made);
            return made;
        }

        private Object reference(String type) {
            int count = random.nextInt(5);
            return switch (type) {
                case "Object" -> any();
                case "String", "Comparable<String>" -> "text " + random.nextInt(30);
                case "Integer" -> random.nextInt();
                case "Long" -> random.nextLong();
                case "int[]" -> random.ints(count).toArray();
                case "long[][]" -> new long[][] {random.longs(count).toArray(), null, {}};
                case "Object[]" -> fill(new Object[count]);
                case "String[]" -> new String[] {"one", null};
                case "List<Object>" -> new ArrayList<>(Arrays.asList(fill(new Object[count])));
                case "ArrayDeque<Object>" -> new ArrayDeque<>(objects.subList(0, Math.min(count, objects.size())));
                case "Map<String, Object>" -> {
                    Map<String, Object> map = new HashMap<>();
                    random.ints(count, 0, 9).forEach(key -> map.put("key " + key, any()));
                    yield map;
                }
                case "TreeMap<Integer, Object>" -> {
                    Map<Integer, Object> map = new TreeMap<>();
                    random.ints(count, 0, 9).forEach(key -> map.put(key, any()));
                    yield map;
                }
                case "Set<Integer>" -> {
                    Set<Integer> set = new HashSet<>();
                    random.ints(count).forEach(set::add);
                    yield set;
                }
                case "Optional<Object>" -> Optional.ofNullable(any());
                case "java.math.BigInteger" -> new BigInteger(100, random).negate();
                case "java.time.LocalDate" -> LocalDate.ofEpochDay(random.nextInt(100_000));
                case "C0[]", "I0[]", "E0[]" -> {
                    String element = type.substring(0, 2);
                    Object[] array = (Object[]) Array.newInstance(loaded.load(element), count);
                    for (int i = 0; i < count; i++) {
                        array[i] = instance(element);
                    }
                    yield array;
                }
                default -> instance(type);
            };
        }

        private Object any() {
            return switch (random.nextInt(8)) {
                case 0 -> "text " + random.nextInt(30);
                case 1 -> random.nextLong();
                case 2 -> random.nextDouble();
                case 3 -> (char) random.nextInt();
                case 4 -> constant();
                case 5 -> new int[] {random.nextInt()};
                default -> objects.isEmpty() ? null : objects.get(random.nextInt(objects.size()));
            };
        }

        private Object[] fill(Object[] array) {
            for (int i = 0; i < array.length; i++) {
                array[i] = any();
            }
            return array;
        }

        private Object constant() {
            Object[] constants = loaded.load("E0").getEnumConstants();
            return constants[random.nextInt(constants.length)];
        }

        /// One that fits, or null.
        private Object instance(String type) {
            if (type.equals("E0") || type.equals("I1") && random.nextInt(4) == 0) {
                return constant();
            }
            Class<?> wanted = loaded.load(type);
            int from = random.nextInt(Math.max(1, objects.size()));
            for (int i = 0; i < objects.size(); i++) {
                Object object = objects.get((from + i) % objects.size());
                if (wanted.isInstance(object)) {
                    return object;
                }
            }
            return null;
        }

        /// Assigns the fields of an object.
        void fill(Object object) {
            if (object instanceof Generated generated) {
                generated.fill(this::ofField);
            }
        }
    }

    // ---- what there is

    /// An object as it was seen: what it is, and what is in it, by names.
    private static final class Seen {
        final String what;
        /// Values, or other [Seen].
        final Map<String, Object> parts = new TreeMap<>();

        Seen(String what) {
            this.what = what;
        }
    }

    /// Content reachable from an object. Values are strings; where identity counts, there is a [Seen] for each
    /// object.
    private static final class Look {
        private final IdentityHashMap<Object, Seen> seen = new IdentityHashMap<>();
        private final ArrayDeque<Object> open = new ArrayDeque<>();

        Seen from(Object root) {
            Object first = refer(root);
            for (Object next; (next = open.poll()) != null; ) {
                look(next, seen.get(next));
            }
            return (Seen) first;
        }

        Collection<Object> objects() {
            return seen.keySet();
        }

        private Object refer(Object object) {
            switch (object) {
                case null -> {
                    return "null";
                }
                case Character unit -> {
                    return "Character " + (int) unit;
                }
                // All bits of those that are no numbers.
                case Float number -> {
                    return "Float " + Float.floatToRawIntBits(number);
                }
                case Double number -> {
                    return "Double " + Double.doubleToRawLongBits(number);
                }
                case Enum<?> constant -> {
                    return constant.getDeclaringClass().getName() + " " + constant.name();
                }
                case Number _, Boolean _, String _, LocalDate _ -> {
                    return object.getClass().getSimpleName() + " " + object;
                }
                default -> {}
            }
            Seen known = seen.get(object);
            if (known == null) {
                known = new Seen(object.getClass().getName());
                seen.put(object, known);
                open.add(object);
            }
            return known;
        }

        private void look(Object object, Seen into) {
            switch (object) {
                case Generated generated ->
                    generated.fields((name, value) -> {
                        if (into.parts.put(name, refer(value)) != null) {
                            throw new AssertionError(name + " twice");
                        }
                    });
                case Map<?, ?> map -> map.forEach((key, value) -> into.parts.put("key " + key, refer(value)));
                case Set<?> set -> set.forEach(element -> into.parts.put("element " + element, ""));
                case Collection<?> collection -> {
                    for (Object element : collection) {
                        into.parts.put("%06d".formatted(into.parts.size()), refer(element));
                    }
                }
                case Optional<?> optional -> into.parts.put("value", refer(optional.orElse(null)));
                default -> {
                    for (int i = 0; i < Array.getLength(object); i++) {
                        into.parts.put("%06d".formatted(i), refer(Array.get(object, i)));
                    }
                }
            }
        }
    }

    /// As a text, in which objects are numbered as they are met.
    private static String text(Seen root) {
        Map<Seen, Integer> numbers = new IdentityHashMap<>();
        List<Seen> met = new ArrayList<>(List.of(root));
        numbers.put(root, 0);
        StringBuilder out = new StringBuilder();
        for (int i = 0; i < met.size(); i++) {
            Seen seen = met.get(i);
            out.append(i).append(' ').append(seen.what);
            seen.parts.forEach((name, part) -> {
                out.append(' ').append(name).append('=');
                if (part instanceof Seen other) {
                    if (numbers.putIfAbsent(other, numbers.size()) == null) {
                        met.add(other);
                    }
                    out.append('#').append(numbers.get(other));
                } else {
                    out.append(part);
                }
            });
            out.append('\n');
        }
        return out.toString();
    }

    /// Returns the same objects as another version of their classes has them: removed fields are gone, new fields have
    /// no value, wider fields have the same value.
    private static Seen changed(Seen root, Loaded now) {
        Map<Seen, Seen> done = new IdentityHashMap<>();
        ArrayDeque<Seen> open = new ArrayDeque<>(List.of(root));
        done.put(root, new Seen(root.what));
        for (Seen next; (next = open.poll()) != null; ) {
            Seen into = done.get(next);
            next.parts.forEach((name, part) -> {
                boolean isField = name.matches("C\\d+\\..*") && !name.endsWith(".outer");
                if (isField && !now.types.containsKey(name)) {
                    return;
                }
                if (part instanceof Seen other) {
                    if (!done.containsKey(other)) {
                        done.put(other, new Seen(other.what));
                        open.add(other);
                    }
                    into.parts.put(name, done.get(other));
                } else {
                    into.parts.put(name, isField ? widened((String) part, now.types.get(name)) : part);
                }
            });
            addNew(into, now);
        }
        return done.get(root);
    }

    /// Fields that the objects were stored without.
    private static void addNew(Seen seen, Loaded now) {
        if (!seen.what.startsWith("C")) {
            return;
        }
        for (Class<?> type = now.load(seen.what.replace('$', '.')); type != Object.class; type = type.getSuperclass()) {
            String prefix = type.getName().replace('$', '.') + ".";
            now.types.forEach((name, fieldType) -> {
                boolean isOfType = name.startsWith(prefix) && name.indexOf('.', prefix.length()) < 0;
                if (isOfType && !seen.parts.containsKey(name)) {
                    seen.parts.put(name, nothing(fieldType));
                }
            });
        }
    }

    private static String nothing(String type) {
        return switch (type) {
            case "boolean" -> "Boolean false";
            case "byte" -> "Byte 0";
            case "char" -> "Character 0";
            case "short" -> "Short 0";
            case "int" -> "Integer 0";
            case "long" -> "Long 0";
            case "float" -> "Float 0";
            case "double" -> "Double 0";
            default -> "null";
        };
    }

    private static String widened(String value, String type) {
        String[] words = value.split(" ", 2);
        return switch (type) {
            case "short" -> "Short " + words[1];
            case "int" -> "Integer " + words[1];
            case "long" -> "Long " + words[1];
            case "float" ->
                words[0].equals("Float") ? value : "Float " + Float.floatToRawIntBits(Long.parseLong(words[1]));
            case "double" -> "Double " + Double.doubleToRawLongBits(asDouble(words));
            default -> value;
        };
    }

    private static double asDouble(String[] words) {
        return switch (words[0]) {
            case "Double" -> Double.longBitsToDouble(Long.parseLong(words[1]));
            case "Float" -> Float.intBitsToFloat(Integer.parseInt(words[1]));
            default -> Long.parseLong(words[1]);
        };
    }

    // ---- tests

    private final MemoryGraph graph = new MemoryGraph();

    private Store open(Loaded loaded, Random random) {
        return Store.open(
                graph.open(),
                new StoreOptions().classLoader(loaded.loader).loadedBytesMax(random.nextBoolean() ? 2_000 : 1 << 20));
    }

    /// Transactions that change objects of the graph, and of which some roll back. Returns what there is
    /// then.
    private static Seen transact(Loaded loaded, Object root, Random random, String where) {
        for (int i = 0; i < TRANSACTIONS; i++) {
            Look before = new Look();
            String text = text(before.from(root));
            Values values = new Values(
                    loaded,
                    random,
                    before.objects().stream()
                            .filter(Generated.class::isInstance)
                            .toList());
            values.makeObjects(random.nextInt(3));
            boolean isRolledBack = random.nextInt(4) == 0;
            Transaction.run(transaction -> {
                for (int change = random.nextInt(4); change >= 0; change--) {
                    values.fill(values.objects.get(random.nextInt(values.objects.size())));
                }
                if (isRolledBack) {
                    transaction.rollback();
                }
            });
            if (isRolledBack) {
                assertEquals(text, text(new Look().from(root)), where + ", rolled back");
            }
        }
        return new Look().from(root);
    }

    /// J10.
    @ParameterizedTest
    @MethodSource("seeds")
    void comesBackAndChangesAsItsClassesDo(long seed) throws IOException {
        String where = "seed " + seed;
        Random random = new Random(seed);
        Program program = Program.random(random);
        Loaded first = new Loaded(program, folder);
        Values values = new Values(first, random, List.of());
        values.makeObjects(OBJECTS);
        values.objects.forEach(values::fill);
        Object root = values.objects.toArray();
        Seen stored = new Look().from(root);
        try (Store store = open(first, random)) {
            store.setRoot("root", root);
        }
        Loaded again = new Loaded(program, folder);
        try (Store store = open(again, random)) {
            Object found = store.root("root", Object.class);
            assertEquals(text(stored), text(new Look().from(found)), where);
            stored = transact(again, found, random, where);
        }
        for (int change = 1; change <= 3; change++) {
            program = program.changed(random);
            Loaded now = new Loaded(program, folder);
            String then = where + ", change " + change + " of the classes";
            try (Store store = open(now, random)) {
                Object found = store.root("root", Object.class);
                stored = changed(stored, now);
                assertEquals(text(stored), text(new Look().from(found)), then);
                stored = transact(now, found, random, then);
            }
        }
        Loaded last = new Loaded(program, folder);
        try (Store store = open(last, random)) {
            assertEquals(text(stored), text(new Look().from(store.root("root", Object.class))), where + ", at last");
        }
    }
}
