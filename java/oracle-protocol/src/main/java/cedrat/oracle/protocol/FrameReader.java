package cedrat.oracle.protocol;

import cedrat.oracle.protocol.Protocol.At;
import java.util.Arrays;

/// Finds frames in bytes that have arrived so far. What is read stays in the array; nothing is copied,
/// nothing is made.
///
/// - P1  Whatever the bytes are, they are a frame, the beginning of one, or a [ProtocolException]; nothing
///   outside of the frame is looked at.
/// - P2  A frame that [#next] returned has a kind, flags and a length that belong together, only row ids that
///   a row may have, and only timestamps that may be one.
abstract class FrameReader {
    byte[] bytes;
    int at;
    int length;
    private byte kind;
    private int flags;

    FrameReader() {}

    /// Opens the frame that begins at `from`, of bytes that go up to `end`.
    ///
    /// @return its length, behind which the next begins; 0 if not all of it is there yet
    /// @throws ProtocolException if it is none. [#id] then is that of the frame if the exception is not
    ///     fatal, or 0
    public final int next(byte[] bytes, int from, int end) throws ProtocolException {
        this.bytes = bytes;
        at = from;
        length = 0;
        if (end - from < Integer.BYTES) {
            return 0;
        }
        int behind = Protocol.getInt(bytes, from);
        if (behind < 0 || behind > Protocol.FRAME_BYTES_MAX - Integer.BYTES) {
            throw new ProtocolException(
                    ErrorCode.TOO_LONG,
                    0,
                    "a frame of " + Integer.toUnsignedString(behind) + " bytes behind its length; at most "
                            + (Protocol.FRAME_BYTES_MAX - Integer.BYTES) + " are taken");
        }
        if (behind < At.BODY - Integer.BYTES) {
            throw new ProtocolException(
                    ErrorCode.MALFORMED,
                    0,
                    "a frame of " + behind + " bytes behind its length; it has at" + " least "
                            + (At.BODY - Integer.BYTES));
        }
        if (end - from < Integer.BYTES + behind) {
            return 0;
        }
        length = Integer.BYTES + behind;
        kind = bytes[from + At.KIND];
        flags = bytes[from + At.FLAGS] & 0xff;
        if (Protocol.getShort(bytes, from + At.ZERO) != 0) {
            throw refused(ErrorCode.UNSUPPORTED, "invalid frame: reserved bytes are not zero");
        }
        check();
        return length;
    }

    /// Opens the body of a frame that lies within another one, which was checked.
    final void openWithin(byte[] bytes, int body, int bodyLength, byte kind, int flags) {
        this.bytes = bytes;
        at = body - At.BODY;
        length = At.BODY + bodyLength;
        this.kind = kind;
        this.flags = flags;
    }

    /// Looks at what is behind the header.
    abstract void check() throws ProtocolException;

    /// Returns the kind of the frame.
    public final byte kind() {
        return kind;
    }

    /// Its flags.
    public final int flags() {
        return flags;
    }

    /// The number that its request has. Its client has chosen it.
    public final long id() {
        return length == 0 ? 0 : Protocol.getLong(bytes, at + At.ID);
    }

    final ProtocolException refused(ErrorCode code, String message) {
        return new ProtocolException(code, length, message);
    }

    final ProtocolException malformed(String message) {
        return new ProtocolException(ErrorCode.MALFORMED, 0, message);
    }

    final void checkFlags(int known) throws ProtocolException {
        if ((flags() & ~known) != 0) {
            throw refused(ErrorCode.UNSUPPORTED, "flags " + flags() + " with a frame of kind " + (kind() & 0xff));
        }
    }

    final void checkLength(int wanted) throws ProtocolException {
        if (length != wanted) {
            throw malformed("a frame of kind " + (kind() & 0xff) + " with " + length + " bytes instead of " + wanted);
        }
    }

    /// A frame that ends with numbers of eight bytes from `from` on; returns how many.
    final int checkLongs(int from, int min) throws ProtocolException {
        int rest = length - from;
        if (rest < min * Long.BYTES || rest % Long.BYTES != 0) {
            throw malformed("a frame of kind " + (kind() & 0xff) + " with " + length + " bytes");
        }
        return rest / Long.BYTES;
    }

    /// A message of an exchange that authenticates a client.
    final void checkAuthenticate() throws ProtocolException {
        if (length < At.AUTHENTICATE_MESSAGE || length > Protocol.FIRST_FRAME_BYTES_MAX) {
            throw malformed("a message of an authentication with " + length + " bytes");
        }
        if (mechanism() == null || (longAt(At.AUTHENTICATE_MECHANISM) & ~0xffffL) != 0) {
            throw refused(ErrorCode.UNSUPPORTED, "unknown mechanism of authentication");
        }
    }

    /// Returns, for a message of an authentication, its mechanism.
    public final Mechanism mechanism() {
        return Mechanism.of(Protocol.getShort(bytes, at + At.AUTHENTICATE_MECHANISM));
    }

    /// Returns, for a message of an authentication, a copy of the message.
    public final byte[] message() {
        return Arrays.copyOfRange(bytes, at + At.AUTHENTICATE_MESSAGE, at + length);
    }

    final long longAt(int offset) {
        return Protocol.getLong(bytes, at + offset);
    }
}
