package cedrat.oracle.client;

import cedrat.oracle.protocol.Protocol;

/// Reason of an abort.
public enum AbortReason {
    /// Another transaction has committed a row that this one has written, or has read if it is
    /// serialisable, since this one began.
    CONFLICT(Protocol.ABORTED_CONFLICT),
    /// The oracle no longer knows whether such a row was committed: it keeps only the newest rows.
    FORGOTTEN(Protocol.ABORTED_FORGOTTEN),
    /// A key in a range that the transaction has scanned was written since it began, or may have been.
    SCAN(Protocol.ABORTED_SCAN),
    /// The client of the transaction has aborted it, or another client has resolved it.
    RESOLVED(Protocol.ABORTED_RESOLVED),
    /// The client of the transaction was silent for too long, was closed, or did not announce it after a
    /// reconnection.
    EXPIRED(Protocol.ABORTED_EXPIRED),
    /// The oracle no longer knows the reason, because it has restarted since or has forgotten the
    /// transaction; or its version states no reasons.
    UNKNOWN(Protocol.ABORTED);

    private final long outcome;

    AbortReason(long outcome) {
        this.outcome = outcome;
    }

    /// Returns the reason that the protocol's number of an aborted outcome states.
    static AbortReason of(long outcome) {
        for (AbortReason reason : values()) {
            if (reason.outcome == outcome) {
                return reason;
            }
        }
        return UNKNOWN;
    }
}
