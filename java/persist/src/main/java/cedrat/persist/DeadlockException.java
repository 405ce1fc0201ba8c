package cedrat.persist;

/// A deadlock: this transaction is the victim of a waits-for cycle, through locks or also monitors. Or it was about
/// to change a former part of a persistent Java collection, an entry that another transaction has added and taken
/// back for example. The transaction is rolled back with all those around it, and its locks are free. Leave its scope,
/// and run it again; [Transaction#run(Transaction.Work)] does so by itself, also where its work throws another
/// exception whose cause this is.
public final class DeadlockException extends CedratException {
    private static final long serialVersionUID = 1;

    /// An exception of the victim of a deadlock.
    public DeadlockException() {
        this("to end a deadlock");
    }

    /// @param why the reason, after "was rolled back"
    public DeadlockException(String why) {
        super("the transaction was rolled back " + why + ": leave its scope, and repeat it", null);
    }
}
