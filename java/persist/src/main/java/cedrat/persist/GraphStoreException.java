package cedrat.persist;

/// A [GraphStore] refuses a call.
public final class GraphStoreException extends Exception {
    private static final long serialVersionUID = 1;

    private final boolean isStopped;

    /// @param isStopped whether the store refuses every further call too
    public GraphStoreException(String message, Throwable cause, boolean isStopped) {
        super(message, cause);
        this.isStopped = isStopped;
    }

    /// Whether the store refuses every further call until it is opened anew. Otherwise nothing has happened.
    public boolean isStopped() {
        return isStopped;
    }
}
