package cedrat.persist;

/// Transactions waited for each other in a circle, by locks or also by monitors, and this one was chosen to give
/// way; or this one was about to change what a persistent collection is not made of any more since another one has
/// ended, an entry that was added and taken back for example. It
/// is rolled back with all those around it, and its locks are free. Leave its scope, and run it again;
/// [Transaction#run(Transaction.Work)] does so by itself.
public final class DeadlockException extends RuntimeException {
    private static final long serialVersionUID = 1;

    DeadlockException() {
        this("to end a deadlock");
    }

    private DeadlockException(String why) {
        super("the transaction was rolled back " + why + ": leave its scope, and run it again");
    }

    static DeadlockException ofWhatWasTakenBack(Object part) {
        return new DeadlockException("because it was about to change an object of "
                + part.getClass().getTypeName()
                + " that a persistent collection is not made of any more since another one "
                + "has ended");
    }
}
