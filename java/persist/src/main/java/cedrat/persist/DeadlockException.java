package cedrat.persist;

/// Transactions waited for each other in a circle, by locks or also by monitors, and this one was chosen to give
/// way: it is rolled back with all those around it, and its locks are free. Leave its scope, and run it again;
/// [Transaction#run(Transaction.Work)] does so by itself.
public final class DeadlockException extends RuntimeException {
    private static final long serialVersionUID = 1;

    DeadlockException() {
        super("the transaction was rolled back to end a deadlock: leave its scope, and run it again");
    }
}
