package cedrat.oracle.protocol;

import cedrat.oracle.protocol.Protocol.At;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;

/// Reads replies, as a client does. For one thread at a time.
public final class ReplyReader extends FrameReader {
    /// A reader of no reply.
    public ReplyReader() {}

    @Override
    void check() throws ProtocolException {
        if (kind() == Protocol.ERROR) {
            if (length < At.ERROR_TEXT) {
                throw malformed("an error of " + length + " bytes");
            }
            checkLength(At.ERROR_TEXT + Protocol.getShort(bytes, at + At.ERROR_LENGTH));
            return;
        }
        checkFlags(request() == Protocol.AUTHENTICATE ? Protocol.FLAG_DONE : 0);
        switch (request()) {
            case Protocol.HELLO:
                checkWelcome();
                if (sessionTimeoutMs() <= 0 || rowsMax() <= 0 || outstandingMax() <= 0) {
                    throw malformed("invalid limits in the reply to a hello");
                }
                break;
            case Protocol.AUTHENTICATE:
                checkAuthenticate();
                break;
            case Protocol.BEGIN:
            case Protocol.LOW_WATER:
                checkLength(At.START_END);
                if (!Protocol.isTimestamp(value())) {
                    throw malformed("invalid timestamp " + Long.toUnsignedString(value()));
                }
                break;
            case Protocol.CLEANED:
                checkLength(At.START_END);
                break;
            case Protocol.COMMIT:
            case Protocol.ABORT:
            case Protocol.END:
            case Protocol.RESOLVE:
                checkLength(At.START_END);
                checkOutcome(value());
                break;
            case Protocol.STATUS:
            case Protocol.ANNOUNCE:
            case Protocol.BATCH:
                int count = checkLongs(At.BODY, 0);
                for (int index = 0; index < count; index++) {
                    checkOutcome(value(index));
                }
                break;
            case Protocol.ADMIN:
                int numbers = checkLongs(At.BODY, AdminKind.HEAD);
                AdminKind kind = AdminKind.of(value());
                if (kind == null || !kind.mayHave(numbers) || value(1) < 0 || value(1) > 1) {
                    throw malformed("invalid reply to an administrator's request: " + numbers + " numbers");
                }
                break;
            case Protocol.SWEPT:
                checkLength(At.SWEPT_SHORT_END);
                if (forgotten() < 0 || next() != 0 && !Protocol.isTimestamp(next())) {
                    throw malformed("a reply to a sweep that goes on at " + Long.toUnsignedString(next()));
                }
                break;
            case Protocol.PING:
            case Protocol.CLOSE:
            case Protocol.NAMESPACE:
                checkLength(At.BODY);
                break;
            default:
                throw malformed("unknown kind of reply " + (kind() & 0xff));
        }
    }

    private void checkWelcome() throws ProtocolException {
        if (length < At.WELCOME_END) {
            checkLength(At.WELCOME_END);
        }
        checkLength(FrameWriter.welcomeEnd(version()));
        if (version() >= Protocol.VERSION_IDENTITY && identity() == Protocol.IDENTITY_NONE) {
            throw malformed("the reply to a hello has no identity of the oracle");
        }
        if (version() >= Protocol.VERSION_GENERATION && generation() == Protocol.IDENTITY_NONE) {
            throw malformed("the reply to a hello has no generation of the oracle");
        }
    }

    private void checkOutcome(long number) throws ProtocolException {
        if (!Protocol.isTimestamp(number) && (number < Protocol.OUTCOME_MIN || number >= 0)) {
            throw malformed("invalid outcome " + Long.toUnsignedString(number));
        }
    }

    /// The kind of the request that is answered; 0 if the server could not tell, or refuses.
    public byte request() {
        return kind() == Protocol.ERROR || kind() >= 0 ? 0 : (byte) (kind() & ~Protocol.REPLY);
    }

    /// Returns, for a hello's reply, the version that is spoken from now on.
    public int version() {
        return Protocol.getShort(bytes, at + At.WELCOME_VERSION);
    }

    /// Returns, for a hello's reply, the milliseconds of silence after which the session expires.
    public int sessionTimeoutMs() {
        return Protocol.getInt(bytes, at + At.WELCOME_TIMEOUT);
    }

    /// Returns, for a hello's reply, the number of rows that a commit may have.
    public int rowsMax() {
        return Protocol.getInt(bytes, at + At.WELCOME_ROWS);
    }

    /// Returns, for a hello's reply, the number of unanswered requests at which the server stops reading.
    public int outstandingMax() {
        return Protocol.getInt(bytes, at + At.WELCOME_OUTSTANDING);
    }

    /// Returns, for a hello's reply, the identity of the oracle; [Protocol#IDENTITY_NONE] in a version without
    /// identities.
    public long identity() {
        return length >= At.WELCOME_LONG_END ? longAt(At.WELCOME_IDENTITY) : Protocol.IDENTITY_NONE;
    }

    /// Returns, for a hello's reply, the generation of the oracle; [Protocol#IDENTITY_NONE] in a version without
    /// generations.
    public long generation() {
        return length >= At.WELCOME_FULL_END ? longAt(At.WELCOME_GENERATION) : Protocol.IDENTITY_NONE;
    }

    /// The number that is the reply.
    public long value() {
        return longAt(At.BODY);
    }

    /// Returns, for a sweep's reply, the number of transactions that were forgotten.
    public long forgotten() {
        return longAt(At.SWEPT_FORGOTTEN);
    }

    /// Returns, for a sweep's reply, the start timestamp from which on there may be more to be forgotten, or 0.
    public long next() {
        return longAt(At.SWEPT_NEXT);
    }

    /// All [#values] numbers, in an array of their own.
    public long[] allValues() {
        long[] all = new long[values()];
        Arrays.setAll(all, this::value);
        return all;
    }

    /// Returns the number of numbers in the reply.
    public int values() {
        return (length - At.BODY) / Long.BYTES;
    }

    /// One of the numbers that are the reply.
    public long value(int index) {
        return longAt(At.BODY + index * Long.BYTES);
    }

    /// Returns, for a refusal, the code, or `null` if this program does not know the code [#errorNumber].
    public ErrorCode errorCode() {
        return ErrorCode.of(errorNumber());
    }

    /// Returns, for a refusal, the number of its code.
    public int errorNumber() {
        return Protocol.getShort(bytes, at + At.ERROR_CODE);
    }

    /// Returns, for a refusal, its text. Makes a string.
    public String errorText() {
        return new String(
                bytes, at + At.ERROR_TEXT, Protocol.getShort(bytes, at + At.ERROR_LENGTH), StandardCharsets.UTF_8);
    }
}
