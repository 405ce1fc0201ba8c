package cedrat.persist.woven.store;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;

import cedrat.persist.GraphStore;
import cedrat.persist.MemoryGraph;
import cedrat.persist.Store;
import cedrat.persist.StoreException;
import cedrat.persist.StoreOptions;
import cedrat.persist.Transaction;
import java.io.IOException;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Proxy;
import java.nio.file.Path;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.atomic.AtomicReference;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/// J8c: the definitions of classes without objects are dropped.
class UnusedClassesTest {
    private enum Color {
        RED,
        GREEN
    }

    private abstract static class Base {
        int number = 1;
    }

    private static final class Item extends Base {
        Color color = Color.GREEN;
        Object next;
    }

    private static final class Other extends Base {
        int more = 2;
    }

    private final MemoryGraph graph = new MemoryGraph();

    private Store open() {
        return Store.open(graph.open(), new StoreOptions());
    }

    private void checkItem() {
        try (Store store = open()) {
            Item item = store.root("item", Item.class);
            assertEquals(1, item.number);
            assertSame(Color.GREEN, item.color);
        }
    }

    /// J8c.
    @Test
    void classWithoutObjectsIsDropped() {
        try (Store store = open()) {
            store.setRoot("item", new Item());
            store.setRoot("other", new Other());
            assertEquals(4, graph.classes(), "Item, Base, Color and Other");
            store.collect();
            assertEquals(0, graph.droppedClasses());
            store.removeRoot("other");
        }
        try (Store store = open()) {
            store.collect();
            assertEquals(1, graph.droppedClasses(), "J8c: Other");
            store.collect();
            assertEquals(1, graph.droppedClasses());
        }
        checkItem();
        try (Store store = open()) {
            store.removeRoot("item");
        }
        try (Store store = open()) {
            store.collect();
            assertEquals(4, graph.droppedClasses(), "J8c: with the superclass");
        }
    }

    /// J8d: in the opening that has dropped it, and in the next one.
    @Test
    void droppedClassIsDefinedAgain() {
        try (Store store = open()) {
            store.setRoot("item", new Item());
            store.removeRoot("item");
        }
        try (Store store = open()) {
            store.collect();
            assertEquals(3, graph.droppedClasses());
            store.setRoot("item", new Item());
            assertEquals(6, graph.classes());
        }
        checkItem();
        try (Store store = open()) {
            store.removeRoot("item");
        }
        try (Store store = open()) {
            store.collect();
            assertEquals(6, graph.droppedClasses());
        }
        try (Store store = open()) {
            store.setRoot("item", new Item());
        }
        checkItem();
    }

    /// J8c.
    @Test
    void referencedConstantKeepsItsEnum() {
        try (Store store = open()) {
            store.setRoot("item", new Item());
            store.setRoot("color", Color.RED);
            store.removeRoot("item");
        }
        try (Store store = open()) {
            store.collect();
            assertEquals(2, graph.droppedClasses(), "J8c: Item and Base");
            assertSame(Color.RED, store.root("color", Color.class));
            store.removeRoot("color");
            store.collect();
            assertEquals(3, graph.droppedClasses());
            store.setRoot("color", Color.GREEN);
        }
        try (Store store = open()) {
            assertSame(Color.GREEN, store.root("color", Color.class));
        }
    }

    /// J8c.
    @Test
    void objectInMemoryKeepsItsClass() {
        try (Store store = open()) {
            store.setRoot("item", new Item());
        }
        try (Store store = open()) {
            Item item = store.root("item", Item.class);
            store.removeRoot("item");
            store.collect();
            assertEquals(0, graph.droppedClasses());
            store.setRoot("item", item);
        }
        checkItem();
    }

    /// J8e: none of them is dropped then, since it may be a superclass.
    @Test
    void classUsedDuringDropStays() {
        try (Store store = open()) {
            store.setRoot("item", new Item());
            store.setRoot("other", new Other());
            store.removeRoot("item");
            store.removeRoot("other");
        }
        try (Store store = open()) {
            graph.beforeDrop(() -> store.setRoot("item", new Item()));
            store.collect();
            assertEquals(1, graph.droppedClasses(), "J8e: Other");
            assertEquals(4, graph.classes());
        }
        checkItem();
    }

    /// Opens the store, and does something at the beginning of the next commit that defines no class.
    private Store openBeforeCommit(AtomicReference<Runnable> action) {
        GraphStore opened = graph.open();
        return Store.open(
                (GraphStore) Proxy.newProxyInstance(
                        GraphStore.class.getClassLoader(),
                        new Class<?>[] {GraphStore.class},
                        (proxy, method, arguments) -> {
                            if (method.getName().equals("commit")) {
                                action.getAndSet(() -> {}).run();
                            }
                            try {
                                return method.invoke(opened, arguments);
                            } catch (InvocationTargetException e) {
                                throw e.getCause();
                            }
                        }),
                new StoreOptions());
    }

    /// J8d: the commit was written with the number of a class that has been dropped since.
    @Test
    void commitOfDroppedClassRunsAgain() {
        try (Store store = open()) {
            store.setRoot("item", new Item());
            store.removeRoot("item");
        }
        AtomicReference<Runnable> action = new AtomicReference<>(() -> {});
        try (Store store = openBeforeCommit(action)) {
            action.set(() -> CompletableFuture.runAsync(store::collect).join());
            Transaction.run(() -> store.setRoot("item", new Item()));
            assertEquals(3, graph.droppedClasses());
            assertEquals(6, graph.classes(), "J8d");
        }
        checkItem();
    }

    private static final String WITH_GONE = """
            static class Gone { int a = 1; }
            enum Hue { DARK }
            static class Item { Object gone = new Gone(); Object hue = Hue.DARK; Object all = new Gone[1]; }
            static Object make() { return new Item(); }
            """;

    private static final String WITHOUT_GONE = """
            static class Item { Object gone; Object hue; Object all; }
            static Object make() { return new Item(); }
            """;

    /// J10c: the declaration of a deletion is needed until no reference is left.
    @Test
    void declaredDeletionEndsWithLastReference(@TempDir Path folder) throws IOException {
        Class<?> before = Versions.compile(folder, WITH_GONE);
        StoreOptions options = new StoreOptions().classLoader(before.getClassLoader());
        try (Store store = Store.open(graph.open(), options)) {
            store.setRoot("it", Versions.call(before, "make", null));
        }
        Class<?> now = Versions.compile(folder, WITHOUT_GONE);
        StoreOptions undeclared = new StoreOptions().classLoader(now.getClassLoader());
        assertThrows(StoreException.class, () -> Store.open(graph.open(), undeclared));
        StoreOptions declared = new StoreOptions()
                .classLoader(now.getClassLoader())
                .deleteClass("Program$Gone")
                .deleteClass("Program$Hue");
        try (Store store = Store.open(graph.open(), declared)) {
            store.collect();
            assertEquals(0, graph.droppedClasses());
            store.setRoot("it", Versions.call(now, "make", null));
            store.collect();
            assertEquals(3, graph.droppedClasses(), "J10c: Gone, Hue and Gone[]");
        }
        try (Store store = Store.open(graph.open(), undeclared)) {
            assertSame(
                    now.getClassLoader(),
                    store.root("it", Object.class).getClass().getClassLoader());
        }
    }
}
