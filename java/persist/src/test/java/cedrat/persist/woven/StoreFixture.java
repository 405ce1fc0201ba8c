package cedrat.persist.woven;

import cedrat.persist.MemoryGraph;
import cedrat.persist.Persistence;
import cedrat.persist.PersistenceOptions;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;

/// A store in memory, open while a test runs.
abstract class StoreFixture {
    static final class Node {
        int value;
        Node next;

        Node(int value, Node next) {
            this.value = value;
            this.next = next;
        }
    }

    final MemoryGraph graph = new MemoryGraph();
    Persistence store;

    @BeforeEach
    final void open() {
        store = Persistence.open(graph.open(), new PersistenceOptions());
    }

    @AfterEach
    final void close() {
        store.close();
    }

    /// Forgets all that is loaded.
    final void reopen() {
        store.close();
        open();
    }
}
