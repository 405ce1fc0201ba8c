package cedrat.persist;

import cedrat.persist.boot.Identity;

/// An identity that says which store it is of.
abstract class StoredIdentity extends Identity {
    StoredIdentity(Object object) {
        super(object);
    }

    /// The store. The same one for ever.
    abstract Persistent store();
}
