package cedrat.persist.store;

import cedrat.persist.boot.Persistable;
import cedrat.persist.codec.ArrayShape;
import cedrat.persist.codec.Change;
import cedrat.persist.codec.IdentityEntry;
import cedrat.persist.codec.Layout;
import cedrat.persist.codec.ObjectIdentity;
import cedrat.persist.memory.Slot;
import cedrat.persist.record.Changes;
import cedrat.persist.record.TransactionLevel;
import cedrat.persist.record.UndoLog;
import java.util.Arrays;

/// The persistent objects of one store that a transaction has changed, by its undo log, and the names.
///
/// **Threads:** that of the transaction.
final class ChangeSet {
    private static final int CAPACITY = 4;
    private static final Root[] NO_ROOTS = {};

    // Arrays, and no collections: those of `java.util` have barriers, which are many for what is done at each commit.
    private final Engine engine;
    private final Changes commit;
    private Change[] changes = new Change[CAPACITY];
    private int count;
    private Root[] roots = NO_ROOTS;

    /// Finds what was changed.
    ///
    /// @param commit marks the identities of changed objects
    ChangeSet(Engine engine, TransactionLevel transaction, Changes commit) {
        this.engine = engine;
        this.commit = commit;
        UndoLog log = transaction.top.log;
        Object last = null;
        Change change = null;
        for (int entry = 0; entry < log.size(); entry++) {
            Object base = log.base(entry);
            if (base != last) {
                change = change(base);
                last = base;
            }
            if (change != null) {
                add(change, log, entry);
            }
        }
    }

    boolean isEmpty() {
        return count == 0 && roots.length == 0;
    }

    /// Returns the number of changed objects.
    int size() {
        return count;
    }

    /// Returns the changes of an object, by its number.
    Change get(int number) {
        return changes[number];
    }

    /// Returns the changed names. The array is not to be modified.
    Root[] roots() {
        return roots;
    }

    private Change change(Object base) {
        if (base instanceof Persistable object) {
            boolean isOurs = object.cedrat$identity() instanceof ObjectIdentity identity
                    && identity.store == engine
                    && identity.id != 0;
            return isOurs ? change((ObjectIdentity) object.cedrat$identity(), base) : null;
        }
        if (base instanceof Root changed) {
            if (changed.engine == engine) {
                add(changed);
            }
            return null;
        }
        IdentityEntry known = base instanceof Class ? null : engine.entry(base);
        return known == null ? null : change(known.owner(), Engine.whole(known, base));
    }

    private Change change(ObjectIdentity identity, Object object) {
        if (identity.commit == commit) {
            return changes[identity.mark];
        }
        if (count == changes.length) {
            changes = Arrays.copyOf(changes, 2 * count);
        }
        Change change = new Change(identity, object);
        identity.commit = commit;
        identity.mark = count;
        changes[count++] = change;
        return change;
    }

    private void add(Root changed) {
        for (Root known : roots) {
            if (known == changed) {
                return;
            }
        }
        roots = Arrays.copyOf(roots, roots.length + 1);
        roots[roots.length - 1] = changed;
    }

    private static void add(Change change, UndoLog log, int entry) {
        Slot slot = log.slot(entry);
        int index = log.index(entry);
        switch (change.identity.shape) {
            case Layout layout -> addField(change, layout, slot);
            case ArrayShape array -> {
                if (slot == Slot.ELEMENT) {
                    change.add(index, index + 1);
                } else if (slot == Slot.ELEMENTS) {
                    change.add(index, index + (int) log.bits(entry));
                } else {
                    change.addWhole();
                }
            }
            default -> change.addEntry(entry);
        }
    }

    private static void addField(Change change, Layout layout, Slot slot) {
        if (!(slot instanceof Slot.Field field) || layout != layout.current()) {
            change.addWhole();
            return;
        }
        long place = layout.place(field);
        if (place >= 0) {
            int from = (int) (place >>> 8);
            change.add(from, from + (int) (place & 0xff));
        }
    }

    /// Removes the marks of the identities.
    void abandon() {
        for (int i = 0; i < count; i++) {
            changes[i].identity.commit = null;
        }
    }
}
