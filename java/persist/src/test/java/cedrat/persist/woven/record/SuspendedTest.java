package cedrat.persist.woven.record;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;

import cedrat.persist.MemoryGraph;
import cedrat.persist.Store;
import cedrat.persist.StoreException;
import cedrat.persist.StoreOptions;
import cedrat.persist.Transaction;
import java.io.IOException;
import java.io.InputStream;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Currency;
import java.util.Date;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/// J14: what belongs to no transaction is not undone, and changes nothing that is persistent (J2).
@Timeout(60)
class SuspendedTest {
    private static List<String> texts;
    private static int[] numbers;
    private static Date date;

    private static final class AddingToAList {
        static int count;

        static {
            texts.add("from an initialiser");
        }
    }

    private static final class StoringToAnArray {
        static int count;

        static {
            numbers[0] = 7;
        }
    }

    private static final class ChangingADate {
        static int count;

        static {
            date.setTime(7);
        }
    }

    static final class Plugin {}

    static final class OtherPlugin {}

    /// Has classes of its own, in a map of its own.
    private static final class ChildFirst extends ClassLoader {
        private final Map<String, Class<?>> own = new HashMap<>();

        ChildFirst(ClassLoader parent) {
            super(parent);
        }

        @Override
        public Class<?> loadClass(String name) throws ClassNotFoundException {
            synchronized (getClassLoadingLock(name)) {
                Class<?> known = own.get(name);
                if (known != null) {
                    return known;
                }
                if (!name.endsWith("Plugin")) {
                    return super.loadClass(name);
                }
                try (InputStream in = getParent().getResourceAsStream(name.replace('.', '/') + ".class")) {
                    byte[] bytes = in.readAllBytes();
                    Class<?> made = defineClass(name, bytes, 0, bytes.length);
                    own.put(name, made);
                    return made;
                } catch (IOException e) {
                    throw new ClassNotFoundException(name, e);
                }
            }
        }
    }

    private static final class Key {
        final String name;
        Map<Key, String> view;

        Key(String name) {
            this.name = name;
        }

        @Override
        public int hashCode() {
            return name.hashCode() + (view == null ? 1 : 0);
        }

        @Override
        public boolean equals(Object other) {
            return other instanceof Key key && key.name.equals(name);
        }
    }

    private static final class Shelf {
        Map<Key, String> view;
        Key key;
    }

    /// J14: nothing else here may have used it before.
    @Test
    void jdkClassesInitialiseOutsideOfTransactions() {
        try (var transaction = Transaction.begin()) {
            assertEquals("EUR", Currency.getInstance("EUR").getCurrencyCode());
            transaction.rollback();
        }
        assertEquals("EUR", Currency.getInstance("EUR").getCurrencyCode());
    }

    /// J14.
    @Test
    void applicationClassLoadersAreOutsideOfTransactions() throws Exception {
        ChildFirst loader = new ChildFirst(getClass().getClassLoader());
        Class<?> loaded;
        try (var transaction = Transaction.begin()) {
            loaded = Class.forName(Plugin.class.getName(), false, loader);
            CompletableFuture<Class<?>> other = new CompletableFuture<>();
            Thread thread = Thread.ofPlatform().start(() -> {
                try {
                    other.complete(Class.forName(OtherPlugin.class.getName(), false, loader));
                } catch (Throwable e) {
                    other.completeExceptionally(e);
                }
            });
            thread.join();
            assertSame(loader, other.get().getClassLoader());
            transaction.rollback();
        }
        assertSame(loaded, loader.loadClass(Plugin.class.getName()));
    }

    /// J2.
    @Test
    void initialisersChangeNoPersistentCollectionsAndArrays() {
        MemoryGraph graph = new MemoryGraph();
        try (var store = Store.open(graph.open(), new StoreOptions())) {
            texts = new ArrayList<>(List.of("one"));
            numbers = new int[1];
            date = new Date(1);
            store.setRoot("texts", texts);
            store.setRoot("numbers", numbers);
            store.setRoot("date", date);
            try (var transaction = Transaction.begin()) {
                assertRefused(() -> AddingToAList.count++);
                assertRefused(() -> StoringToAnArray.count++);
                assertRefused(() -> ChangingADate.count++);
                ThreadLocal<String> first = ThreadLocal.withInitial(() -> {
                    texts.add("from a first value");
                    return "";
                });
                assertThrows(IllegalStateException.class, first::get);
                transaction.commit();
            }
            assertEquals(List.of("one"), texts);
            assertEquals(0, numbers[0]);
            assertEquals(1, date.getTime());
        }
    }

    private static void assertRefused(Runnable initialising) {
        var thrown = assertThrows(ExceptionInInitializerError.class, initialising::run);
        assertInstanceOf(IllegalStateException.class, thrown.getCause());
    }

    /// J4: it would be asked for again and again.
    @Test
    void wrapperNeededByItsKeyIsRefused() {
        MemoryGraph graph = new MemoryGraph();
        try (var store = Store.open(graph.open(), new StoreOptions())) {
            Shelf shelf = new Shelf();
            Map<Key, String> map = new HashMap<>();
            shelf.view = Collections.unmodifiableMap(map);
            shelf.key = new Key("key");
            shelf.key.view = shelf.view;
            map.put(shelf.key, "value");
            store.setRoot("shelf", shelf);
        }
        try (var store = Store.open(graph.open(), new StoreOptions())) {
            Shelf shelf = store.root("shelf", Shelf.class);
            var thrown = assertThrows(StoreException.class, () -> assertNotNull(shelf.view));
            assertEquals(true, thrown.getMessage().contains("hashCode"), thrown.getMessage());
        }
    }
}
