package cedrat.persist;

/// What is known of an object that has no field for its identity: of an array or an object of the JDK that is
/// persistent, or a part of one that is.
///
/// **Threads:** any; the chain belongs to the table.
abstract class Attached extends StoredIdentity {
    /// The object's identity hash, or 0: it is not found by that.
    int hash;

    Attached nextByObject;

    Attached(Object object) {
        super(object);
    }

    /// The identity of the persistent object that it is, or is a part of.
    abstract ObjectIdentity owner();
}
