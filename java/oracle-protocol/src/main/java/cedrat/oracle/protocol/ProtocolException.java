package cedrat.oracle.protocol;

import java.util.Objects;

/// Bytes are no request, or no reply, of this protocol.
public final class ProtocolException extends Exception {
    private static final long serialVersionUID = 1L;

    /// Why.
    private final ErrorCode code;
    /// How long the frame is that is refused; 0 if nothing behind it can be read either.
    private final int skip;

    ProtocolException(ErrorCode code, int skip, String message) {
        // Whoever sends nonsense shall not make the server walk its stack for it.
        super(message, null, false, false);
        this.code = Objects.requireNonNull(code);
        this.skip = skip;
    }

    /// Why.
    public ErrorCode code() {
        return code;
    }

    /// How many bytes the refused frame has, behind which the next begins; 0 if none can be found any more.
    public int skip() {
        return skip;
    }

    /// Whether the connection is of no use any more.
    public boolean isFatal() {
        return skip == 0;
    }
}
