package cedrat.persist.woven.store;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;

import cedrat.persist.GraphStore;
import cedrat.persist.GraphStoreException;
import cedrat.persist.Store;
import cedrat.persist.StoreException;
import cedrat.persist.StoreOptions;
import cedrat.persist.Transaction;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Proxy;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.FutureTask;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/// Classes that a commit defines in the store: they are defined if the store commits it.
class DefinitionsTest extends StoreFixture {
    private enum Colour {
        RED,
        GREEN
    }

    private abstract static class Figure {
        int corners = 3;
    }

    private static final class Painted extends Figure {
        private final Colour colour = Colour.GREEN;
        private final List<Node> nodes = List.of(new Node(1, null));
    }

    private static final class Other {
        private final Colour colour = Colour.RED;
    }

    private void assertStored() {
        reopen();
        Painted painted = (Painted) store.root("first", Object[].class)[0];
        assertEquals(Colour.GREEN, painted.colour);
        assertEquals(3, painted.corners);
        assertEquals(1, painted.nodes.getFirst().value);
        assertEquals(Colour.RED, ((Other) store.root("second", Object[].class)[0]).colour);
    }

    private void set(String name, Object value) {
        Object[] held = store.root(name, Object[].class);
        Transaction.run(() -> {
            held[0] = value;
        });
    }

    @BeforeEach
    void mark() {
        store.setRoot("first", new Object[1]);
        store.setRoot("second", new Object[1]);
    }

    /// J9g: the next commit has the same numbers for other classes.
    @Test
    void commitRefusedByStoreDefinesNoClass() {
        int before = graph.classes();
        graph.refuseCommits(true);
        assertThrows(StoreException.class, () -> set("first", new Painted()));
        assertEquals(before, graph.classes(), "J9g: classes of a refused commit are defined");
        graph.refuseCommits(false);
        assertNull(store.root("first", Object[].class)[0]);
        set("second", new Other());
        set("first", new Painted());
        assertStored();
    }

    /// J9h: both need the enum, and the store refuses the first.
    @Test
    void commitsDefineClassesOneAfterAnother() throws Exception {
        CountDownLatch entered = new CountDownLatch(1);
        CountDownLatch held = new CountDownLatch(1);
        store.close();
        GraphStore below = graph.open();
        store = Store.open(
                (GraphStore) Proxy.newProxyInstance(
                        GraphStore.class.getClassLoader(),
                        new Class<?>[] {GraphStore.class},
                        (proxy, method, given) -> {
                            if (method.getName().equals("commit") && entered.getCount() != 0) {
                                entered.countDown();
                                held.await();
                                throw new GraphStoreException("the disk is full", null, false);
                            }
                            try {
                                return method.invoke(below, given);
                            } catch (InvocationTargetException e) {
                                throw e.getCause();
                            }
                        }),
                new StoreOptions());
        FutureTask<Void> first = new FutureTask<>(() -> set("first", new Painted()), null);
        Thread.ofPlatform().daemon().start(first);
        entered.await();
        FutureTask<Void> second = new FutureTask<>(() -> set("second", new Other()), null);
        Thread waiting = Thread.ofPlatform().daemon().start(second);
        while (waiting.isAlive() && waiting.getState() != Thread.State.WAITING) {
            Thread.onSpinWait();
        }
        held.countDown();
        assertThrows(ExecutionException.class, first::get);
        second.get();
        set("first", new Painted());
        assertStored();
    }
}
