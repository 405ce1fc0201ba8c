package cedrat.persist;

/// A [GraphStore] refuses a call.
public final class GraphStoreException extends Exception {
    private static final long serialVersionUID = 1;

    private final boolean isStopped;
    private final boolean isConflict;
    private final boolean isInDoubt;

    /// @param isStopped whether the store refuses every further call too
    public GraphStoreException(String message, Throwable cause, boolean isStopped) {
        this(message, cause, isStopped, false, false);
    }

    private GraphStoreException(
            String message, Throwable cause, boolean isStopped, boolean isConflict, boolean isInDoubt) {
        super(message, cause);
        this.isStopped = isStopped;
        this.isConflict = isConflict;
        this.isInDoubt = isInDoubt;
    }

    /// Returns the exception for a write conflict: the transaction is to be rolled back, and may be run again.
    public static GraphStoreException conflict(String message) {
        return new GraphStoreException(message, null, false, true, false);
    }

    /// A branch in doubt has changed what the call is about.
    ///
    /// @param message names the branch
    public static GraphStoreException inDoubt(String message) {
        return new GraphStoreException(message, null, false, false, true);
    }

    /// Whether a branch in doubt is in the way: once it has ended, the call may be made again.
    public boolean isInDoubt() {
        return isInDoubt;
    }

    /// Whether the transaction may succeed if it is run again.
    public boolean isConflict() {
        return isConflict;
    }

    /// Whether the store refuses every further call until it is opened anew. Otherwise nothing has happened.
    public boolean isStopped() {
        return isStopped;
    }
}
