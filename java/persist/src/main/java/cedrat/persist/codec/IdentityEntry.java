package cedrat.persist.codec;

import cedrat.persist.record.StoredIdentity;

/// An identity that the `IdentityTable` finds by its object: that of an array or an object of the JDK, which has no
/// field for it, and is persistent, or a part of what is.
///
/// **Threads:** any; the chain belongs to the table.
public abstract class IdentityEntry extends StoredIdentity {
    /// The object's identity hash, or 0: it is not found by that.
    public int hash;

    public IdentityEntry nextByObject;

    IdentityEntry(Object object) {
        super(object);
    }

    /// The identity of the persistent object that it is, or is a part of.
    public abstract ObjectIdentity owner();

    /// Whether anything can be stored to the object.
    public abstract boolean mayChange(Object object);
}
