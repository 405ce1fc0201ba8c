package cedrat.persist.form;

import cedrat.persist.memory.Memory;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.time.Instant;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.util.AbstractMap;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Set;
import java.util.UUID;
import java.util.function.Consumer;

/// The hash table of a `HashMap`, with nodes that are made for it, and keys that lie in the same buckets in each
/// process.
///
/// - A key of the program may have another hash code in the next process. So may one of the JDK in its next version:
///   [#CHECK] tells.
///
/// **Threads:** any; what it looks at is locked by the caller.
final class HashNodes {
    static final Class<?> NODE = CollectionForms.nested(HashMap.class, "Node");

    private static final long TABLE = Memory.offset(HashMap.class, "table");
    private static final long SIZE = Memory.offset(HashMap.class, "size");
    private static final long THRESHOLD = Memory.offset(HashMap.class, "threshold");
    private static final long VALUES = Memory.offset(AbstractMap.class, "values");
    private static final long HASH = Memory.offset(NODE, "hash");
    private static final long KEY = Memory.offset(NODE, "key");
    private static final long VALUE = Memory.offset(NODE, "value");
    private static final long NEXT = Memory.offset(NODE, "next");
    private static final long MAP = Memory.offset(HashSet.class, "map");

    private static final Set<Class<?>> KEYS = Set.of(
            String.class,
            Integer.class,
            Long.class,
            Short.class,
            Byte.class,
            Character.class,
            Boolean.class,
            Float.class,
            Double.class,
            BigInteger.class,
            BigDecimal.class,
            UUID.class,
            LocalDate.class,
            LocalDateTime.class,
            Instant.class);

    private static final Object[] SAMPLES = {
        "Zürich",
        123_456_789,
        -123_456_789_012L,
        (short) 12_345,
        (byte) 123,
        'ß',
        true,
        1.25f,
        -3.75e10,
        new BigInteger("123456789012345678901234567890"),
        new BigDecimal("1234567890.12345"),
        new UUID(0x0123_4567_89ab_cdefL, 0xfedc_ba98_7654_3210L),
        LocalDate.of(2024, 2, 29),
        LocalDateTime.of(2024, 2, 29, 12, 34, 56, 789),
        Instant.ofEpochSecond(1_709_210_096, 789),
    };

    /// Number that depends on the hash codes of all these keys, and on what a table makes of them.
    static final int CHECK = check();
    /// Value of the entries of the map of a set.
    static final Object PRESENT = present();

    private HashNodes() {}

    private static int check() {
        int check = 0;
        for (Object sample : SAMPLES) {
            HashMap<Object, Object> map = new HashMap<>();
            map.put(sample, null);
            int hash = hash(map.entrySet().iterator().next());
            if (hash != hashOf(sample)) {
                throw new AssertionError("a HashMap of this JDK has another hash for " + sample);
            }
            check = 31 * check + hash;
        }
        return check;
    }

    private static Object present() {
        HashSet<Object> set = new HashSet<>();
        set.add(0);
        return value(((HashMap<?, ?>) map(set)).entrySet().iterator().next());
    }

    /// The map of a set.
    static Object map(Object set) {
        return Memory.getReference(set, MAP);
    }

    /// Whether a key is found in the same bucket in each process, as long as [#CHECK] is the same.
    static boolean isLasting(Object key) {
        return key == null || KEYS.contains(key.getClass());
    }

    /// The hash of a key, as a node has it.
    static int hashOf(Object key) {
        if (key == null) {
            return 0;
        }
        int code = key.hashCode();
        return code ^ code >>> 16;
    }

    /// Null if the map never had an entry.
    static Object[] table(Object map) {
        return (Object[]) Memory.getReference(map, TABLE);
    }

    /// Gives an empty map a table, and the number of entries that will be in it.
    static void setTable(Object map, Object[] table, int size) {
        Memory.putBits(map, SIZE, 'I', size);
        Memory.putBits(map, THRESHOLD, 'I', table.length / 4 * 3);
        Memory.putReference(map, TABLE, table);
    }

    /// Replaces the view of a map's values.
    static void setValues(Object map, Collection<?> values) {
        Memory.putReference(map, VALUES, values);
    }

    static Object[] newTable(int buckets) {
        return (Object[]) java.lang.reflect.Array.newInstance(NODE, buckets);
    }

    static Object newNode(Object key, Object value) {
        Object node = Memory.allocate(NODE);
        Memory.putBits(node, HASH, 'I', hashOf(key));
        Memory.putReference(node, KEY, key);
        Memory.putReference(node, VALUE, value);
        return node;
    }

    static boolean isNode(Object object) {
        return NODE.isInstance(object);
    }

    static int hash(Object node) {
        return (int) Memory.getBits(node, HASH, 'I');
    }

    static Object key(Object node) {
        return Memory.getReference(node, KEY);
    }

    static Object value(Object node) {
        return Memory.getReference(node, VALUE);
    }

    static Object next(Object node) {
        return Memory.getReference(node, NEXT);
    }

    static void setNext(Object node, Object next) {
        Memory.putReference(node, NEXT, next);
    }

    /// The nodes of some buckets as they are in memory, in their order.
    static void forEach(Object[] table, int from, int to, Consumer<Object> visitor) {
        for (int bucket = from; bucket < to; bucket++) {
            for (Object node = table[bucket]; node != null; node = next(node)) {
                visitor.accept(node);
            }
        }
    }
}
