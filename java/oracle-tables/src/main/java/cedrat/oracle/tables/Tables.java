package cedrat.oracle.tables;

import java.util.List;

/// A store: tables by name. **Threads:** any may call.
public interface Tables {
    /// The table of this name.
    ///
    /// @throws TableException if there is none
    Table table(String name);

    /// All tables that transactions may write.
    List<Table> all();

    /// So many calls may usefully be under way at a time for one transaction; 1 for a store in this process.
    default int callsMax() {
        return 1;
    }
}
