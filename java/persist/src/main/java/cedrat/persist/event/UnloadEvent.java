package cedrat.persist.event;

import jdk.jfr.DataAmount;
import jdk.jfr.Description;
import jdk.jfr.Label;
import jdk.jfr.Name;
import jdk.jfr.StackTrace;

/// References of loaded objects were dropped, because more is loaded than the limit.
///
/// **Threads:** one.
@Name("cedrat.Unload")
@Label("Unload")
@Description("References of the oldest objects were dropped, because more than loadedBytesMax is loaded")
@StackTrace(false)
public final class UnloadEvent extends StoreEvent {
    @Label("Objects")
    @Description("Number of these objects since the last event")
    private int objects;

    @Label("Loaded Bytes")
    @DataAmount
    private long loadedBytes;

    /// Records the event if the recording has it enabled.
    public void record(String store, int objects, long loadedBytes) {
        if (shouldCommit()) {
            this.store = store;
            this.objects = objects;
            this.loadedBytes = loadedBytes;
            commit();
        }
    }
}
