package cedrat.persist.record;

import cedrat.persist.boot.Identity;

/// An identity that says which store it is of.
public abstract class StoredIdentity extends Identity {
    public StoredIdentity(Object object) {
        super(object);
    }

    /// Returns the store, which never changes.
    public abstract Persistent store();
}
