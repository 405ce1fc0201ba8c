package cedrat.persist.store;

import cedrat.persist.boot.Persistable;
import cedrat.persist.codec.Layout;
import cedrat.persist.codec.MapPart;
import cedrat.persist.codec.ObjectIdentity;
import cedrat.persist.event.UnloadEvent;
import java.util.Arrays;

/// The loaded objects of a store, oldest first, and their unloading.
///
/// Above the limit, the oldest objects are unloaded: their reference fields become pending again, so that the
/// virtual machine collects objects that only they referred to. An object itself is collected when it is
/// unreachable; until then its identity leads to it, and `==` holds.
///
/// An object that a transaction has locked stays as it is, and so does one whose fields were ever read where no
/// barrier sees it: by reflection, or by the `hashCode` of a record. That one does not count any more.
///
/// **Threads:** any.
final class Loaded {
    /// Approximate cost of an object beside its bytes.
    private static final int OVERHEAD = 96;
    /// Number of unloaded objects that make an event.
    private static final int UNLOADED_EVENT = 1024;
    /// Maximum number of the oldest objects that are looked at for each added one: they may all be locked.
    private static final int LOOKS_MAX = 16;

    private final Engine engine;
    private final long bytesMax;
    /// A ring.
    private ObjectIdentity[] identities = new ObjectIdentity[64];

    private int first;
    private int count;
    private long bytes;
    /// Number of unloaded objects since the last event.
    private int unloaded;

    Loaded(Engine engine, long bytesMax) {
        this.engine = engine;
        this.bytesMax = bytesMax;
    }

    /// An object was loaded, or made persistent, or one of its fields is not pending any more.
    void add(ObjectIdentity identity) {
        int more;
        synchronized (this) {
            if (!identity.isCounted) {
                push(identity);
            }
            more = bytes > bytesMax ? Math.min(count, LOOKS_MAX) : 0;
        }
        for (int i = 0; i < more; i++) {
            ObjectIdentity oldest = takeOldest();
            if (oldest == null) {
                return;
            }
            if (!letGo(oldest)) {
                synchronized (this) {
                    if (!oldest.isCounted) {
                        push(oldest);
                    }
                }
            }
        }
    }

    private void push(ObjectIdentity identity) {
        if (count == identities.length) {
            ObjectIdentity[] grown = Arrays.copyOfRange(identities, first, first + 2 * count);
            System.arraycopy(identities, 0, grown, count - first, first);
            identities = grown;
            first = 0;
        }
        identity.isCounted = true;
        identities[first + count++ & identities.length - 1] = identity;
        bytes += identity.bytes + OVERHEAD;
    }

    /// Null if little enough is loaded.
    private synchronized ObjectIdentity takeOldest() {
        if (bytes <= bytesMax || count == 0) {
            return null;
        }
        ObjectIdentity oldest = identities[first];
        identities[first] = null;
        first = first + 1 & identities.length - 1;
        count--;
        bytes -= oldest.bytes + OVERHEAD;
        oldest.isCounted = false;
        return oldest;
    }

    /// Makes the reference fields of an object pending, unless it is one that stays.
    ///
    /// @return false if it is locked, and may be asked again
    private boolean letGo(ObjectIdentity identity) {
        Object object = identity.get();
        if (object instanceof MapPart part) {
            return letGo(part);
        }
        if (!(object instanceof Persistable)) {
            return true;
        }
        Layout stored = (Layout) identity.shape;
        Layout layout = stored.current();
        boolean isUnloaded = false;
        synchronized (identity) {
            if (identity.isKept) {
                return true;
            }
            if (engine.recorder.transactions.isLocked(object)) {
                return false;
            }
            for (int i = 0; i < layout.referenceCount(); i++) {
                Object value = layout.get(object, i);
                // A converted value would be converted again.
                long word = value == null || stored.isConverted(i) ? 0 : engine.known(value);
                if (word != 0) {
                    if (identity.pending == null) {
                        identity.pending = new long[layout.referenceCount()];
                    }
                    // A reader of the field sees its value, or null and, under the monitor, the word.
                    identity.pending[i] = word;
                    layout.put(object, i, null);
                    isUnloaded = true;
                }
            }
        }
        if (isUnloaded) {
            countUnloaded();
        }
        return true;
    }

    private boolean letGo(MapPart part) {
        Boolean isUnloaded = engine.parts.unload(part);
        if (Boolean.TRUE.equals(isUnloaded)) {
            countUnloaded();
        }
        return isUnloaded != null;
    }

    private void countUnloaded() {
        engine.counters.unloaded();
        long loadedBytes;
        synchronized (this) {
            unloaded++;
            if (unloaded < UNLOADED_EVENT) {
                return;
            }
            unloaded = 0;
            loadedBytes = bytes;
        }
        new UnloadEvent().record(engine.name, UNLOADED_EVENT, loadedBytes);
    }

    /// Returns the estimated size of the loaded objects.
    synchronized long bytes() {
        return bytes;
    }
}
