package cedrat.persist.event;

import jdk.jfr.Description;
import jdk.jfr.Label;
import jdk.jfr.Name;

/// A garbage collection of a store.
///
/// **Threads:** one.
@Name("cedrat.Collection")
@Label("Garbage Collection of a Store")
@Description("Objects that no root reaches are removed from a store")
public final class CollectionEvent extends StoreEvent {
    @Label("Removed Objects")
    private long removedObjects;

    /// Ends the event, and records it if the recording has it enabled.
    public void end(String store, long removedObjects) {
        end();
        if (shouldCommit()) {
            this.store = store;
            this.removedObjects = removedObjects;
            commit();
        }
    }
}
