package cedrat.oracle.tables;

import java.time.Duration;
import java.util.List;

/// A store: tables by name. **Threads:** any may call.
public interface Tables {
    /// The table of this name.
    ///
    /// @throws TableException if there is none
    Table table(String name);

    /// All tables that transactions may write.
    List<Table> all();

    /// How long after its client was last heard of a write may still arrive: longer than clients of the store
    /// send a request again, and the store keeps one waiting. What clients have left behind that are dead is
    /// forgotten no sooner ([Cleaner]).
    default Duration writesLast() {
        return Duration.ofHours(1);
    }

    /// So many calls may usefully be under way at a time for one transaction; 1 for a store in this process.
    default int callsMax() {
        return 1;
    }
}
