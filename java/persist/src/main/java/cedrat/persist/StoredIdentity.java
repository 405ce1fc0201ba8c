package cedrat.persist;

import cedrat.persist.boot.Identity;

/// An identity that says which store it is of.
abstract class StoredIdentity extends Identity {
    StoredIdentity(Object object) {
        super(object);
    }

    /// Returns the store, which never changes.
    abstract Persistent store();
}
