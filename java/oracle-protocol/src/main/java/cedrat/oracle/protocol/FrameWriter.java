package cedrat.oracle.protocol;

import static cedrat.oracle.protocol.Protocol.INT;
import static cedrat.oracle.protocol.Protocol.LONG;
import static cedrat.oracle.protocol.Protocol.SHORT;

import cedrat.oracle.protocol.Protocol.At;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;

/// Puts frames one behind the other into an array that is reused. It does not validate its arguments; readers
/// do. For one thread at a time.
public final class FrameWriter {
    /// Text of an error is cut here, in bytes.
    private static final int TEXT_BYTES_MAX = 1024;

    /// When it is emptied, an array that has grown beyond this is not kept.
    private static final int KEPT_BYTES_MAX = 1 << 18;

    private static final CommitKeys NO_KEYS = new CommitKeys();

    private final int first;
    private byte[] bytes;
    private int length;

    /// An empty one with room for this many bytes; it grows.
    public FrameWriter(int bytes) {
        first = bytes;
        this.bytes = new byte[bytes];
    }

    /// The bytes, of which [#length] count. Another array when it has grown.
    public byte[] bytes() {
        return bytes;
    }

    /// Returns the length of the frames in bytes.
    public int length() {
        return length;
    }

    /// Empties it.
    public void clear() {
        length = 0;
        if (bytes.length > KEPT_BYTES_MAX) {
            bytes = new byte[first];
        }
    }

    /// Adds frames that were written elsewhere.
    public void copy(byte[] from, int at, int count) {
        need(count);
        System.arraycopy(from, at, bytes, length, count);
        length += count;
    }

    // ---- requests ---------------------------------------------------------------------------------------------------

    /// A hello of a client that speaks these versions and knows no oracle.
    public void hello(long id, int lowest, int highest, long session) {
        hello(id, lowest, highest, session, Protocol.IDENTITY_NONE, Protocol.IDENTITY_NONE);
    }

    /// A hello of a client that knows this generation of the oracle of this identity. Versions below
    /// [Protocol#VERSION_IDENTITY] omit both, and those below [Protocol#VERSION_GENERATION] the generation.
    public void hello(long id, int lowest, int highest, long session, long identity, long generation) {
        int at = begin(Protocol.HELLO, 0, id, helloEnd(highest));
        LONG.set(bytes, at + At.HELLO_MAGIC, Protocol.MAGIC);
        SHORT.set(bytes, at + At.HELLO_LOWEST, (short) lowest);
        SHORT.set(bytes, at + At.HELLO_HIGHEST, (short) highest);
        INT.set(bytes, at + At.HELLO_ZERO, 0);
        LONG.set(bytes, at + At.HELLO_SESSION, session);
        if (highest >= Protocol.VERSION_IDENTITY) {
            LONG.set(bytes, at + At.HELLO_IDENTITY, identity);
        }
        if (highest >= Protocol.VERSION_GENERATION) {
            LONG.set(bytes, at + At.HELLO_GENERATION, generation);
        }
    }

    /// Returns the length of a hello that offers versions up to this one; later ones may add to it.
    static int helloEnd(int highest) {
        if (highest >= Protocol.VERSION_GENERATION) {
            return At.HELLO_FULL_END;
        }
        return highest >= Protocol.VERSION_IDENTITY ? At.HELLO_LONG_END : At.HELLO_END;
    }

    /// A request without a body: begin, ping, low-water mark, close.
    public void plain(byte kind, long id) {
        begin(kind, 0, id, At.BODY);
    }

    /// A request about one transaction: abort, end, resolve.
    public void start(byte kind, long id, long start) {
        int at = begin(kind, 0, id, At.START_END);
        LONG.set(bytes, at + At.START, start);
    }

    /// The client writes rows of a namespace, or retires it.
    public void namespace(long id, long namespace, int flags) {
        int at = begin(Protocol.NAMESPACE, flags, id, At.START_END);
        LONG.set(bytes, at + At.BODY, namespace);
    }

    /// An administrator's request for a page that begins at `from`, or about the session `from`.
    public void admin(long id, AdminKind kind, long from) {
        int at = begin(Protocol.ADMIN, 0, id, At.ADMIN_END);
        LONG.set(bytes, at + At.ADMIN_KIND, (long) kind.number());
        LONG.set(bytes, at + At.ADMIN_FROM, from);
    }

    /// A sweep of a namespace that was begun after `mark`. It concerns transactions that began at `from` or
    /// later.
    public void swept(long id, long namespace, long mark, long from) {
        int at = begin(Protocol.SWEPT, 0, id, At.SWEPT_END);
        LONG.set(bytes, at + At.SWEPT_MARK, mark);
        LONG.set(bytes, at + At.SWEPT_FROM, from);
        LONG.set(bytes, at + At.SWEPT_NAMESPACE, namespace);
    }

    /// A commit of a transaction that has written the first `writeCount` of `writes`, and has read the first
    /// `readCount` of `reads` if it is to be serialisable.
    public void commit(long id, long start, long[] writes, int writeCount, long[] reads, int readCount) {
        commit(id, start, writes, writeCount, reads, readCount, NO_KEYS);
    }

    /// The same, with keys and ranges of keys.
    public void commit(
            long id, long start, long[] writes, int writeCount, long[] reads, int readCount, CommitKeys keys) {
        int rowsEnd = At.COMMIT_ROWS + (writeCount + readCount) * Long.BYTES;
        int flags = keys.isEmpty() ? 0 : Protocol.FLAG_KEYS;
        int at = begin(Protocol.COMMIT, flags, id, rowsEnd + keys.length());
        LONG.set(bytes, at + At.START, start);
        INT.set(bytes, at + At.COMMIT_WRITES, writeCount);
        INT.set(bytes, at + At.COMMIT_READS, readCount);
        longs(at + At.COMMIT_ROWS, writes, 0, writeCount);
        longs(at + At.COMMIT_ROWS + writeCount * Long.BYTES, reads, 0, readCount);
        if (!keys.isEmpty()) {
            INT.set(bytes, at + rowsEnd, keys.keys());
            INT.set(bytes, at + rowsEnd + Integer.BYTES, keys.ranges());
            keys.copyTo(bytes, at + rowsEnd + At.KEYS_END);
        }
    }

    /// A question of a reader after transactions.
    public void status(long id, long reader, long[] starts, int count) {
        int at = begin(Protocol.STATUS, 0, id, At.STATUS_STARTS + count * Long.BYTES);
        LONG.set(bytes, at + At.STATUS_READER, reader);
        longs(at + At.STATUS_STARTS, starts, 0, count);
    }

    /// A request about several transactions: cleaned, announce.
    public void starts(byte kind, int flags, long id, long[] starts, int from, int count) {
        int at = begin(kind, flags, id, At.BODY + count * Long.BYTES);
        longs(at + At.BODY, starts, from, count);
    }

    /// Begins a batch of so many requests. [#batchStart] then adds the transactions to be ended, those to be
    /// aborted, and those that are clean, in this order; [#batchCommit] adds the commits, and [#endBatch] ends it.
    ///
    /// @return the argument for `endBatch`
    public int beginBatch(long id, int commits, int ends, int aborts, int cleaned, int begins) {
        int at = begin(Protocol.BATCH, 0, id, At.BATCH_STARTS);
        INT.set(bytes, at + At.BATCH_COMMITS, commits);
        INT.set(bytes, at + At.BATCH_ENDS, ends);
        INT.set(bytes, at + At.BATCH_ABORTS, aborts);
        INT.set(bytes, at + At.BATCH_CLEANED, cleaned);
        INT.set(bytes, at + At.BATCH_BEGINS, begins);
        INT.set(bytes, at + At.BATCH_ZERO, 0);
        return at;
    }

    /// Adds the start timestamp of a transaction to a batch.
    public void batchStart(long start) {
        need(Long.BYTES);
        LONG.set(bytes, length, start);
        length += Long.BYTES;
    }

    /// Adds a commit to a batch, which another writer has written as a frame.
    public void batchCommit(FrameWriter commit) {
        int body = commit.length - At.BODY;
        need(At.BATCH_COMMIT_END + body);
        INT.set(bytes, length, body);
        INT.set(bytes, length + Integer.BYTES, commit.bytes[At.FLAGS] & 0xff);
        System.arraycopy(commit.bytes, At.BODY, bytes, length + At.BATCH_COMMIT_END, body);
        length += At.BATCH_COMMIT_END + body;
    }

    /// Ends a batch, all of which was added.
    public void endBatch(int at) {
        INT.set(bytes, at + At.LENGTH, length - at - Integer.BYTES);
    }

    /// A message of an exchange that authenticates the client.
    public void authenticate(long id, Mechanism mechanism, byte[] message) {
        authenticate(Protocol.AUTHENTICATE, 0, id, mechanism, message);
    }

    private void authenticate(byte kind, int flags, long id, Mechanism mechanism, byte[] message) {
        int at = begin(kind, flags, id, At.AUTHENTICATE_MESSAGE + message.length);
        LONG.set(bytes, at + At.AUTHENTICATE_MECHANISM, (long) mechanism.number());
        System.arraycopy(message, 0, bytes, at + At.AUTHENTICATE_MESSAGE, message.length);
    }

    // ---- replies ----------------------------------------------------------------------------------------------------

    /// The reply to a hello. Versions below [Protocol#VERSION_IDENTITY] omit the identity of the oracle, and those
    /// below [Protocol#VERSION_GENERATION] its generation.
    public void welcome(
            long id,
            int version,
            int sessionTimeoutMs,
            int rowsMax,
            int outstandingMax,
            long identity,
            long generation) {
        int at = begin((byte) (Protocol.HELLO | Protocol.REPLY), 0, id, welcomeEnd(version));
        SHORT.set(bytes, at + At.WELCOME_VERSION, (short) version);
        SHORT.set(bytes, at + At.WELCOME_ZERO, (short) 0);
        INT.set(bytes, at + At.WELCOME_TIMEOUT, sessionTimeoutMs);
        INT.set(bytes, at + At.WELCOME_ROWS, rowsMax);
        INT.set(bytes, at + At.WELCOME_OUTSTANDING, outstandingMax);
        if (version >= Protocol.VERSION_IDENTITY) {
            LONG.set(bytes, at + At.WELCOME_IDENTITY, identity);
        }
        if (version >= Protocol.VERSION_GENERATION) {
            LONG.set(bytes, at + At.WELCOME_GENERATION, generation);
        }
    }

    /// Returns the length of the reply to a hello in a version.
    static int welcomeEnd(int version) {
        if (version >= Protocol.VERSION_GENERATION) {
            return At.WELCOME_FULL_END;
        }
        return version >= Protocol.VERSION_IDENTITY ? At.WELCOME_LONG_END : At.WELCOME_END;
    }

    /// The reply to a message of an exchange that authenticates the client: the next message, and whether it is the
    /// last one, because the client is authenticated.
    public void authenticateReply(long id, Mechanism mechanism, byte[] message, boolean isDone) {
        byte kind = (byte) (Protocol.AUTHENTICATE | Protocol.REPLY);
        authenticate(kind, isDone ? Protocol.FLAG_DONE : 0, id, mechanism, message);
    }

    /// A reply without a body, to a request of this kind: ping, close.
    public void done(byte request, long id) {
        begin((byte) (request | Protocol.REPLY), 0, id, At.BODY);
    }

    /// A reply of one number, to a request of this kind.
    public void value(byte request, long id, long value) {
        int at = begin((byte) (request | Protocol.REPLY), 0, id, At.BODY + Long.BYTES);
        LONG.set(bytes, at + At.BODY, value);
    }

    /// A reply of so many numbers, which [#putValue] then puts.
    ///
    /// @return the argument for `putValue`
    public int values(byte request, long id, int count) {
        return begin((byte) (request | Protocol.REPLY), 0, id, At.BODY + count * Long.BYTES) + At.BODY;
    }

    /// Puts a number of the reply that [#values] began.
    public void putValue(int values, int index, long value) {
        LONG.set(bytes, values + index * Long.BYTES, value);
    }

    /// The reply to a sweep: how many transactions were forgotten, and from which on there are more, or 0.
    public void sweptReply(long id, long forgotten, long next) {
        int at = begin((byte) (Protocol.SWEPT | Protocol.REPLY), 0, id, At.SWEPT_SHORT_END);
        LONG.set(bytes, at + At.SWEPT_FORGOTTEN, forgotten);
        LONG.set(bytes, at + At.SWEPT_NEXT, next);
    }

    /// A refusal. A text that is too long is cut.
    public void error(long id, int flags, ErrorCode code, String text) {
        byte[] coded = text.getBytes(StandardCharsets.UTF_8);
        int count = coded.length;
        if (count > TEXT_BYTES_MAX) {
            count = TEXT_BYTES_MAX;
            while ((coded[count] & 0xc0) == 0x80) {
                count--; // not within a character
            }
        }
        int at = begin(Protocol.ERROR, flags, id, At.ERROR_TEXT + count);
        SHORT.set(bytes, at + At.ERROR_CODE, (short) code.number());
        SHORT.set(bytes, at + At.ERROR_LENGTH, (short) count);
        System.arraycopy(coded, 0, bytes, at + At.ERROR_TEXT, count);
    }

    // ---- within -----------------------------------------------------------------------------------------------------

    private int begin(byte kind, int flags, long id, int count) {
        need(count);
        int at = length;
        length += count;
        INT.set(bytes, at + At.LENGTH, count - Integer.BYTES);
        bytes[at + At.KIND] = kind;
        bytes[at + At.FLAGS] = (byte) flags;
        SHORT.set(bytes, at + At.ZERO, (short) 0);
        LONG.set(bytes, at + At.ID, id);
        return at;
    }

    private void longs(int at, long[] from, int first, int count) {
        for (int index = 0; index < count; index++) {
            LONG.set(bytes, at + index * Long.BYTES, from[first + index]);
        }
    }

    private void need(int more) {
        if (bytes.length - length < more) {
            bytes = Arrays.copyOf(bytes, Math.max(2 * bytes.length, length + more));
        }
    }
}
