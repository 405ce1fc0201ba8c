package cedrat.persist.event;

import jdk.jfr.DataAmount;
import jdk.jfr.Description;
import jdk.jfr.Label;
import jdk.jfr.Name;
import jdk.jfr.Threshold;

/// A transaction appends its changes to the log. The wait until they are durable is a [DurableWaitEvent].
///
/// **Threads:** one.
@Name("cedrat.Commit")
@Label("Commit")
@Description("A transaction appends its changes to the log of a store")
@Threshold("1 ms")
public final class CommitEvent extends StoreEvent {
    @Label("Changed Objects")
    private int changedObjects;

    @Label("New Objects")
    private int newObjects;

    @Label("Bytes")
    @DataAmount
    private int bytes;

    @Name("committed")
    @Label("Committed")
    @Description("False if the transaction was rolled back instead")
    private boolean isCommitted;

    /// Ends the event, and records it if the recording has it enabled.
    ///
    /// @param bytes size of the changes
    public void end(String store, int changedObjects, int newObjects, int bytes, boolean isCommitted) {
        try {
            end();
            if (shouldCommit()) {
                this.store = store;
                this.changedObjects = changedObjects;
                this.newObjects = newObjects;
                this.bytes = bytes;
                this.isCommitted = isCommitted;
                commit();
            }
        } catch (VirtualMachineError lost) {
            // The event is lost, and the outcome of the caller is not.
            return;
        }
    }
}
