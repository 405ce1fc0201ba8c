package cedrat.oracle.tables;

/// A store could not do what it was asked for.
public final class TableException extends RuntimeException {
    private static final long serialVersionUID = 1L;

    /// Possible effect of the failed call.
    public enum Effect {
        /// Nothing, and nothing will.
        NONE,
        /// It was done, or not, or will be done later.
        UNKNOWN
    }

    /// Possible effect of the failed call.
    private final Effect effect;

    /// A failure.
    public TableException(Effect effect, String message, Throwable cause) {
        super(message, cause);
        this.effect = effect;
    }

    /// Returns the possible effect of the failed call.
    public Effect effect() {
        return effect;
    }
}
