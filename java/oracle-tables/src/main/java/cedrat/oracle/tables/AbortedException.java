package cedrat.oracle.tables;

import cedrat.oracle.client.AbortReason;
import cedrat.oracle.client.StartTimestamp;

/// The transaction has aborted, for the [#reason] that the message names. Nothing of it was kept. Run it again.
public final class AbortedException extends RuntimeException {
    private static final long serialVersionUID = 1L;

    /// The reason of the abort.
    private final AbortReason reason;

    AbortedException(StartTimestamp start, Isolation isolation, AbortReason reason) {
        super(
                "transaction " + start.value() + " was aborted, " + text(isolation, reason)
                        + ": run the transaction again",
                null);
        this.reason = reason;
    }

    /// Takes the reason from `last`, the abort of the last attempt.
    AbortedException(String message, AbortedException last) {
        super(message, last);
        this.reason = last.reason;
    }

    /// Returns the reason of the abort; after several attempts, that of the last one.
    public AbortReason reason() {
        return reason;
    }

    private static String text(Isolation isolation, AbortReason reason) {
        String row =
                isolation == Isolation.SERIALISABLE ? "a row that it has read or written" : "a row that it has written";
        switch (reason) {
            case CONFLICT:
                return "because another transaction has committed " + row + " since it began";
            case FORGOTTEN:
                return "because the oracle no longer knows whether " + row
                        + " was committed since it began, as it keeps only the newest rows (--rows-log2)";
            case SCAN:
                return "because a key in a range that it has scanned was written since it began, or may have been";
            case RESOLVED:
                return "because its client has aborted it, or another client has resolved it";
            case EXPIRED:
                return "because its session is over: its client was closed, was silent for longer than the oracle's "
                        + "session timeout, or did not announce it after a reconnection";
            default:
                return "for a reason that the oracle no longer knows";
        }
    }
}
