package cedrat.oracle.state;

/// Why a transaction has aborted (S2).
public enum AbortReason {
    /// A row that it has written or read was committed since it began.
    CONFLICT,
    /// Such a row may have been committed and is forgotten (T_max).
    FORGOTTEN,
    /// A key in a range that it has scanned was written, or may have been.
    SCAN,
    /// Its client asked for the abort, or another transaction resolved it.
    RESOLVED,
    /// Its session is over, or has not announced it.
    EXPIRED
}
