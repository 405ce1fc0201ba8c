package cedrat.oracle.client;

/// A request has no answer.
public abstract sealed class OracleException extends RuntimeException
        permits RefusedException, UnavailableException, ClientClosedException {
    private static final long serialVersionUID = 1L;

    OracleException(String message, Throwable cause) {
        super(message, cause);
    }
}
