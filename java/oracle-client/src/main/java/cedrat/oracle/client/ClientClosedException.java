package cedrat.oracle.client;

/// The client was closed, here or because the server will have nothing to do with it; the message tells.
/// Whether a request that was outstanding then was carried out is not known.
public final class ClientClosedException extends OracleException {
    private static final long serialVersionUID = 1L;

    ClientClosedException(String message, Throwable cause) {
        super(message, cause);
    }
}
