package cedrat.persist;

/// An identity that the [IdentityTable] finds by its object: that of an array or an object of the JDK, which has no
/// field for it, and is persistent, or a part of what is.
///
/// **Threads:** any; the chain belongs to the table.
abstract class IdentityEntry extends StoredIdentity {
    /// The object's identity hash, or 0: it is not found by that.
    int hash;

    IdentityEntry nextByObject;

    IdentityEntry(Object object) {
        super(object);
    }

    /// The identity of the persistent object that it is, or is a part of.
    abstract ObjectIdentity owner();

    /// Whether anything can be stored to the object.
    abstract boolean mayChange(Object object);
}
