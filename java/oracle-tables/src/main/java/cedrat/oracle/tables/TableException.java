package cedrat.oracle.tables;

/// A store could not do what it was asked for.
public final class TableException extends RuntimeException {
    private static final long serialVersionUID = 1L;

    /// What may have happened.
    public enum Effect {
        /// Nothing, and nothing will.
        NONE,
        /// It was done, or not, or will be done later.
        UNKNOWN
    }

    /// What may have happened.
    private final Effect effect;

    /// A failure.
    public TableException(Effect effect, String message, Throwable cause) {
        super(message, cause);
        this.effect = effect;
    }

    /// What may have happened.
    public Effect effect() {
        return effect;
    }
}
