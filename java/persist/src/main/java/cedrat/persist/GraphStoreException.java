package cedrat.persist;

/// A [GraphStore] refuses a call.
public final class GraphStoreException extends Exception {
    private static final long serialVersionUID = 1;

    private final boolean isStopped;
    private final boolean isConflict;

    /// @param isStopped whether the store refuses every further call too
    public GraphStoreException(String message, Throwable cause, boolean isStopped) {
        this(message, cause, isStopped, false);
    }

    private GraphStoreException(String message, Throwable cause, boolean isStopped, boolean isConflict) {
        super(message, cause);
        this.isStopped = isStopped;
        this.isConflict = isConflict;
    }

    /// Another transaction was quicker: this one is to be rolled back, and may be run again.
    public static GraphStoreException conflict(String message) {
        return new GraphStoreException(message, null, false, true);
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
