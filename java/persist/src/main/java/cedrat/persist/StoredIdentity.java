package cedrat.persist;

import cedrat.persist.boot.Identity;
import java.lang.ref.ReferenceQueue;

/// An identity that says which store it is of.
abstract class StoredIdentity extends Identity {
    StoredIdentity(Object object, ReferenceQueue<Object> queue) {
        super(object, queue);
    }

    /// The store. The same one for ever.
    abstract Persistent store();
}
