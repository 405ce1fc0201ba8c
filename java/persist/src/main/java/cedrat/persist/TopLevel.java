package cedrat.persist;

/// What a top-level transaction and those nested in it have in common.
///
/// **Threads:** that of the transaction; handing it over orders what both threads do.
final class TopLevel {
    final UndoLog log = new UndoLog();
    final MadeObjects made = new MadeObjects();
    final Locks.Owner owner;
    /// The thread's state that it is attached to, or null.
    volatile Context context;
    /// It was rolled back to end a deadlock, and its scope is not left yet.
    volatile boolean isDoomed;

    TopLevel(Locks.Owner owner, Context context) {
        this.owner = owner;
        this.context = context;
    }
}
