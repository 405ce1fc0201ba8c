package cedrat.persist.codec;

import cedrat.persist.lock.Locks;
import cedrat.persist.record.Persistent;

/// The identity of an array or an object that a collection of the JDK is made of: its owner.
///
/// ```text
/// Added ──the commit is appended──▶ Stored
///   │ ▲
///   │ └─────────────added again─────────────┐
///   └──its transaction ends otherwise──▶ Taken back
/// ```
///
/// - Added       a transaction has made it, and let the collection lead to it
/// - Stored      the collection as it is stored is made of it, or was
/// - Taken back  nothing leads to it but who has read what was not committed, or what the collection was before: what
///               is stored leaves it by a commit
///
/// **Threads:** any. The state is changed by the transaction that has locked the Java collection; others may see an
/// older one.
public final class PartIdentity extends IdentityEntry {
    private final ObjectIdentity owner;
    /// The transaction that has added it, or [TakenBack], or null: it is stored.
    private Object state;
    /// For an entry, the cells that hold it in the store, if it is still in the Java collection; and its place there.
    public Cells cells;

    public int cell = -1;

    /// @param by   the transaction that has added it
    /// @param when in the order of what transactions take back
    private record TakenBack(Locks.Owner by, long when) {}

    public PartIdentity(ObjectIdentity owner, Object object) {
        super(object);
        this.owner = owner;
    }

    /// @return false if it is already
    public boolean add(Locks.Owner by) {
        if (state == by) {
            return false;
        }
        state = by;
        return true;
    }

    /// Marks the identity as stored: a rollback does not take it back.
    public void markStored() {
        state = null;
    }

    /// Unless it is stored.
    public void takeBack(Locks.Owner by, long when) {
        if (state == by) {
            state = new TakenBack(by, when);
        }
    }

    /// The collection is not made of it any more.
    public void leave(Locks.Owner by, long when) {
        state = new TakenBack(by, when);
    }

    public boolean isTakenBack() {
        return state instanceof TakenBack;
    }

    /// Whether transactions other than the one that has taken it back may have found it in the Java collection since a
    /// moment.
    public boolean isTakenBack(Locks.Owner reader, long since) {
        return state instanceof TakenBack back && back.by != reader && back.when > since;
    }

    @Override
    public ObjectIdentity owner() {
        return owner;
    }

    /// Returns the owner; a part that was taken back has none.
    @Override
    public boolean mayChange(Object object) {
        return !isTakenBack();
    }

    @Override
    public Persistent store() {
        return owner.store;
    }
}
