package cedrat.oracle.tables;

import cedrat.oracle.client.StartTimestamp;

/// The oracle was not to be reached: the transaction has committed or not. [Transaction#resolve] tells, once
/// the oracle answers.
public final class OutcomeUnknownException extends RuntimeException {
    private static final long serialVersionUID = 1L;

    /// The transaction's name.
    private final long start;

    OutcomeUnknownException(StartTimestamp start, Throwable cause) {
        super(
                "the outcome of transaction " + start.value()
                        + " is unknown, because the oracle has not answered: read "
                        + "what it has written, or resolve it with OracleClient.resolve",
                cause);
        this.start = start.value();
    }

    /// Which transaction.
    public StartTimestamp start() {
        return new StartTimestamp(start);
    }
}
