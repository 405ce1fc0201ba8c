package cedrat.oracle.client;

import cedrat.oracle.protocol.Protocol;

/// Why a transaction has aborted.
public enum AbortReason {
    /// Another transaction has committed a row that it has written, or that it has read if it is serialisable,
    /// since it began.
    CONFLICT(Protocol.ABORTED_CONFLICT),
    /// Such a row may have been committed, and the oracle keeps only the newest rows.
    FORGOTTEN(Protocol.ABORTED_FORGOTTEN),
    /// A key in a range that it has scanned was written since it began, or may have been.
    SCAN(Protocol.ABORTED_SCAN),
    /// Its client has aborted it, or another client has resolved it.
    RESOLVED(Protocol.ABORTED_RESOLVED),
    /// Its client was silent for too long, was closed, or did not announce it after a reconnection.
    EXPIRED(Protocol.ABORTED_EXPIRED),
    /// The oracle does not know any more, as it has restarted since or has forgotten the transaction, or it is of
    /// a version that does not state reasons.
    UNKNOWN(Protocol.ABORTED);

    private final long outcome;

    AbortReason(long outcome) {
        this.outcome = outcome;
    }

    /// From the protocol's number of an outcome that is an abort.
    static AbortReason of(long outcome) {
        for (AbortReason reason : values()) {
            if (reason.outcome == outcome) {
                return reason;
            }
        }
        return UNKNOWN;
    }
}
