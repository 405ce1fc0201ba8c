package cedrat.persist.woven.store;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cedrat.persist.MemoryGraph;
import cedrat.persist.Store;
import cedrat.persist.StoreException;
import cedrat.persist.StoreOptions;
import cedrat.persist.Transaction;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.FutureTask;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Consumer;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/// J1f: functions that run when an object is loaded.
@Timeout(60)
class LoadHooksTest {
    private final MemoryGraph graph = new MemoryGraph();

    private interface Named {
        String name();
    }

    private static class Item implements Named {
        String name;
        int count;
        Item other;
        List<Item> more = new ArrayList<>();
        transient String shown;

        Item(String name) {
            this.name = name;
        }

        @Override
        public String name() {
            return name;
        }
    }

    private static final class Special extends Item {
        transient int calls;

        Special(String name) {
            super(name);
        }
    }

    private void store(Object object) {
        try (Store store = Store.open(graph.open(), new StoreOptions())) {
            store.setRoot("it", object);
        }
    }

    private Store open(Consumer<Item> hook) {
        return Store.open(graph.open(), new StoreOptions().afterLoad(Item.class, hook));
    }

    private static final Consumer<Item> SHOW =
            item -> item.shown = item.name + " → " + (item.other == null ? "none" : item.other.name);

    /// J1f.
    @Test
    void transientFieldIsComputedOnLoad() {
        Item item = new Item("first");
        item.other = new Item("second");
        item.other.other = item;
        item.more.add(new Item("element"));
        store(item);
        try (Store store = open(SHOW)) {
            Item found = store.root("it", Item.class);
            assertEquals("first → second", found.shown);
            assertEquals("second → first", found.other.shown);
            assertSame(found, found.other.other);
            assertEquals("element → none", found.more.get(0).shown);
        }
    }

    /// J1f: once for each load, also of a subclass, and of all functions that fit.
    @Test
    void eachFunctionIsCalledOnce() {
        store(Map.of("a", new Special("a"), "b", new Special("b")));
        List<String> names = Collections.synchronizedList(new ArrayList<>());
        StoreOptions options = new StoreOptions()
                .afterLoad(Special.class, special -> special.calls++)
                .afterLoad(Named.class, named -> names.add(named.name()));
        try (Store store = Store.open(graph.open(), options)) {
            Map<String, Special> found = store.root("it", Map.class);
            assertEquals(1, found.get("a").calls);
            assertEquals(1, store.<Map<String, Special>>root("it", Map.class).get("b").calls);
            Collections.sort(names);
            assertEquals(List.of("a", "b"), names);
            store.setRoot("other", new Special("new"));
            assertEquals(0, store.root("other", Special.class).calls);
        }
    }

    /// J1f: a read in a transaction may load, and what it computes stays.
    @Test
    void functionBelongsToNoTransaction() {
        Item item = new Item("first");
        item.other = new Item("second");
        store(item);
        List<RuntimeException> thrown = new ArrayList<>();
        try (Store store = open(loaded -> {
            SHOW.accept(loaded);
            thrown.add(assertThrows(IllegalStateException.class, () -> loaded.count++));
            thrown.add(assertThrows(IllegalStateException.class, () -> Transaction.run(() -> {})));
        })) {
            Transaction.run(transaction -> {
                Item found = store.root("it", Item.class);
                found.other.name = "changed";
                transaction.rollback();
            });
            Item found = store.root("it", Item.class);
            assertEquals("second → none", found.other.shown);
            assertEquals("second", found.other.name);
            assertEquals(4, thrown.size());
            assertTrue(
                    thrown.get(1).getMessage().contains("afterLoad"),
                    thrown.get(1).getMessage());
            Transaction.run(() -> {
                found.count++;
            });
            assertEquals(1, found.count);
        }
    }

    /// J1f.
    @Test
    void failedFunctionIsCalledAgain() {
        Item item = new Item("first");
        item.more.add(new Item("second"));
        store(item);
        int[] failures = {2};
        try (Store store = open(loaded -> {
            if (loaded.name.equals("second") && failures[0]-- > 0) {
                throw new IllegalArgumentException("no");
            }
            loaded.shown = loaded.name;
        })) {
            Item found = store.root("it", Item.class);
            for (int i = 0; i < 2; i++) {
                var thrown = assertThrows(StoreException.class, () -> found.more.size());
                assertTrue(thrown.getMessage().contains("afterLoad has thrown"), thrown.getMessage());
            }
            assertEquals("second", found.more.get(0).shown);
        }
    }

    private static FutureTask<String> start(FutureTask<String> task) {
        Thread.ofPlatform().daemon().start(task);
        return task;
    }

    /// J1g: a load has made its own calls, waits for one of another thread, and fails with it.
    @Test
    void failureOfOtherLoadBlocksNoReader() throws Exception {
        Item item = new Item("first");
        item.other = new Item("shared");
        item.more.add(new Item("second"));
        item.more.add(item.other);
        store(item);
        CountDownLatch isRunning = new CountDownLatch(1);
        CountDownLatch mayThrow = new CountDownLatch(1);
        AtomicInteger failures = new AtomicInteger(2);
        try (Store store = open(loaded -> {
            if (loaded.name.equals("shared")) {
                isRunning.countDown();
                await(mayThrow);
                if (failures.getAndDecrement() > 0) {
                    throw new IllegalArgumentException("no");
                }
            }
            loaded.shown = loaded.name;
        })) {
            Item found = store.root("it", Item.class);
            FutureTask<String> first = start(new FutureTask<>(() -> found.other.shown));
            isRunning.await();
            FutureTask<String> second = new FutureTask<>(() -> found.more.get(0).shown);
            waitForWait(Thread.ofPlatform().daemon().start(second));
            mayThrow.countDown();
            for (FutureTask<String> failed : List.of(first, second)) {
                assertInstanceOf(
                        StoreException.class,
                        assertThrows(ExecutionException.class, failed::get).getCause());
            }
            FutureTask<String> third = start(new FutureTask<>(() -> found.more.get(0).shown + found.more.get(1).shown));
            assertEquals("secondshared", third.get());
        }
    }

    private static void waitForWait(Thread waiting) {
        while (waiting.getState() != Thread.State.WAITING && waiting.isAlive()) {
            Thread.onSpinWait();
        }
    }

    /// J1g: no other thread sees the object, or a collection with it, before.
    @Test
    void otherThreadsWaitForTheFunction() throws Exception {
        Item item = new Item("first");
        item.more.add(new Item("second"));
        store(item);
        CountDownLatch isRunning = new CountDownLatch(1);
        CountDownLatch mayReturn = new CountDownLatch(1);
        try (Store store = open(loaded -> {
            if (loaded.name.equals("second")) {
                isRunning.countDown();
                await(mayReturn);
            }
            loaded.shown = loaded.name;
        })) {
            Item found = store.root("it", Item.class);
            FutureTask<String> first = start(new FutureTask<>(() -> found.more.get(0).shown));
            isRunning.await();
            FutureTask<String> second = new FutureTask<>(() -> found.more.get(0).shown);
            waitForWait(Thread.ofPlatform().daemon().start(second));
            assertFalse(second.isDone());
            mayReturn.countDown();
            assertEquals("second", first.get());
            assertEquals("second", second.get());
        }
    }

    private static void await(CountDownLatch latch) {
        try {
            latch.await();
        } catch (InterruptedException e) {
            throw new AssertionError(e);
        }
    }

    /// J1g: as class initialisers.
    @Test
    void functionsThatNeedEachOtherReturn() throws Exception {
        Item left = new Item("left");
        Item right = new Item("right");
        left.other = right;
        right.other = left;
        store(new Object[] {List.of("left", new Object[] {left}), new Object[] {right}});
        try (Store other = Store.open(graph.open(), new StoreOptions())) {
            other.setRoot("left", left(other));
            other.setRoot("right", left(other).other);
            other.removeRoot("it");
        }
        CyclicBarrier both = new CyclicBarrier(2);
        try (Store store = open(loaded -> {
            try {
                both.await();
            } catch (Exception e) {
                throw new AssertionError(e);
            }
            SHOW.accept(loaded);
        })) {
            FutureTask<String> one = start(new FutureTask<>(() -> store.root("left", Item.class).shown));
            FutureTask<String> two = start(new FutureTask<>(() -> store.root("right", Item.class).shown));
            assertEquals("left → right", one.get());
            assertEquals("right → left", two.get());
        }
    }

    private static Item left(Store store) {
        Object[] all = store.root("it", Object[].class);
        return (Item) ((Object[]) ((List<?>) all[0]).get(1))[0];
    }
}
