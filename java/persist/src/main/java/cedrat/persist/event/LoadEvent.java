package cedrat.persist.event;

import jdk.jfr.Description;
import jdk.jfr.Label;
import jdk.jfr.Name;
import jdk.jfr.Threshold;

/// A thread follows a reference to an object that is not in memory.
///
/// **Threads:** one.
@Name("cedrat.Load")
@Label("Load")
@Description("A thread follows a reference to an object that is not in memory")
@Threshold("1 ms")
public final class LoadEvent extends StoreEvent {
    @Label("Class")
    private Class<?> loadedClass;

    /// Ends the event, and records it if the recording has it enabled.
    ///
    /// @param object what was loaded, or null
    public void end(String store, Object object) {
        end();
        if (shouldCommit()) {
            this.store = store;
            loadedClass = object == null ? null : object.getClass();
            commit();
        }
    }
}
