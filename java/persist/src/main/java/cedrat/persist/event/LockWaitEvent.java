package cedrat.persist.event;

import jdk.jfr.Category;
import jdk.jfr.Description;
import jdk.jfr.Event;
import jdk.jfr.Label;
import jdk.jfr.Name;
import jdk.jfr.Threshold;

/// A transaction waits for the lock of an object.
///
/// **Threads:** one.
@Name("cedrat.LockWait")
@Label("Lock Wait")
@Category({"Cedrat", "Objects"})
@Description("A transaction waits for the lock of an object")
@Threshold("1 ms")
public final class LockWaitEvent extends Event {
    @Label("Class")
    @Description("Class of the locked object")
    private Class<?> lockedClass;

    @Name("write")
    @Label("Write Lock")
    private boolean isToWrite;

    @Name("deadlock")
    @Label("Deadlock")
    @Description("The wait ended without the lock, because of a deadlock or the end of an XA branch")
    private boolean isVictim;

    /// Ends the event, and records it if the recording has it enabled.
    public void end(Object locked, boolean isToWrite, boolean isVictim) {
        try {
            end();
            if (shouldCommit()) {
                lockedClass = locked.getClass();
                this.isToWrite = isToWrite;
                this.isVictim = isVictim;
                commit();
            }
        } catch (VirtualMachineError lost) {
            // The event is lost, and the outcome of the caller is not.
            return;
        }
    }
}
