package cedrat.oracle.client;

import cedrat.oracle.protocol.ErrorCode;

/// The server does not take such a request: nothing was done, and sending it again will not help.
public final class RefusedException extends OracleException {
    private static final long serialVersionUID = 1L;

    /// Why.
    private final ErrorCode code;

    RefusedException(ErrorCode code, String message, Throwable cause) {
        super(message, cause);
        this.code = code;
    }

    /// Why; `null` if the server is newer than this program and gives a reason that it does not know.
    public ErrorCode code() {
        return code;
    }
}
