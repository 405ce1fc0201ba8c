package cedrat.persist.woven.store;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;

import cedrat.persist.MemoryGraph;
import cedrat.persist.Store;
import cedrat.persist.StoreException;
import cedrat.persist.StoreOptions;
import java.io.IOException;
import java.io.InputStream;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.FutureTask;
import java.util.function.Supplier;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/// J1.1: what a load waits for while it has the lock of loads, and what it does not.
@Timeout(value = 60, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
public class LoadLockTest {
    /// Work of the initialiser of [Item], or null.
    private static volatile Supplier<Object> initialising;

    /// Each class loader of its own initialises it once.
    public static class Item {
        static final Object FOUND = initialise();
        int number;
    }

    /// For [Item], which may be of another class loader.
    public static Object initialise() {
        Supplier<Object> work = initialising;
        return work == null ? null : work.get();
    }

    /// Has a class [Item] of its own.
    private static final class ItemLoader extends ClassLoader {
        ItemLoader() {
            super(LoadLockTest.class.getClassLoader());
        }

        @Override
        protected Class<?> loadClass(String name, boolean resolve) throws ClassNotFoundException {
            if (!name.equals(Item.class.getName())) {
                return super.loadClass(name, resolve);
            }
            synchronized (getClassLoadingLock(name)) {
                Class<?> known = findLoadedClass(name);
                return known != null ? known : define(name);
            }
        }

        private Class<?> define(String name) throws ClassNotFoundException {
            try (InputStream in = getParent().getResourceAsStream(name.replace('.', '/') + ".class")) {
                byte[] bytes = in.readAllBytes();
                return defineClass(name, bytes, 0, bytes.length);
            } catch (IOException e) {
                throw new ClassNotFoundException(name, e);
            }
        }
    }

    private final MemoryGraph graph = new MemoryGraph();
    private final ItemLoader loader = new ItemLoader();

    private void fill() {
        initialising = null;
        try (var store = Store.open(graph.open(), new StoreOptions())) {
            store.setRoot("items", new ArrayList<>(List.of(new Item())));
            store.setRoot("item", new Item());
            store.setRoot("names", new ArrayList<>(List.of("name")));
        }
    }

    /// J1.1.
    /// Another thread has read an object of the class, and waits for the end of the initialiser, which loads
    /// something.
    @Test
    void loadsDoNotWaitForEachOther() throws Exception {
        fill();
        try (var store = Store.open(graph.open(), new StoreOptions().classLoader(loader))) {
            CountDownLatch isInitialising = new CountDownLatch(1);
            long before = graph.reads();
            initialising = () -> {
                isInitialising.countDown();
                // The list, and its item.
                while (graph.reads() < before + 3) {
                    Thread.onSpinWait();
                }
                return store.root("names", Object.class);
            };
            FutureTask<Object> one = new FutureTask<>(() -> Class.forName(Item.class.getName(), true, loader));
            FutureTask<Object> other = new FutureTask<>(() -> {
                isInitialising.await();
                return store.root("items", Object.class);
            });
            Thread.ofPlatform().daemon().start(one);
            Thread.ofPlatform().daemon().start(other);
            one.get();
            assertEquals(1, ((List<?>) other.get()).size());
        }
    }

    /// J1.1: it is half initialised, for its own thread only.
    @Test
    void oneLoadsObjectsOfItsOwnClass() throws Exception {
        fill();
        try (var store = Store.open(graph.open(), new StoreOptions().classLoader(loader))) {
            initialising = () -> List.of(
                    store.root("item", Object.class),
                    store.<List<?>>root("items", List.class).get(0));
            Object item = store.root("item", Object.class);
            assertSame(loader, item.getClass().getClassLoader());
            var found = item.getClass().getDeclaredField("FOUND");
            found.setAccessible(true);
            assertSame(item, ((List<?>) found.get(null)).get(0));
        }
    }

    public static class Key {
        final List<String> more = new ArrayList<>(List.of("more"));

        @Override
        public synchronized int hashCode() {
            return 7;
        }

        @Override
        public boolean equals(Object other) {
            return other == this;
        }
    }

    public static class Root {
        final Key key = new Key();
        final Map<Key, String> map = new HashMap<>(Map.of(key, "value"));
    }

    /// J1.1: a load calls `hashCode`, which waits for a monitor of the thread that waits for the load.
    @Test
    void loadThatNeedsThreadsMonitorThrows() throws Exception {
        try (var store = Store.open(graph.open(), new StoreOptions())) {
            store.setRoot("root", new Root());
        }
        try (var store = Store.open(graph.open(), new StoreOptions())) {
            Root root = store.root("root", Root.class);
            Key key = root.key;
            FutureTask<Integer> loading = new FutureTask<>(() -> root.map.size());
            Thread thread = Thread.ofPlatform().daemon().unstarted(loading);
            synchronized (key) {
                thread.start();
                while (thread.getState() != Thread.State.BLOCKED) {
                    Thread.onSpinWait();
                }
                var thrown = assertThrows(StoreException.class, () -> key.more.size());
                assertEquals(true, thrown.getMessage().contains("monitor"), thrown.getMessage());
            }
            assertEquals(1, loading.get());
            assertEquals(List.of("more"), key.more);
        }
    }

    /// J1.1: as that, while a garbage collection waits for the end of the load.
    @Test
    void loadThrowsWhileCollectionWaits() throws Exception {
        try (var store = Store.open(graph.open(), new StoreOptions())) {
            store.setRoot("root", new Root());
        }
        try (var store = Store.open(graph.open(), new StoreOptions())) {
            Root root = store.root("root", Root.class);
            Key key = root.key;
            FutureTask<Integer> loading = new FutureTask<>(() -> root.map.size());
            Thread thread = Thread.ofPlatform().daemon().unstarted(loading);
            FutureTask<Long> collecting = new FutureTask<>(store::collect);
            Thread collector = Thread.ofPlatform().daemon().unstarted(collecting);
            synchronized (key) {
                thread.start();
                while (thread.getState() != Thread.State.BLOCKED) {
                    Thread.onSpinWait();
                }
                collector.start();
                while (!isParked(collector)) {
                    Thread.onSpinWait();
                }
                var thrown = assertThrows(StoreException.class, () -> key.more.size());
                assertEquals(true, thrown.getMessage().contains("monitor"), thrown.getMessage());
            }
            assertEquals(1, loading.get());
            assertEquals(0, collecting.get());
            assertEquals(List.of("more"), key.more);
        }
    }

    private static boolean isParked(Thread thread) {
        return switch (thread.getState()) {
            case WAITING, TIMED_WAITING -> true;
            default -> false;
        };
    }
}
