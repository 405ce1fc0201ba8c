package cedrat.oracle.protocol;

import java.util.Objects;

/// Bytes are no request, or no reply, of this protocol.
public final class ProtocolException extends Exception {
    private static final long serialVersionUID = 1L;

    /// Why.
    private final ErrorCode code;
    /// Length of the refused frame; 0 if nothing behind it can be read either.
    private final int skip;

    ProtocolException(ErrorCode code, int skip, String message) {
        // No stack trace: invalid frames must not cost the server a stack walk.
        super(message, null, false, false);
        this.code = Objects.requireNonNull(code);
        this.skip = skip;
    }

    /// Why.
    public ErrorCode code() {
        return code;
    }

    /// Returns the length of the refused frame, behind which the next begins; 0 if no next frame can be found.
    public int skip() {
        return skip;
    }

    /// Whether the connection is of no use any more.
    public boolean isFatal() {
        return skip == 0;
    }
}
