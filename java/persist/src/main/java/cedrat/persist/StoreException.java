package cedrat.persist;

/// A store of persistent objects refuses something; the message says what to do.
///
/// Out of a commit it means that the transaction was rolled back in memory and that nothing of it was stored,
/// unless the message says that the store has stopped: then only opening it anew tells. [InDoubtException] says that a
/// branch in doubt is in the way.
public sealed class StoreException extends CedratException permits InDoubtException {
    private static final long serialVersionUID = 1;

    /// An exception of the implementation or of a [GraphStore].
    public StoreException(String message) {
        super(message, null);
    }

    /// An exception with its cause.
    public StoreException(String message, Throwable cause) {
        super(message, cause);
    }
}
