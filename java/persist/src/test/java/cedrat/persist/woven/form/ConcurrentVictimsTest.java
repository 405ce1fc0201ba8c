package cedrat.persist.woven.form;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cedrat.persist.DeadlockException;
import cedrat.persist.Elsewhere;
import cedrat.persist.Transaction;
import cedrat.persist.woven.store.StoreFixture;
import java.util.AbstractCollection;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedDeque;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.ConcurrentMap;
import java.util.concurrent.ConcurrentSkipListMap;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.CopyOnWriteArraySet;
import java.util.concurrent.FutureTask;
import java.util.concurrent.LinkedBlockingDeque;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.locks.LockSupport;
import java.util.function.Consumer;
import java.util.function.Supplier;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/// J5h: a transaction becomes the victim of a deadlock in a function that a persistent collection of
/// `java.util.concurrent` calls.
@Timeout(60)
class ConcurrentVictimsTest extends StoreFixture {
    private static final int ELEMENTS = 40;
    private static final int NEW = 5000;

    /// A method of a collection that calls a function.
    @FunctionalInterface
    private interface Work {
        void on(Object collection, Runnable function);
    }

    private record Call(String name, Object made, Work work) {
        @Override
        public String toString() {
            return name;
        }
    }

    @FunctionalInterface
    private interface Calling<T> {
        void on(T collection, Runnable function);
    }

    @SuppressWarnings("unchecked")
    private static <T> Call call(String name, T made, Calling<? super T> work) {
        return new Call(
                made.getClass().getSimpleName() + "." + name,
                made,
                (collection, function) -> work.on((T) collection, function));
    }

    private static <M extends Map<Integer, String>> M filled(M map) {
        IntStream.range(0, ELEMENTS).forEach(i -> map.put(i, "value " + i));
        return map;
    }

    private static <C extends Collection<Integer>> C filled(C collection) {
        IntStream.range(0, ELEMENTS).forEach(collection::add);
        return collection;
    }

    private static String show(Object object) {
        return object instanceof Map<?, ?> map ? new TreeMap<>(map).toString() : object.toString();
    }

    private static <T> T after(Runnable function, T result) {
        function.run();
        return result;
    }

    private static <M extends ConcurrentMap<Integer, String>> Stream<Call> callsOf(Supplier<M> maker) {
        return Stream.of(
                call(
                        "computeIfAbsent",
                        filled(maker.get()),
                        (map, function) -> map.computeIfAbsent(NEW, key -> after(function, "made"))),
                call(
                        "compute of a new key",
                        filled(maker.get()),
                        (map, function) -> map.compute(NEW, (key, value) -> after(function, "made"))),
                call(
                        "compute",
                        filled(maker.get()),
                        (map, function) -> map.compute(1, (key, value) -> after(function, value + "!"))),
                call(
                        "compute to null",
                        filled(maker.get()),
                        (map, function) -> map.compute(1, (key, value) -> after(function, null))),
                call(
                        "computeIfPresent",
                        filled(maker.get()),
                        (map, function) -> map.computeIfPresent(1, (key, value) -> after(function, value + "!"))),
                call(
                        "merge",
                        filled(maker.get()),
                        (map, function) -> map.merge(1, "!", (value, added) -> after(function, value + added))),
                call(
                        "replaceAll",
                        filled(maker.get()),
                        (map, function) -> map.replaceAll((key, value) -> after(function, value + "!"))),
                call("values.removeIf", filled(maker.get()), (map, function) -> map.values()
                        .removeIf(value -> after(function, true))));
    }

    private static Stream<Call> callsOf(BlockingQueue<Integer> queue) {
        return Stream.of(call("drainTo", queue, (drained, function) -> drained.drainTo(new Sink(function))));
    }

    private static Stream<Call> predicates(Collection<Integer> collection) {
        return Stream.of(
                call("removeIf", collection, (all, function) -> all.removeIf(number -> after(function, number > 3))));
    }

    static Stream<Call> calls() {
        return Stream.of(
                        callsOf(ConcurrentHashMap<Integer, String>::new),
                        callsOf(ConcurrentSkipListMap<Integer, String>::new),
                        callsOf(filled(new LinkedBlockingQueue<>())),
                        callsOf(filled(new LinkedBlockingDeque<>())),
                        callsOf(filled(new ArrayBlockingQueue<>(50))),
                        predicates(filled(new LinkedBlockingQueue<>())),
                        predicates(filled(new LinkedBlockingDeque<>())),
                        predicates(filled(new ArrayBlockingQueue<>(50))),
                        predicates(filled(new ConcurrentLinkedQueue<>())),
                        predicates(filled(new ConcurrentLinkedDeque<>())),
                        predicates(filled(new CopyOnWriteArrayList<>())),
                        predicates(filled(new CopyOnWriteArraySet<>())),
                        Stream.of(call(
                                "sort",
                                filled(new CopyOnWriteArrayList<>()),
                                (list, function) ->
                                        list.sort((one, other) -> after(function, Integer.compare(other, one))))))
                .flatMap(all -> all);
    }

    /// Takes two elements, and calls a function before the second.
    private static final class Sink extends AbstractCollection<Integer> {
        private final List<Integer> taken = new ArrayList<>();
        private final Runnable function;

        Sink(Runnable function) {
            this.function = function;
        }

        @Override
        public boolean add(Integer number) {
            if (!taken.isEmpty()) {
                function.run();
            }
            return taken.add(number);
        }

        @Override
        public Iterator<Integer> iterator() {
            return taken.iterator();
        }

        @Override
        public int size() {
            return taken.size();
        }
    }

    /// Returns when the thread waits for a lock of a transaction.
    private static void awaitWait(Thread thread, FutureTask<?> task) {
        while (!waitsForLock(thread) && !task.isDone()) {
            Thread.onSpinWait();
        }
        assertFalse(task.isDone(), "it should wait");
    }

    private static boolean waitsForLock(Thread thread) {
        return String.valueOf(LockSupport.getBlocker(thread)).startsWith("cedrat.persist.lock.Locks");
    }

    /// Changes a collection in a transaction that becomes the victim in a function of the collection.
    private void loseIn(Thread.Builder builder, Call call, Object collection, Runnable atLoss) throws Exception {
        Node node = store.root("node", Node.class);
        FutureTask<Void> victim = new FutureTask<>(
                () -> {
                    try (var younger = Transaction.begin()) {
                        callAndLose(call, collection, node, atLoss);
                        assertThrows(DeadlockException.class, younger::commit);
                    }
                },
                null);
        Thread thread = builder.unstarted(victim);
        try (var older = Transaction.begin()) {
            node.value = 7;
            Elsewhere.start(thread);
            awaitWait(thread, victim);
            clear(collection);
            older.commit();
        }
        victim.get();
    }

    /// Methods that call others of the collection end with the exception, whatever the function does.
    private static void callAndLose(Call call, Object collection, Node node, Runnable atLoss) {
        try {
            call.work.on(collection, () -> {
                try {
                    node.value++;
                } catch (DeadlockException e) {
                    atLoss.run();
                }
            });
        } catch (DeadlockException e) {
            // The commit throws it again.
            assertEquals(DeadlockException.class, e.getClass());
        }
    }

    private static void clear(Object collection) {
        if (collection instanceof Map<?, ?> map) {
            map.clear();
        } else {
            ((Collection<?>) collection).clear();
        }
    }

    @SuppressWarnings("unchecked")
    private static void fill(Object collection) {
        if (collection instanceof Map<?, ?> map) {
            filled((Map<Integer, String>) map);
        } else {
            filled((Collection<Integer>) collection);
        }
    }

    private void lose(Thread.Builder builder, Call call, Runnable atLoss) throws Exception {
        String before = show(call.made);
        store.setRoot("node", new Node(0, null));
        Object found = again(call.made);
        loseIn(builder, call, found, atLoss);
        clear(call.made);
        assertEquals(show(call.made), show(found));
        Transaction.run(() -> fill(found));
        assertEquals(before, show(found));
        if (found instanceof Map<?, ?> map) {
            assertEquals(ELEMENTS, map.size());
        } else {
            assertEquals(ELEMENTS, ((Collection<?>) found).size());
        }
        assertEquals(before, show(reopened()));
        assertEquals(7, store.root("node", Node.class).value);
    }

    /// J5h: the method of the collection goes on after the loss.
    @ParameterizedTest
    @MethodSource("calls")
    void victimThatReturnsLeavesCollectionWhole(Call call) throws Exception {
        lose(Thread.ofPlatform().daemon(), call, () -> {});
    }

    /// J5h: the method ends with an exception, whose handlers change the collection.
    @ParameterizedTest
    @MethodSource("calls")
    void victimThatThrowsLeavesCollectionWhole(Call call) throws Exception {
        lose(Thread.ofPlatform().daemon(), call, () -> {
            throw new DeadlockException();
        });
    }

    /// J5h.
    @ParameterizedTest
    @MethodSource("calls")
    void virtualVictimLeavesCollectionWhole(Call call) throws Exception {
        lose(Thread.ofVirtual(), call, () -> {});
    }

    /// J5h: the inner method returns before the outer one, which is another collection's.
    @Test
    void nestedCallsRestoreAfterOutermost() throws Exception {
        ConcurrentHashMap<Integer, String> inner = filled(new ConcurrentHashMap<>());
        store.setRoot("inner", inner);
        lose(
                Thread.ofPlatform().daemon(),
                call("nested", filled(new LinkedBlockingQueue<>()), (queue, function) -> {
                    ConcurrentHashMap<Integer, String> found = cast(store.root("inner", Object.class));
                    queue.removeIf(number -> {
                        found.compute(1, (key, value) -> after(function, "changed"));
                        return true;
                    });
                }),
                () -> {});
        assertEquals(show(inner), show(store.root("inner", Object.class)));
    }

    @SuppressWarnings("unchecked")
    private static <T> T cast(Object object) {
        return (T) object;
    }

    /// J5h: each transaction adds as much to one map as it takes from the other, in either order.
    @Test
    void sumSurvivesManyDeadlocks() throws Exception {
        store.setRoot("one", new ConcurrentHashMap<Integer, Integer>());
        store.setRoot("other", new ConcurrentHashMap<Integer, Integer>());
        Map<Integer, Integer> one = store.root("one", Map.class);
        Map<Integer, Integer> other = store.root("other", Map.class);
        List<FutureTask<Void>> tasks = new ArrayList<>();
        for (int i = 0; i < 4; i++) {
            Map<Integer, Integer> first = i % 2 == 0 ? one : other;
            Map<Integer, Integer> second = i % 2 == 0 ? other : one;
            tasks.add(new FutureTask<>(
                    () -> {
                        for (int round = 0; round < 200; round++) {
                            int key = round % 50;
                            Transaction.run(() -> first.compute(key, (same, value) -> {
                                second.merge(key, -1, Integer::sum);
                                return value == null ? 1 : value + 1;
                            }));
                        }
                    },
                    null));
        }
        tasks.forEach(task -> Thread.ofPlatform().daemon().start(task));
        for (FutureTask<Void> task : tasks) {
            task.get();
        }
        assertEquals(0, sum(one) + sum(other));
        assertEquals(50, one.size());
    }

    /// J5h.
    @Test
    void transactionCannotEndInFunction() {
        ConcurrentHashMap<Integer, String> map = again(filled(new ConcurrentHashMap<>()));
        for (Consumer<Transaction> end : List.<Consumer<Transaction>>of(
                Transaction::commit, Transaction::rollback, Transaction::commitAsync, Transaction::detach)) {
            Transaction.run(transaction -> {
                map.compute(1, (key, value) -> {
                    var thrown = assertThrows(IllegalStateException.class, () -> end.accept(transaction));
                    assertTrue(thrown.getMessage().contains("in a function"), thrown.getMessage());
                    return "changed";
                });
                transaction.rollback();
            });
            assertEquals("value 1", map.get(1));
        }
    }

    /// J5h.
    @Test
    void nestedTransactionCannotChangeCallingCollection() {
        ConcurrentSkipListMap<Integer, String> map = again(filled(new ConcurrentSkipListMap<>()));
        Transaction.run(() -> map.compute(1, (key, value) -> {
            var thrown = assertThrows(IllegalStateException.class, () -> Transaction.run(() -> map.remove(2)));
            assertTrue(thrown.getMessage().contains("nested"), thrown.getMessage());
            return "changed";
        }));
        assertEquals("changed", map.get(1));
        assertEquals("value 2", map.get(2));
    }

    /// J5h: a method of another collection is none of the nested transaction's.
    @Test
    void nestedTransactionChangesOtherCollectionInFunction() {
        List<Map<Integer, String>> maps = again(
                new ArrayList<>(List.of(filled(new ConcurrentSkipListMap<>()), filled(new ConcurrentHashMap<>()))));
        Transaction.run(() -> maps.get(0).compute(1, (key, value) -> {
            Transaction.run(inner -> {
                maps.get(1).merge(1, "!", String::concat);
                inner.rollback();
            });
            Transaction.run(() -> maps.get(1).remove(2));
            return "changed";
        }));
        assertEquals("changed", maps.get(0).get(1));
        assertEquals("value 1", maps.get(1).get(1));
        assertEquals(ELEMENTS - 1, maps.get(1).size());
    }

    private static int sum(Map<Integer, Integer> map) {
        return map.values().stream().mapToInt(Integer::intValue).sum();
    }
}
