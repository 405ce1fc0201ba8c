package cedrat.oracle.client;

/// A request has no answer: a [RefusedException], an [UnavailableException] or a [ClientClosedException].
public abstract class OracleException extends RuntimeException {
    private static final long serialVersionUID = 1L;

    OracleException(String message, Throwable cause) {
        super(message, cause);
    }
}
