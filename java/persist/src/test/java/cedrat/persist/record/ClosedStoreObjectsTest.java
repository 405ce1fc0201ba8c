package cedrat.persist.record;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;

/// J7.2: what is known of the objects that closed stores have left.
class ClosedStoreObjectsTest {
    private static final int COUNT = 10_000;
    private static final int ROUNDS = 20;

    private final ClosedStoreObjects left = new ClosedStoreObjects();

    /// J7.2.
    @Test
    void onlyAddedObjectsAreFound() {
        assertFalse(left.has(new Object()));
        List<Object> added = new ArrayList<>();
        for (int i = 0; i < COUNT; i++) {
            added.add(new int[0]);
            left.add(added.getLast(), null);
        }
        for (Object object : added) {
            assertTrue(left.has(object));
            assertFalse(left.has(new int[0]));
        }
    }

    /// J7.
    @Test
    void unreachableEntriesAreRemoved() {
        Object kept = new Object();
        left.add(kept, null);
        for (int i = 0; i < COUNT; i++) {
            left.add(new Object(), null);
        }
        for (int round = 0; round < ROUNDS && left.size() != 1; round++) {
            System.gc();
            left.lookThrough();
        }
        assertEquals(1, left.size());
        assertTrue(left.has(kept));
    }
}
