package cedrat.persist.woven.store;

import cedrat.persist.MemoryGraph;
import cedrat.persist.Store;
import cedrat.persist.StoreOptions;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;

/// A store in memory, open while a test runs.
public abstract class StoreFixture {
    protected static final class Node {
        public int value;
        public Node next;

        public Node(int value, Node next) {
            this.value = value;
            this.next = next;
        }
    }

    protected final MemoryGraph graph = new MemoryGraph();
    protected Store store;

    @BeforeEach
    protected final void open() {
        store = Store.open(graph.open(), options());
    }

    /// Returns the options with which the store is opened.
    protected StoreOptions options() {
        return new StoreOptions();
    }

    @AfterEach
    protected final void close() {
        store.close();
    }

    /// Forgets all that is loaded.
    protected final void reopen() {
        store.close();
        open();
    }

    /// Stores an object as the root `it`, and returns it as another opening loads it.
    protected final <T> T again(T object) {
        store.setRoot("it", object);
        return reopened();
    }

    /// Returns the root `it` as another opening loads it.
    protected final <T> T reopened() {
        reopen();
        return store.root("it", Object.class);
    }
}
