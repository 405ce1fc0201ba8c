package cedrat.oracle.tables;

import cedrat.oracle.client.OracleIdentity;
import java.time.Duration;
import java.util.List;

/// A store: tables by name. **Threads:** any may call.
public interface Tables {
    /// The table of this name.
    ///
    /// @throws TableException if there is none
    Table table(String name);

    /// The namespace of all tables that [#all] returns: a number that no other tables of the same oracle have. A store
    /// whose [#table] returns tables of other namespaces registers those with the oracle
    /// ([cedrat.oracle.client.OracleClient#use]).
    default long namespace() {
        return 0;
    }

    /// All tables of the namespace that transactions may write.
    List<Table> all();

    /// Binds the tables to an oracle, whose timestamps their versions have. A [TransactionManager], a [Cleaner] and a
    /// [Pruner] call it before they read or write a row. A store that keeps no identity accepts any.
    ///
    /// @throws TableException if they are bound to another oracle
    default void bind(OracleIdentity oracle) {}

    /// Whether rows end with this process, so that outcomes of its transactions are needed no longer than its clients
    /// live.
    default boolean isVolatile() {
        return false;
    }

    /// Returns the longest time after the oracle last heard of a client at which a write of that client may still
    /// arrive. It is longer than clients of the store resend a request, and the store delays one. Transactions of
    /// dead clients are not forgotten earlier ([Cleaner]).
    default Duration writesLast() {
        return Duration.ofHours(1);
    }

    /// Returns the number of calls that one transaction may usefully have in flight; 1 for a store in this process.
    default int callsMax() {
        return 1;
    }
}
