package cedrat.persist.woven.memory;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;

import cedrat.persist.Transaction;
import java.util.AbstractList;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Collection;
import java.util.ConcurrentModificationException;
import java.util.HashMap;
import java.util.Hashtable;
import java.util.IdentityHashMap;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.LinkedList;
import java.util.List;
import java.util.ListIterator;
import java.util.Map;
import java.util.PriorityQueue;
import java.util.Set;
import java.util.Spliterator;
import java.util.TreeMap;
import java.util.Vector;
import java.util.WeakHashMap;
import java.util.function.Consumer;
import java.util.function.Function;
import java.util.function.Supplier;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/// J5.2: what was made within what is rolled back, and runs over a collection of before.
class RolledBackIteratorsTest {
    /// A list of the application's, with iterators of the JDK's.
    private static final class Own extends AbstractList<Integer> {
        private final List<Integer> numbers = new ArrayList<>();

        @Override
        public Integer get(int index) {
            return numbers.get(index);
        }

        @Override
        public int size() {
            return numbers.size();
        }

        @Override
        public void add(int index, Integer number) {
            numbers.add(index, number);
            modCount++;
        }
    }

    /// @param maker of a collection without elements
    /// @param adder of a number
    /// @param runner makes what runs over it, and has it make its first step
    /// @param next   the next step
    private record Kind<C, R>(
            String name,
            Supplier<C> maker,
            Function<C, Consumer<Integer>> adder,
            Function<C, R> runner,
            Consumer<R> next) {
        @Override
        public String toString() {
            return name;
        }
    }

    private static <C extends Collection<Integer>, R> Kind<C, R> of(
            String name, Supplier<C> maker, Function<C, R> runner, Consumer<R> next) {
        return new Kind<>(name, maker, collection -> collection::add, runner, next);
    }

    private static <C extends Collection<Integer>> Kind<C, ?> iterator(Supplier<C> maker) {
        return of(maker.get().getClass().getName(), maker, RolledBackIteratorsTest::begun, Iterator::next);
    }

    private static <C extends Collection<Integer>> Kind<C, ?> spliterator(Supplier<C> maker) {
        Consumer<Spliterator<Integer>> next = spliterator -> spliterator.tryAdvance(number -> {});
        return of(
                "a spliterator of " + maker.get().getClass().getName(),
                maker,
                collection -> {
                    Spliterator<Integer> spliterator = collection.spliterator();
                    next.accept(spliterator);
                    return spliterator;
                },
                next);
    }

    private static <M extends Map<Integer, Integer>, R> Kind<M, R> map(
            String name, Supplier<M> maker, Function<M, R> runner, Consumer<R> next) {
        return new Kind<>(name, maker, map -> number -> map.put(number, number), runner, next);
    }

    private static <M extends Map<Integer, Integer>> Kind<M, ?> keys(Supplier<M> maker) {
        return map(maker.get().getClass().getName(), maker, map -> begun(map.keySet()), Iterator::next);
    }

    private static <M extends Map<Integer, Integer>> Kind<M, ?> splitKeys(Supplier<M> maker) {
        Consumer<Spliterator<Integer>> next = spliterator -> spliterator.tryAdvance(number -> {});
        return map(
                "a spliterator of " + maker.get().getClass().getName(),
                maker,
                map -> {
                    Spliterator<Integer> spliterator = map.keySet().spliterator();
                    next.accept(spliterator);
                    return spliterator;
                },
                next);
    }

    private static Iterator<Integer> begun(Iterable<Integer> numbers) {
        Iterator<Integer> iterator = numbers.iterator();
        iterator.next();
        return iterator;
    }

    static Stream<Kind<?, ?>> kinds() {
        return Stream.of(
                iterator(ArrayList::new),
                iterator(LinkedList::new),
                iterator(Vector::new),
                iterator(PriorityQueue::new),
                iterator(Own::new),
                keys(HashMap::new),
                keys(LinkedHashMap::new),
                keys(TreeMap::new),
                keys(Hashtable::new),
                keys(IdentityHashMap::new),
                keys(WeakHashMap::new),
                spliterator(ArrayList::new),
                spliterator(LinkedList::new),
                spliterator(Vector::new),
                spliterator(PriorityQueue::new),
                spliterator(Own::new),
                splitKeys(HashMap::new),
                splitKeys(LinkedHashMap::new),
                splitKeys(TreeMap::new),
                splitKeys(IdentityHashMap::new),
                splitKeys(WeakHashMap::new),
                map(
                        "a part of a map",
                        TreeMap<Integer, Integer>::new,
                        map -> begun(map.headMap(100).keySet()),
                        Iterator::next),
                map(
                        "a part of a map, backwards",
                        TreeMap<Integer, Integer>::new,
                        map -> begun(map.descendingMap().tailMap(100).keySet()),
                        Iterator::next),
                of("a part of a list", ArrayList<Integer>::new, list -> list.subList(0, 2), part -> part.get(0)),
                of(
                        "a part of a linked list",
                        LinkedList<Integer>::new,
                        list -> list.subList(0, 2),
                        part -> part.get(0)),
                of(
                        "a part of a part",
                        ArrayList<Integer>::new,
                        list -> list.subList(0, 3).subList(0, 2),
                        part -> part.get(0)),
                of("an iterator of a part", ArrayList<Integer>::new, list -> begun(list.subList(0, 3)), Iterator::next),
                of("an iterator backwards", ArrayList<Integer>::new, list -> begun(list.reversed()), Iterator::next),
                of("a view of a list", Vector<Integer>::new, list -> list.subList(0, 2), part -> part.get(0)));
    }

    private static <C, R> C filled(Kind<C, R> kind) {
        C collection = kind.maker.get();
        for (int number = 1; number <= 4; number++) {
            kind.adder.apply(collection).accept(number);
        }
        return collection;
    }

    /// J5.2.
    @ParameterizedTest
    @MethodSource("kinds")
    <C, R> void whatHasSeenWhatWasTakenBackGoesNoFurther(Kind<C, R> kind) {
        C collection = filled(kind);
        R runner = Transaction.call(transaction -> {
            kind.adder.apply(collection).accept(5);
            R made = kind.runner.apply(collection);
            transaction.rollback();
            return made;
        });
        // Now it has been changed as often as when that was made.
        kind.adder.apply(collection).accept(6);
        assertThrows(ConcurrentModificationException.class, () -> kind.next.accept(runner));
    }

    /// J5.2.
    @ParameterizedTest
    @MethodSource("kinds")
    <C, R> void whatIsRolledBackMayBeNested(Kind<C, R> kind) {
        C collection = filled(kind);
        R runner = Transaction.call(outer -> {
            kind.adder.apply(collection).accept(5);
            R made = Transaction.call(inner -> {
                kind.adder.apply(collection).accept(6);
                R of = kind.runner.apply(collection);
                inner.rollback();
                return of;
            });
            kind.adder.apply(collection).accept(7);
            assertThrows(ConcurrentModificationException.class, () -> kind.next.accept(made));
            return made;
        });
        assertThrows(ConcurrentModificationException.class, () -> kind.next.accept(runner));
    }

    /// J5.2.
    /// After another end of the transaction, and on an unchanged Java collection, every iterator goes on.
    @ParameterizedTest
    @MethodSource("kinds")
    <C, R> void whatHasSeenWhatIsThereGoesOn(Kind<C, R> kind) {
        C collection = filled(kind);
        for (boolean rollsBack : new boolean[] {false, true}) {
            R runner = Transaction.call(transaction -> {
                if (!rollsBack) {
                    kind.adder.apply(collection).accept(5);
                }
                R made = kind.runner.apply(collection);
                if (rollsBack) {
                    kind.adder.apply(collection).accept(6);
                    transaction.rollback();
                }
                return made;
            });
            kind.next.accept(runner);
        }
    }

    /// J5.2: it would unlink a node that is not in the list.
    @Test
    void aListStaysWhole() {
        List<Integer> list = new LinkedList<>(List.of(1, 2));
        Iterator<Integer> last = Transaction.call(transaction -> {
            list.add(3);
            Iterator<Integer> made = list.iterator();
            while (made.hasNext()) {
                made.next();
            }
            transaction.rollback();
            return made;
        });
        list.add(4);
        assertThrows(ConcurrentModificationException.class, last::remove);
        assertEquals(List.of(1, 2, 4), list);
        assertEquals(3, list.size());
    }

    /// J5.2.
    /// `forEachRemaining` makes a step before it finds that the list has changed.
    @Test
    void invalidatedIteratorStops() {
        List<Consumer<List<String>>> changes =
                List.of(list -> list.add(2, "x"), list -> list.remove(2), list -> list.remove(1), List::clear);
        for (Consumer<List<String>> change : changes) {
            List<String> list = new LinkedList<>(List.of("a", "b", "d"));
            Iterator<String> misplaced = Transaction.call(transaction -> {
                Iterator<String> made = list.iterator();
                assertThrows(
                        ConcurrentModificationException.class,
                        () -> made.forEachRemaining(text -> {
                            if (text.equals("b")) {
                                change.accept(list);
                            }
                        }));
                transaction.rollback();
                return made;
            });
            assertThrows(ConcurrentModificationException.class, misplaced::next);
            assertThrows(ConcurrentModificationException.class, misplaced::remove);
            assertEquals(List.of("a", "b", "d"), list);
        }
    }

    /// J5.2: an iterator that is not behind the list's end goes on, in both directions.
    @Test
    void iteratorAtValidPositionGoesOn() {
        LinkedList<String> list = new LinkedList<>(List.of("a", "b", "d"));
        for (int steps = 0; steps <= 3; steps++) {
            for (boolean isBack : new boolean[] {false, true}) {
                int forward = steps;
                ListIterator<String> iterator = Transaction.call(transaction -> {
                    ListIterator<String> made = list.listIterator();
                    for (int i = 0; i < forward; i++) {
                        made.next();
                    }
                    if (isBack && made.hasPrevious()) {
                        made.previous();
                    }
                    list.add("x");
                    transaction.rollback();
                    return made;
                });
                List<String> rest = new ArrayList<>();
                int from = iterator.nextIndex();
                iterator.forEachRemaining(rest::add);
                assertEquals(list.subList(from, 3), rest);
            }
        }
    }

    /// J5.2: it counts no changes.
    @Test
    void iteratorOfRestoredDequeStops() {
        List<Function<ArrayDeque<String>, Iterator<String>>> runners =
                List.of(ArrayDeque::iterator, ArrayDeque::descendingIterator);
        for (Function<ArrayDeque<String>, Iterator<String>> runner : runners) {
            ArrayDeque<String> deque = new ArrayDeque<>(List.of("a", "b"));
            Iterator<String> iterator = Transaction.call(transaction -> {
                deque.addFirst("x");
                deque.addLast("y");
                Iterator<String> made = runner.apply(deque);
                made.next();
                transaction.rollback();
                return made;
            });
            assertThrows(IllegalStateException.class, iterator::remove);
            assertThrows(IndexOutOfBoundsException.class, iterator::next);
            assertThrows(IndexOutOfBoundsException.class, () -> iterator.forEachRemaining(text -> {}));
            assertEquals(List.of("a", "b"), List.copyOf(deque));
        }
    }

    /// J5.2: a deque that the transaction has not changed, or that was made in it.
    @Test
    void iteratorOfUnrestoredDequeGoesOn() {
        ArrayDeque<String> deque = new ArrayDeque<>(List.of("a", "b"));
        ArrayDeque<String> other = new ArrayDeque<>();
        List<Iterator<String>> iterators = Transaction.call(transaction -> {
            ArrayDeque<String> made = new ArrayDeque<>();
            made.add("a");
            made.add("b");
            other.add("x");
            List<Iterator<String>> all = List.of(deque.iterator(), made.iterator());
            all.forEach(Iterator::next);
            transaction.rollback();
            return all;
        });
        for (Iterator<String> iterator : iterators) {
            assertEquals("b", iterator.next());
            iterator.remove();
            assertFalse(iterator.hasNext());
        }
        assertEquals(List.of("a"), List.copyOf(deque));
    }

    /// J5.2: a part of a map counts its elements once as long as the map is not changed.
    @Test
    void partOfMapIsCountedAgain() {
        TreeMap<Integer, Integer> map = new TreeMap<>(Map.of(1, 1, 2, 2));
        Set<?> part = Transaction.call(transaction -> {
            map.put(3, 3);
            Set<?> made = map.headMap(10).entrySet();
            assertEquals(3, made.size());
            transaction.rollback();
            return made;
        });
        map.put(20, 20);
        assertEquals(2, part.size());
    }

    /// J5.2: a collection that was made there too is left as it was.
    @Test
    void iteratorOfNewCollectionGoesOn() {
        Iterator<Integer> numbers = Transaction.call(transaction -> {
            List<Integer> made = new ArrayList<>(List.of(1, 2));
            made.add(3);
            Iterator<Integer> iterator = begun(made);
            transaction.rollback();
            return iterator;
        });
        assertEquals(2, numbers.next());
        assertEquals(3, numbers.next());
        assertFalse(numbers.hasNext());
    }
}
