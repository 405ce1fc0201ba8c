package cedrat.oracle.tables;

import cedrat.oracle.client.StartTimestamp;

/// The transaction has committed or not. If the oracle could not be reached, [Transaction#resolve] returns
/// the outcome once the oracle answers. If the oracle has forgotten the transaction, because its client was
/// silent for too long, only the rows that it has written may show the outcome.
public final class OutcomeUnknownException extends RuntimeException {
    private static final long serialVersionUID = 1L;

    /// The transaction's name.
    private final long start;

    /// The oracle or the store has not answered.
    OutcomeUnknownException(StartTimestamp start, RuntimeException cause) {
        super(
                "the outcome of transaction " + start.value() + " is unknown, because "
                        + (cause instanceof TableException ? "its rows cannot be read" : "the oracle has not answered")
                        + ": read what it has written, or resolve it with Transaction.resolve",
                cause);
        this.start = start.value();
    }

    /// The oracle has forgotten the transaction, and its rows do not show the outcome.
    OutcomeUnknownException(StartTimestamp start) {
        super("the outcome of transaction " + start.value()
                + " is unknown, because its client was silent for longer than the oracle's session timeout, and the oracle "
                + "has forgotten it since; its rows do not show that it has aborted: read what it has written");
        this.start = start.value();
    }

    /// Which transaction.
    public StartTimestamp start() {
        return new StartTimestamp(start);
    }
}
