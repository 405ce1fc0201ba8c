package cedrat.persist.codec;

import cedrat.persist.record.Changes;
import cedrat.persist.record.Persistent;

/// State that a store keeps of an object that is persistent, or that a commit is making so.
///
/// ```text
/// Fresh ──the commit is appended──▶ Persistent
///   └─────it is refused──▶ the object has none any more
/// ```
///
/// **Threads:** any. The words of pending fields are guarded by this object's monitor, marks by the write lock
/// of the object; the chain of [IdentityEntry] belongs to the table.
public final class ObjectIdentity extends IdentityEntry {
    public final Persistent store;
    /// The place in the store; 0 while it is fresh.
    public long id;
    /// How the object was stored last. Of an object of a woven class a [Layout].
    public Shape shape;
    /// The references that have not been followed yet, by the number of the reference field in the current
    /// layout; 0 of those that have. Null if there are none.
    public long[] pending;
    /// The commit that has marked it, and where that finds it: the number of a new object, or of a change.
    public Changes commit;

    public int mark;
    /// State that its form keeps of the stored object: for a list the number of elements, otherwise its [Cells].
    public Object stored;
    /// The identity of the container of a library that the object may be a part of, or null: none is known.
    public ObjectIdentity container;
    /// Number of bytes of the object in the store.
    public int bytes;
    /// Its bytes are counted among those that are loaded. Guarded by `Loaded`.
    public boolean isCounted;
    /// Its fields are read behind the barriers' back, so they stay loaded. Under the monitor.
    public boolean isKept;

    public ObjectIdentity(Persistent store, Object object, long id, Shape shape) {
        super(object);
        this.store = store;
        this.id = id;
        this.shape = shape;
    }

    @Override
    public Persistent store() {
        return store;
    }

    @Override
    public ObjectIdentity owner() {
        return this;
    }

    @Override
    public boolean mayChange(Object object) {
        return shape.mayChange(object);
    }

    /// The word of a reference field if it is pending, otherwise 0. Under the monitor.
    public long word(int reference) {
        return pending == null ? 0 : pending[reference];
    }

    /// The field is not pending any more. Under the monitor.
    public void settle(int reference) {
        if (pending == null) {
            return;
        }
        pending[reference] = 0;
        for (long word : pending) {
            if (word != 0) {
                return;
            }
        }
        pending = null;
    }
}
