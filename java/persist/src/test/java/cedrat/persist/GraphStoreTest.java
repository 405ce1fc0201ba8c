package cedrat.persist;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.function.Executable;

/// Defaults of a store that implements only the required methods.
class GraphStoreTest {
    /// The bytes of an object are its identity.
    private static final class Least implements GraphStore {
        @Override
        public List<byte[]> classes(int first) {
            return List.of();
        }

        @Override
        public Map<String, Long> roots() {
            return Map.of();
        }

        @Override
        public byte[] read(long identity) {
            return new byte[] {(byte) identity};
        }

        @Override
        public Committed commit(byte[] buffer, int length) {
            return new Committed(new long[0], 1);
        }

        @Override
        public void waitDurable(long lsn) {}

        @Override
        public void close() {}
    }

    @Test
    void severalObjectsAreReadInTheirOrder() throws GraphStoreException {
        assertArrayEquals(new byte[][] {{3}, {1}, {2}}, new Least().readMany(new long[] {3, 1, 2}));
    }

    @Test
    void unsupportedOperationsAreRefused() throws GraphStoreException {
        GraphStore store = new Least();
        assertEquals(List.of(), store.inDoubt());
        byte[] branch = {1};
        Map<String, List<Executable>> refused = Map.of(
                "takes no part in transactions over several stores",
                List.of(
                        () -> store.prepare(new byte[8], 8, branch),
                        () -> store.commitPrepared(branch),
                        () -> store.rollbackPrepared(branch),
                        () -> store.changedBy(branch)),
                "removes no objects",
                List.of(() -> store.collect(new long[0])),
                "no records and heaps",
                List.of(store::begin, () -> store.records("records"), () -> store.heap("heap", 8)));
        refused.forEach((reason, calls) -> calls.forEach(call -> {
            GraphStoreException failure = assertThrows(GraphStoreException.class, call);
            assertTrue(failure.getMessage().contains(reason), failure.getMessage());
            assertFalse(failure.isStopped());
        }));
    }
}
