package cedrat.persist;

/// A deadlock: this transaction is the victim of a waits-for cycle, through locks or also monitors. Or it was about
/// to change a former part of a persistent Java collection, an entry that another transaction has added and taken
/// back for example. The transaction
/// is rolled back with all those around it, and its locks are free. Leave its scope, and run it again;
/// [Transaction#run(Transaction.Work)] does so by itself, also where its work throws another exception whose cause
/// this is.
public final class DeadlockException extends RuntimeException {
    private static final long serialVersionUID = 1;
    private static final int CAUSES_MAX = 100;

    DeadlockException() {
        this("to end a deadlock");
    }

    private DeadlockException(String why) {
        super("the transaction was rolled back " + why + ": leave its scope, and repeat it");
    }

    /// Whether this is one, or was thrown because of one.
    static boolean isBehind(Throwable thrown) {
        // Causes may form a cycle: deeper wrapping is not followed.
        Throwable cause = thrown;
        for (int depth = 0; cause != null && depth < CAUSES_MAX; depth++) {
            if (cause instanceof DeadlockException) {
                return true;
            }
            cause = cause.getCause();
        }
        return false;
    }

    static DeadlockException ofWhatWasTakenBack(Object part) {
        return new DeadlockException("because it was about to change an object of "
                + part.getClass().getTypeName()
                + " that another transaction has removed from a persistent collection");
    }
}
