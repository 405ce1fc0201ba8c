package cedrat.oracle.tables;

/// A point of a transaction, to which it can return ([Transaction#rollBackTo]).
public final class Savepoint {
    /// Number of writes that came before it, since the first savepoint.
    final int writes;

    Savepoint(int writes) {
        this.writes = writes;
    }
}
