package cedrat.persist.store;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertSame;

import cedrat.persist.codec.IdentityEntry;
import cedrat.persist.codec.ObjectIdentity;
import java.lang.ref.WeakReference;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;

/// The table of what is in memory.
class IdentityTableTest {
    private static final int KEPT = 20_000;
    private static final int GONE = 5_000;
    private static final int ROUNDS = 20;

    private final IdentityTable table = new IdentityTable();
    private long last;

    private ObjectIdentity add(Object object) {
        ObjectIdentity identity = new ObjectIdentity(null, object, ++last, null);
        table.attach(identity, object);
        table.add(identity);
        return identity;
    }

    private void addAll(int count, List<Object> kept) {
        for (int i = 0; i < count; i++) {
            Object object = new Object();
            kept.add(object);
            add(object);
        }
    }

    /// J7.
    /// Few are added, so that it never grows.
    @Test
    void unreachableEntriesAreRemoved() {
        List<Object> kept = new ArrayList<>();
        addAll(KEPT, kept);
        System.gc();
        addAll(640, kept);
        WeakReference<ObjectIdentity> gone = new WeakReference<>(add(new Object()));
        addAll(GONE, new ArrayList<>());
        for (int round = 0; round < ROUNDS && gone.get() != null; round++) {
            System.gc();
            addAll(64, kept);
            System.gc();
        }
        assertNull(gone.get());
        assertEquals(kept.size(), table.identities().length);
        for (Object object : kept) {
            IdentityEntry known = table.find(object);
            assertNotNull(known);
            assertSame(object, table.find(known.owner().id));
        }
    }
}
