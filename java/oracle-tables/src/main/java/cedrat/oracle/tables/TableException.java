package cedrat.oracle.tables;

import cedrat.oracle.client.OracleIdentity;

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

    /// Returns the refusal of a client of `used` by tables that are bound to the oracle `bound`.
    public static TableException ofOtherOracle(String tables, String bound, OracleIdentity used) {
        return new TableException(
                Effect.NONE,
                tables + " cannot be used with the oracle " + used
                        + ", because the timestamps there are those of the oracle " + bound
                        + ": connect to a server of that oracle, or copy the rows into new tables",
                null);
    }

    /// Returns the possible effect of the failed call.
    public Effect effect() {
        return effect;
    }
}
