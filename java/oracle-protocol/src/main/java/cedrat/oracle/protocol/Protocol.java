package cedrat.oracle.protocol;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.nio.ByteOrder;

/// The numbers of the protocol, versions 1 to 4 (drawn in docs/formats/oracle-protocol.md). A number once used
/// keeps its meaning.
///
/// ```text
/// frame    LENGTH 4 | KIND 1 | FLAGS 1 | 0 2 | ID 8 | body
/// ```
public final class Protocol {
    /// The first eight bytes of the first body on a connection: `CEDRATOR`.
    public static final long MAGIC = 0x524f_5441_5244_4543L;

    /// The newest version that this program speaks.
    public static final int VERSION = 4;

    /// The oldest version that this program speaks.
    public static final int VERSION_LOWEST = 1;

    /// The first version in which the outcome of an aborted transaction states the reason.
    public static final int VERSION_REASONS = 2;

    /// The first version in which a hello and its reply state the identity of the oracle.
    public static final int VERSION_IDENTITY = 3;

    /// The first version in which a hello and its reply state the generation of the oracle.
    public static final int VERSION_GENERATION = 4;

    /// The first version with [#BATCH].
    public static final int VERSION_BATCH = 4;

    /// Identity in a hello of a client that has reached no oracle yet. No oracle has it, nor is it the number of a
    /// generation.
    public static final long IDENTITY_NONE = 0;

    /// The longest frame, in bytes, its length included.
    public static final int FRAME_BYTES_MAX = 1 << 20;

    /// The longest frame before the reply to a hello, in bytes, its length included. A connection that has
    /// authenticated itself not yet takes no more memory.
    public static final int FIRST_FRAME_BYTES_MAX = 1 << 16;

    /// Bytes of a frame before its body.
    public static final int HEADER_BYTES = 16;

    /// The most rows that fit a commit.
    public static final int ROWS_MAX = (FRAME_BYTES_MAX - HEADER_BYTES - 16) / Long.BYTES;

    /// The most ranges of keys that a commit may have: each is compared with all keys that were written
    /// meanwhile.
    public static final int RANGES_MAX = 64;

    /// The longest key, in bytes.
    public static final int KEY_BYTES_MAX = Short.MAX_VALUE;

    /// The most timestamps that fit a question or an announcement.
    public static final int STARTS_MAX = (FRAME_BYTES_MAX - HEADER_BYTES - 8) / Long.BYTES;

    /// The most requests, and transactions that are clean, in a batch.
    public static final int BATCH_MAX = 1024;

    /// The most numbers in the reply to an administrator's request.
    public static final int ADMIN_VALUES_MAX = 1 << 11;

    /// Timestamps lie between 1 and this one.
    public static final long TIMESTAMP_MAX = (1L << 62) - 1;

    /// The least id that no row has. Kept for later versions, as [#ROW_HIGHEST].
    public static final long ROW_NONE = 0;

    /// The id with all bits set, which no row has.
    public static final long ROW_HIGHEST = -1;

    /// Opens or resumes a session; the first frame on a connection.
    public static final byte HELLO = 1;
    /// Begins a transaction.
    public static final byte BEGIN = 2;
    /// Commits a transaction.
    public static final byte COMMIT = 3;
    /// Aborts a transaction because its client wants so.
    public static final byte ABORT = 4;
    /// Ends a transaction that has written nothing.
    public static final byte END = 5;
    /// Asks what became of transactions, on behalf of a reader (the paper's isCommitted).
    public static final byte STATUS = 6;
    /// Decides a transaction whose client may be dead.
    public static final byte RESOLVE = 7;
    /// Says that no row of some transactions needs cleaning any more.
    public static final byte CLEANED = 8;
    /// Asks nothing: the client lives.
    public static final byte PING = 9;
    /// Asks for the low-water mark.
    public static final byte LOW_WATER = 10;
    /// Says which transactions a resumed session still has.
    public static final byte ANNOUNCE = 11;
    /// Closes the session: its open transactions abort.
    public static final byte CLOSE = 12;
    /// Says that all tables of a namespace were swept.
    public static final byte SWEPT = 13;
    /// Says that the client writes rows of a namespace.
    public static final byte NAMESPACE = 14;
    /// Reads a part of the server's state, or ends a session, for an administrator ([AdminKind]).
    public static final byte ADMIN = 15;

    /// Commits, ends, aborts and begins several transactions, and reports clean ones.
    public static final byte BATCH = 16;

    /// A message of an exchange that authenticates the client, before the hello.
    public static final byte AUTHENTICATE = 17;

    /// Added to a request's kind: the kind of its reply.
    public static final int REPLY = 0x80;
    /// The kind of a reply that refuses.
    public static final byte ERROR = (byte) 0xff;

    /// With [#COMMIT]: behind its rows there are keys and ranges of keys.
    public static final int FLAG_KEYS = 1;
    /// With [#ANNOUNCE]: there are no more; what was not announced aborts.
    public static final int FLAG_LAST = 1;
    /// With [#NAMESPACE]: the rows of the namespace end with the sessions that use it.
    public static final int FLAG_VOLATILE = 1;
    /// With [#NAMESPACE]: it has no rows any more that need an outcome.
    public static final int FLAG_RETIRED = 2;
    /// With the reply to [#AUTHENTICATE]: the client is authenticated.
    public static final int FLAG_DONE = 1;
    /// With [#ERROR]: the server closes the connection behind it.
    public static final int FLAG_CLOSING = 1;

    /// Outcome: the transaction has aborted, and the reason is not known any more, or the peer speaks a version
    /// without reasons. An outcome above 0 is a commit timestamp.
    public static final long ABORTED = -1;
    /// Outcome: nothing is known of the transaction any more.
    public static final long UNKNOWN = -2;
    /// Outcome: the transaction is open.
    public static final long OPEN = -3;
    /// Outcome: aborted, because a row that it has written or read was committed since it began.
    public static final long ABORTED_CONFLICT = -4;
    /// Outcome: aborted, because such a row may have been committed, and the server no longer knows.
    public static final long ABORTED_FORGOTTEN = -5;
    /// Outcome: aborted, because a key in a range that it has scanned was written, or may have been.
    public static final long ABORTED_SCAN = -6;
    /// Outcome: aborted on request of its client, or of another.
    public static final long ABORTED_RESOLVED = -7;
    /// Outcome: aborted, because its session is over, or its client did not announce it after a
    /// reconnection.
    public static final long ABORTED_EXPIRED = -8;
    /// The lowest number of an outcome.
    static final long OUTCOME_MIN = ABORTED_EXPIRED;

    static final VarHandle LONG = MethodHandles.byteArrayViewVarHandle(long[].class, ByteOrder.LITTLE_ENDIAN);
    static final VarHandle INT = MethodHandles.byteArrayViewVarHandle(int[].class, ByteOrder.LITTLE_ENDIAN);
    static final VarHandle SHORT = MethodHandles.byteArrayViewVarHandle(short[].class, ByteOrder.LITTLE_ENDIAN);

    /// Where things are, in bytes from the beginning of a frame.
    static final class At {
        static final int LENGTH = 0;
        static final int KIND = 4;
        static final int FLAGS = 5;
        static final int ZERO = 6;
        static final int ID = 8;
        static final int BODY = HEADER_BYTES;

        static final int HELLO_MAGIC = BODY;
        static final int HELLO_LOWEST = BODY + 8;
        static final int HELLO_HIGHEST = BODY + 10;
        static final int HELLO_ZERO = BODY + 12;
        static final int HELLO_SESSION = BODY + 16;
        /// End of a hello without versions from [Protocol#VERSION_IDENTITY] on.
        static final int HELLO_END = BODY + 24;
        static final int HELLO_IDENTITY = BODY + 24;
        /// End of a hello without versions from [Protocol#VERSION_GENERATION] on.
        static final int HELLO_LONG_END = BODY + 32;
        static final int HELLO_GENERATION = BODY + 32;
        static final int HELLO_FULL_END = BODY + 40;

        static final int START = BODY;
        static final int START_END = BODY + 8;

        static final int SWEPT_MARK = BODY;
        static final int SWEPT_FROM = BODY + 8;
        static final int SWEPT_NAMESPACE = BODY + 16;
        static final int SWEPT_END = BODY + 24;
        /// End of a request of version 1, which has no namespaces, and of a reply.
        static final int SWEPT_SHORT_END = BODY + 16;

        static final int SWEPT_FORGOTTEN = BODY;
        static final int SWEPT_NEXT = BODY + 8;

        static final int COMMIT_WRITES = BODY + 8;
        static final int COMMIT_READS = BODY + 12;
        static final int COMMIT_ROWS = BODY + 16;

        static final int KEYS_END = 8;

        static final int BATCH_COMMITS = BODY;
        static final int BATCH_ENDS = BODY + 4;
        static final int BATCH_ABORTS = BODY + 8;
        static final int BATCH_CLEANED = BODY + 12;
        static final int BATCH_BEGINS = BODY + 16;
        static final int BATCH_ZERO = BODY + 20;
        static final int BATCH_STARTS = BODY + 24;
        /// Bytes in front of a commit of a batch: length of what follows, and flags.
        static final int BATCH_COMMIT_END = 8;

        static final int STATUS_READER = BODY;
        static final int STATUS_STARTS = BODY + 8;

        static final int ADMIN_KIND = BODY;
        static final int ADMIN_ZERO = BODY + 2;
        static final int ADMIN_FROM = BODY + 8;
        static final int ADMIN_END = BODY + 16;

        static final int AUTHENTICATE_MECHANISM = BODY;
        static final int AUTHENTICATE_ZERO = BODY + 2;
        static final int AUTHENTICATE_MESSAGE = BODY + 8;

        static final int WELCOME_VERSION = BODY;
        static final int WELCOME_ZERO = BODY + 2;
        static final int WELCOME_TIMEOUT = BODY + 4;
        static final int WELCOME_ROWS = BODY + 8;
        static final int WELCOME_OUTSTANDING = BODY + 12;
        /// End of the reply in versions below [Protocol#VERSION_IDENTITY].
        static final int WELCOME_END = BODY + 16;
        static final int WELCOME_IDENTITY = BODY + 16;
        /// End of the reply in versions below [Protocol#VERSION_GENERATION].
        static final int WELCOME_LONG_END = BODY + 24;
        static final int WELCOME_GENERATION = BODY + 24;
        static final int WELCOME_FULL_END = BODY + 32;

        static final int ERROR_CODE = BODY;
        static final int ERROR_LENGTH = BODY + 2;
        static final int ERROR_TEXT = BODY + 4;

        private At() {}
    }

    private Protocol() {}

    /// Whether this outcome means: committed before a reader that began at `reader` (Algorithm 4's true).
    public static boolean isCommittedBefore(long outcome, long reader) {
        return outcome > 0 && outcome < reader;
    }

    /// Whether this outcome is an abort, whatever the reason.
    public static boolean isAborted(long outcome) {
        return outcome == ABORTED || outcome <= ABORTED_CONFLICT && outcome >= OUTCOME_MIN;
    }

    /// Whether no row may have this id.
    public static boolean isReservedRow(long row) {
        return row == ROW_NONE || row == ROW_HIGHEST;
    }

    static boolean isTimestamp(long number) {
        return number > 0 && number <= TIMESTAMP_MAX;
    }

    static long getLong(byte[] bytes, int at) {
        return (long) LONG.get(bytes, at);
    }

    static int getInt(byte[] bytes, int at) {
        return (int) INT.get(bytes, at);
    }

    static int getShort(byte[] bytes, int at) {
        return (short) SHORT.get(bytes, at) & 0xffff;
    }
}
