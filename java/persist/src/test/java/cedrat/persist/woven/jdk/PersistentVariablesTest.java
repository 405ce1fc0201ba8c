package cedrat.persist.woven.jdk;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import cedrat.persist.MemoryGraph;
import cedrat.persist.Store;
import cedrat.persist.StoreOptions;
import cedrat.persist.Transaction;
import java.util.Hashtable;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicIntegerArray;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicLongArray;
import java.util.concurrent.atomic.AtomicReference;
import java.util.concurrent.atomic.AtomicReferenceArray;
import java.util.concurrent.atomic.DoubleAdder;
import java.util.concurrent.atomic.LongAdder;
import java.util.function.Consumer;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/// Atomic variables and properties: refused to transactions, unless they are persistent.
class PersistentVariablesTest {
    /// Something, and how it is changed.
    private record Variable(Object made, Consumer<Object> change) {
        String show(Object found) {
            return found instanceof Properties properties
                    ? new TreeMap<>(properties) + ", by default " + properties.getProperty("other")
                    : found.toString();
        }

        @Override
        public String toString() {
            return made.getClass().getSimpleName();
        }
    }

    static Stream<Variable> variables() {
        Properties defaults = new Properties();
        defaults.setProperty("other", "default");
        Properties properties = new Properties(defaults);
        properties.setProperty("one", "1");
        properties.setProperty("two", "2");
        return Stream.of(
                new Variable(new AtomicBoolean(), is -> ((AtomicBoolean) is).set(!((AtomicBoolean) is).get())),
                new Variable(new AtomicInteger(), number -> ((AtomicInteger) number).incrementAndGet()),
                new Variable(new AtomicLong(7), number -> ((AtomicLong) number).updateAndGet(old -> 3 * old)),
                new Variable(new AtomicReference<Object>("a"), text -> ((AtomicReference<?>) text)
                        .updateAndGet(old -> null)),
                new Variable(new AtomicIntegerArray(3), array -> ((AtomicIntegerArray) array).addAndGet(1, 5)),
                new Variable(
                        new AtomicLongArray(3), array -> ((AtomicLongArray) array).accumulateAndGet(2, 5, Long::sum)),
                new Variable(
                        new AtomicReferenceArray<Object>(new Object[] {"a", "b"}),
                        array -> ((AtomicReferenceArray<?>) array).set(1, null)),
                new Variable(new LongAdder(), adder -> ((LongAdder) adder).add(5)),
                new Variable(new DoubleAdder(), adder -> ((DoubleAdder) adder).add(0.5)),
                new Variable(properties, any -> {
                    ((Properties) any).setProperty("three", "3");
                    ((Properties) any).remove("two");
                    ((Properties) any).setProperty("one", "other");
                }));
    }

    /// J5, J9: what changes it is restored, and stored.
    @ParameterizedTest
    @MethodSource("variables")
    void persistentVariablesChangeInTransactions(Variable variable) {
        MemoryGraph graph = new MemoryGraph();
        try (Store store = Store.open(graph.open(), new StoreOptions())) {
            store.setRoot("variable", variable.made);
        }
        String before = variable.show(variable.made);
        String after;
        try (Store store = Store.open(graph.open(), new StoreOptions())) {
            Object found = store.root("variable", Object.class);
            Transaction.run(transaction -> {
                variable.change.accept(found);
                transaction.rollback();
            });
            assertEquals(before, variable.show(found));
            Transaction.run(() -> variable.change.accept(found));
            after = variable.show(found);
            assertNotEquals(before, after);
            assertThrows(IllegalStateException.class, () -> variable.change.accept(found));
        }
        try (Store store = Store.open(graph.open(), new StoreOptions())) {
            assertEquals(after, variable.show(store.root("variable", Object.class)));
        }
    }

    /// J2: the JDK marks the table meanwhile.
    @Test
    void tableHashIsReadOutsideOfTransactions() {
        Hashtable<String, Integer> table = new Hashtable<>(Map.of("a", 1, "b", 2));
        try (Store store = Store.open(new MemoryGraph().open(), new StoreOptions())) {
            store.setRoot("table", table);
            assertEquals(Map.of("a", 1, "b", 2).hashCode(), table.hashCode());
            assertThrows(IllegalStateException.class, () -> table.put("c", 3));
        }
    }

    /// J5.
    @Test
    void ordinaryVariablesAreRefused() {
        AtomicInteger number = new AtomicInteger();
        try (Store store = Store.open(new MemoryGraph().open(), new StoreOptions())) {
            store.setRoot("other", new AtomicInteger());
            assertThrows(
                    UnsupportedOperationException.class,
                    () -> Transaction.run(() -> {
                        number.incrementAndGet();
                    }));
        }
        number.incrementAndGet();
    }
}
