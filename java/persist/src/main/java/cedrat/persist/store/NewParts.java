package cedrat.persist.store;

import cedrat.persist.codec.ObjectIdentity;
import cedrat.persist.codec.PartIdentity;
import cedrat.persist.jdk.PartTypes;
import cedrat.persist.lock.Locks;
import cedrat.persist.memory.Slot;
import cedrat.persist.record.AddedParts;
import cedrat.persist.record.Recorder;
import cedrat.persist.record.TopLevel;
import java.util.Arrays;

/// Objects that a transaction makes parts of persistent collections, from when these lead to them: other transactions
/// learn from it which collection a part belongs to, and wait for the collection's lock.
///
/// - All new objects that a part leads to are parts as well: nodes are linked with each other before the
///   collection leads to the first of them.
///
/// **Threads:** one at a time.
final class NewParts implements AddedParts {
    private static final PartIdentity[] NONE = {};

    private PartIdentity[] parts = NONE;
    private int count;
    /// Parts that are removed if the transaction commits: entries, and arrays that were outgrown, with what led to
    /// these.
    private PartIdentity[] gone = NONE;

    private Object[] ledTo = NONE;
    private int goneCount;

    /// By class, the fields that lead to other parts.
    private static final ClassValue<Slot.Field[]> LINKS = new ClassValue<>() {
        @Override
        protected Slot.Field[] computeValue(Class<?> type) {
            return Arrays.stream(Recorder.get().fields().references(type))
                    .filter(field -> PartTypes.mayBe(field.reflected.getType().descriptorString()))
                    .toArray(Slot.Field[]::new);
        }
    };

    /// Returns the added parts of a transaction.
    static NewParts of(TopLevel top) {
        if (top.parts == null) {
            top.parts = new NewParts();
        }
        return (NewParts) top.parts;
    }

    @Override
    public int size() {
        return count;
    }

    /// A collection, or a part of one, is about to lead to something.
    ///
    /// @param first what the transaction has made
    void add(Engine engine, ObjectIdentity owner, Object base, Object first, TopLevel by) {
        int from = count;
        if (first.getClass().isArray() && !base.getClass().isArray()) {
            addOutgrown(engine, owner, base);
        }
        addIfNew(engine, owner, first, by);
        // The list of what was added is that of what is to be looked at.
        for (int next = from; next < count; next++) {
            Object part = parts[next].get();
            if (part instanceof Object[] table) {
                if (PartTypes.isNode(table.getClass().componentType().descriptorString())) {
                    for (Object node : table) {
                        addIfNew(engine, owner, node, by);
                    }
                }
            } else if (part != null) {
                for (Slot.Field link : LINKS.get(part.getClass())) {
                    addIfNew(engine, owner, link.read(part), by);
                }
            }
        }
    }

    private void addIfNew(Engine engine, ObjectIdentity owner, Object object, TopLevel by) {
        if (object == null || !by.made.has(0, object)) {
            return;
        }
        PartIdentity part = engine.addPart(owner, object, by.owner);
        if (part == null) {
            return;
        }
        if (count == parts.length) {
            parts = Arrays.copyOf(parts, Math.max(8, 2 * count));
        }
        parts[count++] = part;
    }

    private void addOutgrown(Engine engine, ObjectIdentity owner, Object base) {
        for (Slot.Field link : LINKS.get(base.getClass())) {
            Object now = link.read(base);
            if (now != null
                    && now.getClass().isArray()
                    && engine.entry(now) instanceof PartIdentity part
                    && part.owner() == owner) {
                leave(part, base);
            }
        }
    }

    /// Something will have gone from its collection when the transaction has committed.
    ///
    /// @param base what led to it, if it stays a part should that lead to it again; otherwise null
    void leave(PartIdentity part, Object base) {
        if (goneCount == gone.length) {
            gone = Arrays.copyOf(gone, Math.max(8, 2 * goneCount));
            ledTo = Arrays.copyOf(ledTo, gone.length, Object[].class);
        }
        gone[goneCount] = part;
        ledTo[goneCount++] = base;
    }

    @Override
    public boolean areAny() {
        return count + goneCount != 0;
    }

    @Override
    public void end(boolean isCommitted, Locks.Owner by, long when) {
        takeBack(0, by, when);
        while (goneCount > 0) {
            PartIdentity part = gone[--goneCount];
            Object base = ledTo[goneCount];
            // What a nested transaction has taken back leads to the older one again.
            if (isCommitted && (base == null || !leadsTo(base, part))) {
                part.leave(by, when);
            }
            gone[goneCount] = null;
            ledTo[goneCount] = null;
        }
    }

    private static boolean leadsTo(Object base, PartIdentity part) {
        for (Slot.Field link : LINKS.get(base.getClass())) {
            Object now = link.read(base);
            if (now != null && part.refersTo(now)) {
                return true;
            }
        }
        return false;
    }

    @Override
    public void takeBack(int mark, Locks.Owner by, long when) {
        while (count > mark) {
            parts[--count].takeBack(by, when);
            parts[count] = null;
        }
    }
}
