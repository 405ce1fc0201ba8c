package cedrat.oracle.client;

/// No answer has come in time. The request may have been carried out or not.
///
/// **Action:** a transaction whose commit has ended so is decided by [OracleClient#resolve], as soon as an
/// oracle can be reached. Until then it may have committed, and its rows must not be cleaned. Any other
/// request may be sent again.
public final class UnavailableException extends OracleException {
    private static final long serialVersionUID = 1L;

    UnavailableException(String message, Throwable cause) {
        super(message, cause);
    }
}
