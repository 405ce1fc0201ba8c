package cedrat.persist.woven.store;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cedrat.persist.Store;
import cedrat.persist.StoreException;
import cedrat.persist.StoreOptions;
import cedrat.persist.Transaction;
import java.io.IOException;
import java.io.ObjectInputStream;
import java.io.Serializable;
import java.math.MathContext;
import java.util.AbstractMap;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;

/// Classes that take part in their serialisation, constants of the program, keys of tables that a class makes itself,
/// and converters.
class SerialFormsTest extends StoreFixture {
    @SuppressWarnings("serial")
    private static class Rebuilt implements Serializable {
        transient String text = "a";
        transient int number = 5;

        private void readObject(ObjectInputStream in) throws IOException, ClassNotFoundException {
            in.defaultReadObject();
            throw new AssertionError("a store runs no such method");
        }
    }

    @Test
    void transientFieldsOfRebuiltClassLast() {
        Rebuilt made = new Rebuilt();
        store.setRoot("rebuilt", made);
        assertThrows(IllegalStateException.class, () -> made.number = 6);
        Transaction.run(() -> {
            made.text = "b";
        });
        reopen();
        Rebuilt found = store.root("rebuilt", Rebuilt.class);
        assertEquals("b", found.text);
        assertEquals(5, found.number);
    }

    private abstract static class Constructed {
        transient List<String> list = new ArrayList<>(List.of("a"));
    }

    @SuppressWarnings("serial")
    private static final class Constructing extends Constructed implements Serializable {}

    private static final class Plain extends Constructed {
        final transient int[] last = {1};
        transient String cache = "a";
    }

    /// Both subclasses have the same superclass, which is stored in two ways.
    @Test
    void transientFieldsFollowTheSubclass() {
        store.setRoot("constructing", new Constructing());
        store.setRoot("plain", new Plain());
        reopen();
        assertEquals(List.of("a"), store.root("constructing", Constructing.class).list);
        Plain plain = store.root("plain", Plain.class);
        assertNull(plain.list);
        assertNull(plain.cache);
        assertEquals(1, plain.last[0]);
        store.setRoot("other", new Constructing());
        store.setRoot("another", new Plain());
        reopen();
        assertEquals(List.of("a"), store.root("other", Constructing.class).list);
        assertNull(store.root("another", Plain.class).list);
    }

    private static final class Optional {
        static final Object NONE = new Object();
        static final Optional EMPTY = new Optional(null);
        static final Optional KNOWN = new Optional(new ArrayList<>());

        final Object value;

        Optional(Object value) {
            this.value = value;
        }
    }

    @Test
    void constantsStayIdentical() {
        store.setRoot("none", new Optional(Optional.NONE));
        store.setRoot("empty", Optional.EMPTY);
        store.setRoot("list", new ArrayList<>(List.of(Optional.EMPTY, Optional.NONE)));
        reopen();
        assertSame(Optional.NONE, store.root("none", Optional.class).value);
        assertSame(Optional.EMPTY, store.root("empty", Object.class));
        assertSame(Optional.EMPTY, store.<List<?>>root("list", List.class).get(0));
        assertSame(Optional.NONE, store.<List<?>>root("list", List.class).get(1));
    }

    /// An object with content that changes is no constant, whichever field has it.
    @Test
    @SuppressWarnings("unchecked")
    void contentOfStaticFinalLasts() {
        store.setRoot("known", Optional.KNOWN);
        Transaction.run(() -> {
            ((List<Object>) Optional.KNOWN.value).add("x");
        });
        reopen();
        assertEquals(List.of("x"), store.root("known", Optional.class).value);
    }

    @SuppressWarnings("serial")
    private static final class Unit implements Serializable {
        private static final Map<String, Unit> ALL = new ConcurrentHashMap<>();

        final String name;
        final transient Thread maker = Thread.currentThread();

        private Unit(String name) {
            this.name = name;
        }

        static Unit of(String name) {
            return ALL.computeIfAbsent(name, Unit::new);
        }

        private Object readResolve() {
            return of(name);
        }
    }

    @Test
    void registeredObjectStaysIdentical() {
        Unit metre = Unit.of("metre");
        store.setRoot("unit", new Object[] {metre, Unit.of("gram"), metre});
        reopen();
        Object[] found = store.root("unit", Object[].class);
        assertSame(metre, found[0]);
        assertSame(Unit.of("gram"), found[1]);
        assertSame(metre, found[2]);
        assertThrows(StoreException.class, () -> store.setRoot("copy", new Unit("metre")));
    }

    /// J4
    @Test
    void enumsHashByName() {
        assertEquals("NANOSECONDS".hashCode(), TimeUnit.NANOSECONDS.hashCode());
    }

    /// A table by hash codes.
    private static final class Table extends AbstractMap<Object, Object> {
        private Object[] keys = new Object[16];

        private int place(Object key) {
            int at = key.hashCode() & keys.length - 1;
            while (keys[at] != null && !keys[at].equals(key)) {
                at = at + 1 & keys.length - 1;
            }
            return at;
        }

        @Override
        public Object put(Object key, Object value) {
            keys[place(key)] = key;
            return null;
        }

        @Override
        public boolean containsKey(Object key) {
            return keys[place(key)] != null;
        }

        @Override
        public java.util.Set<Map.Entry<Object, Object>> entrySet() {
            throw new AssertionError("a commit changes nothing");
        }
    }

    private record Pair(Object left, Object right) {}

    private void assertRefused(Object key) {
        Table table = new Table();
        table.put("a", null);
        store.setRoot("table", table);
        Transaction.run(() -> {
            table.put(new Pair("b", TimeUnit.DAYS), null);
            table.put(List.of("c"), null);
        });
        var refused = assertThrows(
                StoreException.class,
                () -> Transaction.run(() -> {
                    table.put(key, null);
                }));
        assertTrue(refused.getMessage().contains("its hash code differs in each process"), refused.getMessage());
        reopen();
        Table loaded = store.root("table", Table.class);
        assertThrows(
                StoreException.class,
                () -> Transaction.run(() -> {
                    loaded.put(key, null);
                }));
        Table other = new Table();
        other.put(key, null);
        assertThrows(StoreException.class, () -> store.setRoot("other", other));
    }

    @Test
    void keyByIdentityIsRefused() {
        assertRefused(Table.class);
        assertRefused(new Object());
        assertRefused(new Node(1, null));
        assertRefused(List.of(Table.class));
        assertRefused(new Pair("a", new Pair(Table.class, null)));
    }

    @Test
    void valueByIdentityIsStored() {
        Table table = new Table();
        table.put(new Pair("a", null), null);
        store.setRoot("table", new Object[] {table, new Node(1, null), Table.class});
        reopen();
        Object[] found = store.root("table", Object[].class);
        assertTrue(((Table) found[0]).containsKey(new Pair("a", null)));
    }

    private StoreOptions converting() {
        return new StoreOptions()
                .convert(MathContext.class, MathContext::toString, MathContext::new)
                .convert(Thread.class, thread -> new Pair(thread.getName(), null), pair -> Thread.ofPlatform()
                        .name((String) pair.left())
                        .unstarted(() -> {}));
    }

    @Test
    void convertedObjectsComeBack() {
        store.close();
        store = Store.open(graph.open(), converting());
        store.setRoot("all", new Object[] {MathContext.DECIMAL32, new Thread("t")});
        store.close();
        StoreOptions none = new StoreOptions();
        StoreException refused = assertThrows(StoreException.class, () -> Store.open(graph.open(), none));
        assertTrue(refused.getMessage().contains("call StoreOptions.convert"), refused.getMessage());
        store = Store.open(graph.open(), converting());
        Object[] found = store.root("all", Object[].class);
        assertEquals(MathContext.DECIMAL32, found[0]);
        assertEquals("t", ((Thread) found[1]).getName());
    }

    @Test
    void failingConverterRefusesTheCommit() {
        store.close();
        store = Store.open(graph.open(), new StoreOptions().convert(Thread.class, it -> it, it -> it));
        StoreException refused = assertThrows(StoreException.class, () -> store.setRoot("thread", new Thread("t")));
        assertTrue(refused.getMessage().contains("return an object that can be stored"), refused.getMessage());
    }

    @Test
    void checkNamesEachRefusal() {
        Object graph = List.of(new Pair(new Thread(), TimeUnit.DAYS), new ThreadLocal<>(), "a");
        List<String> refused = store.check(graph);
        assertEquals(2, refused.size(), refused::toString);
        assertTrue(
                refused.get(0)
                        .startsWith(
                                "root → [1] leads to an object of java.lang.ThreadLocal, which cannot be persistent: "),
                refused::toString);
        assertTrue(
                refused.get(1).startsWith("root → [0] → left leads to an object of java.lang.Thread, "),
                refused::toString);
        assertEquals(List.of(), store.check(new Pair(TimeUnit.DAYS, new Node(1, null))));
        assertTrue(store.rootNames().isEmpty());
        reopen();
        assertTrue(store.isNew(), "no class was defined");
    }
}
