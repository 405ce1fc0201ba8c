package cedrat.persist;

/// An array or an object that a collection of the JDK is made of, and whose that is.
///
/// **Threads:** any.
final class Part extends Attached {
    private final ObjectIdentity owner;
    /// Of an entry, the cells that hold it in the store, if it is still in the collection; and which of them.
    Cells cells;

    int cell = -1;

    Part(ObjectIdentity owner, Object object) {
        super(object);
        this.owner = owner;
    }

    @Override
    ObjectIdentity owner() {
        return owner;
    }

    @Override
    Persistent store() {
        return owner.engine;
    }
}
