package cedrat.oracle.tables;

import cedrat.oracle.client.StartTimestamp;

/// The oracle was not to be reached: the transaction has committed or not. [Transaction#resolve] tells, once
/// the oracle answers.
public final class OutcomeUnknownException extends RuntimeException {
    private static final long serialVersionUID = 1L;

    /// The transaction's name.
    private final long start;

    OutcomeUnknownException(StartTimestamp start, Throwable cause) {
        super("whether transaction " + start.value() + " has committed is not known", cause);
        this.start = start.value();
    }

    /// Which transaction.
    public StartTimestamp start() {
        return new StartTimestamp(start);
    }
}
