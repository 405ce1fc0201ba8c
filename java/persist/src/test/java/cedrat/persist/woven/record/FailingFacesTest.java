package cedrat.persist.woven.record;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import cedrat.persist.GraphStore;
import cedrat.persist.MemoryGraph;
import cedrat.persist.Records;
import cedrat.persist.Store;
import cedrat.persist.StoreOptions;
import cedrat.persist.Transaction;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Proxy;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;

/// Pages and heaps of which a transaction gets no rid: their store throws when they are closed.
class FailingFacesTest {
    private static final class Box {
        List<String> content = new ArrayList<>(List.of("old"));
    }

    /// A graph in memory beside which there are records that cannot be closed.
    private static GraphStore failing(GraphStore graph) {
        GraphStore.Faces faces = proxy(GraphStore.Faces.class, (name, arguments) -> switch (name) {
            case "close" -> throw new IllegalStateException("it does not close");
            case "insert", "savepoint" -> 1L;
            default -> null;
        });
        return proxy(GraphStore.class, (name, arguments) -> switch (name) {
            case "begin" -> faces;
            case "records" -> 1L;
            default -> call(graph, name, arguments);
        });
    }

    private interface Answer {
        Object to(String method, Object[] arguments) throws Throwable;
    }

    private static <T> T proxy(Class<T> type, Answer answer) {
        ClassLoader loader = FailingFacesTest.class.getClassLoader();
        return type.cast(Proxy.newProxyInstance(
                loader, new Class<?>[] {type}, (proxy, method, arguments) -> answer.to(method.getName(), arguments)));
    }

    private static Object call(GraphStore graph, String name, Object[] arguments) throws Throwable {
        for (var method : GraphStore.class.getMethods()) {
            if (method.getName().equals(name)) {
                try {
                    return method.invoke(graph, arguments);
                } catch (InvocationTargetException e) {
                    throw e.getCause();
                }
            }
        }
        throw new AssertionError(name);
    }

    /// J16: memory is restored, and waiters for the locks go on, whatever becomes of them.
    @Test
    void objectsAreRestoredThoughPagesAreNot() throws InterruptedException {
        try (Store store = Store.open(failing(new MemoryGraph().open()), new StoreOptions())) {
            Box box = new Box();
            store.setRoot("box", box);
            Records records = store.records("records");
            assertThrows(
                    RuntimeException.class,
                    () -> Transaction.run(() -> {
                        box.content.add("new");
                        box.content = null;
                        records.insert(new byte[] {1});
                        throw new IllegalArgumentException("it is rolled back");
                    }));
            assertEquals(List.of("old"), box.content);
            Thread other = Thread.ofPlatform()
                    .start(() -> Transaction.run(() -> {
                        box.content.add("other");
                    }));
            other.join();
            assertEquals(List.of("old", "other"), box.content);
        }
    }
}
