package cedrat.persist.event;

import jdk.jfr.Description;
import jdk.jfr.Label;
import jdk.jfr.Name;
import jdk.jfr.Threshold;

/// A thread waits until a commit is durable.
///
/// **Threads:** one.
@Name("cedrat.DurableWait")
@Label("Durable Wait")
@Description("A thread waits until everything up to a place in the log of a store is durable")
@Threshold("1 ms")
public final class DurableWaitEvent extends StoreEvent {
    @Label("LSN")
    private long lsn;

    /// Ends the event, and records it if the recording has it enabled.
    public void end(String store, long lsn) {
        try {
            end();
            if (shouldCommit()) {
                this.store = store;
                this.lsn = lsn;
                commit();
            }
        } catch (VirtualMachineError lost) {
            // The event is lost, and the outcome of the caller is not.
            return;
        }
    }
}
