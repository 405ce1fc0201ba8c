package cedrat.oracle.client;

import cedrat.oracle.protocol.ErrorCode;

/// The client was closed, here or because the server has refused it; the message states why. Whether a request that was
/// outstanding then was carried out is not known.
public final class ClientClosedException extends OracleException {
    private static final long serialVersionUID = 1L;

    /// Why the server has refused the client.
    private final ErrorCode code;

    ClientClosedException(ErrorCode code, String message, Throwable cause) {
        super(message, cause);
        this.code = code;
    }

    /// Returns why the server has refused the client, for example [ErrorCode#OTHER_ORACLE]; `null` if the client was
    /// closed here, or the server is newer and gives a reason that this program does not know.
    public ErrorCode code() {
        return code;
    }
}
