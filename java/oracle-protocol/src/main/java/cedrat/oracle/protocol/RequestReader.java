package cedrat.oracle.protocol;

import cedrat.oracle.protocol.Protocol.At;

/// Reads requests, as a server does. For one thread at a time.
public final class RequestReader extends FrameReader {
    private final int rowsMax;
    private int startsAt;
    private int starts;
    /// The next commit of a batch, and a reader of it while the batch is checked.
    private int commitAt;
    private RequestReader commit;
    private long newest;

    /// A reader that takes so many rows with one commit, at most [Protocol#ROWS_MAX].
    public RequestReader(int rowsMax) {
        this.rowsMax = rowsMax;
    }

    @Override
    void check() throws ProtocolException {
        switch (kind()) {
            case Protocol.HELLO:
                checkHello();
                break;
            case Protocol.BEGIN:
            case Protocol.PING:
            case Protocol.LOW_WATER:
            case Protocol.CLOSE:
                checkFlags(0);
                checkLength(At.BODY);
                break;
            case Protocol.ABORT:
            case Protocol.END:
            case Protocol.RESOLVE:
                checkFlags(0);
                checkLength(At.START_END);
                checkTimestamp(start());
                break;
            case Protocol.NAMESPACE:
                checkFlags(Protocol.FLAG_VOLATILE | Protocol.FLAG_RETIRED);
                checkLength(At.START_END);
                break;
            case Protocol.ADMIN:
                checkAdmin();
                break;
            case Protocol.AUTHENTICATE:
                checkFlags(0);
                checkAuthenticate();
                break;
            case Protocol.COMMIT:
                checkCommit();
                break;
            case Protocol.BATCH:
                checkBatch();
                break;
            case Protocol.SWEPT:
                checkFlags(0);
                if (length != At.SWEPT_SHORT_END) {
                    checkLength(At.SWEPT_END);
                }
                checkTimestamp(mark());
                checkTimestamp(from());
                break;
            case Protocol.STATUS:
                checkFlags(0);
                checkStarts(At.STATUS_STARTS, 1);
                checkTimestamp(reader());
                break;
            case Protocol.CLEANED:
                checkFlags(0);
                checkStarts(At.BODY, 1);
                break;
            case Protocol.ANNOUNCE:
                checkFlags(Protocol.FLAG_LAST);
                checkStarts(At.BODY, 0);
                break;
            default:
                throw refused(ErrorCode.UNSUPPORTED, "unknown kind of request " + (kind() & 0xff));
        }
    }

    private void checkHello() throws ProtocolException {
        // The layout of a hello is the same in every version: a later client must learn which version is
        // spoken here.
        if (length < At.HELLO_END || longAt(At.HELLO_MAGIC) != Protocol.MAGIC) {
            throw malformed("invalid hello: it has another magic number");
        }
        if (versionLowest() > versionHighest()) {
            throw malformed("invalid hello: versions from " + versionLowest() + " to " + versionHighest());
        }
        if (versionLowest() > Protocol.VERSION || versionHighest() < Protocol.VERSION_LOWEST) {
            throw new ProtocolException(
                    ErrorCode.VERSION,
                    0,
                    "the client supports versions " + versionLowest() + " to " + versionHighest()
                            + " of the protocol, and the server versions " + Protocol.VERSION_LOWEST + " to "
                            + Protocol.VERSION);
        }
        if (session() == 0) {
            throw malformed("invalid hello: session 0");
        }
        int end = FrameWriter.helloEnd(versionHighest());
        if (length < end) {
            throw malformed("invalid hello: version " + versionHighest() + " with " + length + " bytes; at least " + end
                    + " are expected");
        }
    }

    private void checkAdmin() throws ProtocolException {
        checkFlags(0);
        checkLength(At.ADMIN_END);
        if (adminKind() == null) {
            throw refused(
                    ErrorCode.UNSUPPORTED,
                    "unknown kind of an administrator's request: " + Protocol.getShort(bytes, at + At.ADMIN_KIND));
        }
        if ((longAt(At.ADMIN_KIND) & ~0xffffL) != 0) {
            throw refused(ErrorCode.UNSUPPORTED, "invalid administrator's request: reserved bytes are not zero");
        }
    }

    private void checkCommit() throws ProtocolException {
        checkFlags(Protocol.FLAG_KEYS);
        if (length < At.COMMIT_ROWS) {
            throw malformed("a commit of " + length + " bytes");
        }
        long all = Integer.toUnsignedLong(writes()) + Integer.toUnsignedLong(reads());
        long end = At.COMMIT_ROWS + all * Long.BYTES;
        if (hasKeys() ? end + At.KEYS_END > length : end != length) {
            throw malformed("a commit of " + all + " rows with " + length + " bytes");
        }
        if (hasKeys()) {
            checkKeys((int) end);
        }
        if (all > rowsMax) {
            throw refused(ErrorCode.TOO_MANY_ROWS, "a commit of " + all + " rows; this server takes " + rowsMax);
        }
        checkTimestamp(start());
        for (int row = 0; row < all; row++) {
            if (Protocol.isReservedRow(row(row))) {
                throw refused(
                        ErrorCode.RESERVED_ROW,
                        "row " + row + " of a commit has the id " + Long.toHexString(row(row)) + ", which no row has");
            }
        }
    }

    /// All of a batch is checked before any of it is decided.
    private void checkBatch() throws ProtocolException {
        checkFlags(0);
        if (length < At.BATCH_STARTS) {
            throw malformed("a batch of " + length + " bytes");
        }
        long clean = batchCount(At.BATCH_CLEANED);
        long about = batchCount(At.BATCH_ENDS) + batchCount(At.BATCH_ABORTS) + clean;
        long commits = batchCount(At.BATCH_COMMITS);
        long all = commits + about + batchCount(At.BATCH_BEGINS);
        if (all == 0 || all > Protocol.BATCH_MAX || At.BATCH_STARTS + about * Long.BYTES > length) {
            throw malformed("a batch of " + all + " requests with " + length + " bytes");
        }
        if (Protocol.getInt(bytes, at + At.BATCH_ZERO) != 0) {
            throw refused(ErrorCode.UNSUPPORTED, "invalid batch: reserved bytes are not zero");
        }
        startsAt = At.BATCH_STARTS;
        starts = (int) about;
        newest = 0;
        for (int index = 0; index < starts; index++) {
            checkTimestamp(start(index));
            newest = Math.max(newest, start(index));
        }
        int next = At.BATCH_STARTS + starts * Long.BYTES;
        commitAt = next;
        for (; commits > 0; commits--) {
            next = checkCommit(next);
        }
        if (next != length) {
            throw malformed("a batch that ends at " + next + " of " + length + " bytes");
        }
    }

    private long batchCount(int offset) {
        return Integer.toUnsignedLong(Protocol.getInt(bytes, at + offset));
    }

    /// Checks a commit of a batch; returns its end.
    private int checkCommit(int from) throws ProtocolException {
        int body = from + At.BATCH_COMMIT_END;
        int bodyLength = body <= length ? Protocol.getInt(bytes, at + from) : -1;
        if (bodyLength < 0 || bodyLength > length - body) {
            throw malformed("a batch with a commit from " + from + " on, and " + length + " bytes");
        }
        if (commit == null) {
            commit = new RequestReader(rowsMax);
        }
        openCommit(from, commit);
        try {
            commit.checkCommit();
        } catch (ProtocolException wrong) {
            throw wrong.isFatal() ? wrong : refused(wrong.code(), wrong.getMessage());
        }
        newest = Math.max(newest, commit.start());
        return body + bodyLength;
    }

    private void openCommit(int from, RequestReader to) {
        int flags = Protocol.getInt(bytes, at + from + Integer.BYTES);
        to.openWithin(
                bytes, at + from + At.BATCH_COMMIT_END, Protocol.getInt(bytes, at + from), Protocol.COMMIT, flags);
    }

    /// Keys and ranges of a commit, whose counts are at `counts`: their lengths lead exactly to the end of
    /// the frame.
    private void checkKeys(int counts) throws ProtocolException {
        long keys = Integer.toUnsignedLong(Protocol.getInt(bytes, at + counts));
        long ranges = Integer.toUnsignedLong(Protocol.getInt(bytes, at + counts + Integer.BYTES));
        int next = counts + At.KEYS_END;
        for (long key = 0; key < keys; key++) {
            next = behindKeys(next, 1);
        }
        for (long range = 0; range < ranges; range++) {
            next = behindKeys(next, 2);
        }
        if (next != length) {
            throw malformed("a commit whose keys end at " + next + " of " + length + " bytes");
        }
        if (keys > rowsMax || ranges > Protocol.RANGES_MAX) {
            throw refused(
                    ErrorCode.TOO_MANY_ROWS,
                    "a commit of " + keys + " keys and " + ranges + " ranges of keys; this server takes " + rowsMax
                            + " and " + Protocol.RANGES_MAX);
        }
    }

    /// The end of what begins at `from`: a table and one or two keys, their lengths first.
    private int behindKeys(int from, int count) throws ProtocolException {
        int end = from + Long.BYTES + count * Short.BYTES;
        int keysEnd = end;
        for (int key = 0; key < count && end <= length; key++) {
            int keyLength = Protocol.getShort(bytes, at + from + Long.BYTES + key * Short.BYTES);
            keysEnd += keyLength;
            if (keyLength > Protocol.KEY_BYTES_MAX) {
                throw malformed("a key of " + keyLength + " bytes; at most " + Protocol.KEY_BYTES_MAX + " are taken");
            }
        }
        if (keysEnd > length) {
            throw malformed("a commit of which a key goes up to " + keysEnd + " of " + length + " bytes");
        }
        return keysEnd;
    }

    private void checkStarts(int from, int min) throws ProtocolException {
        startsAt = from;
        starts = checkLongs(from, min);
        for (int index = 0; index < starts; index++) {
            checkTimestamp(start(index));
        }
    }

    private void checkTimestamp(long number) throws ProtocolException {
        if (!Protocol.isTimestamp(number)) {
            throw refused(ErrorCode.TIMESTAMP, "invalid timestamp " + Long.toUnsignedString(number));
        }
    }

    /// Returns, for a hello, the oldest version that the client speaks.
    public int versionLowest() {
        return Protocol.getShort(bytes, at + At.HELLO_LOWEST);
    }

    /// Returns, for a hello, the newest version that the client speaks.
    public int versionHighest() {
        return Protocol.getShort(bytes, at + At.HELLO_HIGHEST);
    }

    /// Returns, for a hello, the newest version that both speak.
    public int version() {
        return Math.min(versionHighest(), Protocol.VERSION);
    }

    /// Returns, for a hello, the number of the session, which the client has drawn at random.
    public long session() {
        return longAt(At.HELLO_SESSION);
    }

    /// Returns, for a hello, the identity of the oracle that the client knows; [Protocol#IDENTITY_NONE] if it
    /// knows none, or speaks no version with identities.
    public long identity() {
        return versionHighest() >= Protocol.VERSION_IDENTITY ? longAt(At.HELLO_IDENTITY) : Protocol.IDENTITY_NONE;
    }

    /// Returns, for a hello, the generation of the oracle that the client knows; [Protocol#IDENTITY_NONE] if it
    /// knows none, or speaks no version with generations.
    public long generation() {
        return versionHighest() >= Protocol.VERSION_GENERATION ? longAt(At.HELLO_GENERATION) : Protocol.IDENTITY_NONE;
    }

    /// Returns, for a request about one transaction, its start timestamp.
    public long start() {
        return longAt(At.START);
    }

    /// Returns, for a sweep, a timestamp that was given out before it was begun.
    public long mark() {
        return longAt(At.SWEPT_MARK);
    }

    /// Returns, for a sweep, the start timestamp from which on transactions are to be forgotten.
    public long from() {
        return longAt(At.SWEPT_FROM);
    }

    /// Returns, for a sweep, the namespace whose tables were swept; 0 if it names none.
    public long sweptNamespace() {
        return length == At.SWEPT_SHORT_END ? 0 : longAt(At.SWEPT_NAMESPACE);
    }

    /// Returns, for a [Protocol#NAMESPACE], the namespace.
    public long namespace() {
        return longAt(At.BODY);
    }

    /// Returns, for an administrator's request, its kind.
    public AdminKind adminKind() {
        return AdminKind.of(Protocol.getShort(bytes, at + At.ADMIN_KIND));
    }

    /// Returns, for an administrator's request, what it begins at, or the session that it names.
    public long adminFrom() {
        return longAt(At.ADMIN_FROM);
    }

    /// Returns, for a commit, the number of written rows.
    public int writes() {
        return Protocol.getInt(bytes, at + At.COMMIT_WRITES);
    }

    /// Returns, for a commit, the number of read rows, if the transaction is to be serialisable.
    public int reads() {
        return Protocol.getInt(bytes, at + At.COMMIT_READS);
    }

    /// Returns, for a commit, the id of a row; those written come first, then those read.
    public long row(int index) {
        return longAt(At.COMMIT_ROWS + index * Long.BYTES);
    }

    /// Whether a commit has keys or ranges of keys.
    public boolean hasKeys() {
        return (flags() & Protocol.FLAG_KEYS) != 0;
    }

    /// Receives the keys of a commit. They lie in `bytes`, which belong to the reader.
    public interface KeyListener {
        /// A key was written.
        void wrote(long table, byte[] bytes, int from, int length);

        /// A range was scanned.
        void scanned(long table, byte[] bytes, int from, int fromLength, int to, int toLength);
    }

    /// Reports the keys of a commit, in their order.
    public void tellKeys(KeyListener to) {
        int counts = at + At.COMMIT_ROWS + (writes() + reads()) * Long.BYTES;
        int next = counts + At.KEYS_END;
        for (int key = Protocol.getInt(bytes, counts); key > 0; key--) {
            int from = next + Long.BYTES + Short.BYTES;
            int keyLength = Protocol.getShort(bytes, next + Long.BYTES);
            to.wrote(Protocol.getLong(bytes, next), bytes, from, keyLength);
            next = from + keyLength;
        }
        for (int range = Protocol.getInt(bytes, counts + Integer.BYTES); range > 0; range--) {
            int from = next + Long.BYTES + 2 * Short.BYTES;
            int fromLength = Protocol.getShort(bytes, next + Long.BYTES);
            int toLength = Protocol.getShort(bytes, next + Long.BYTES + Short.BYTES);
            to.scanned(Protocol.getLong(bytes, next), bytes, from, fromLength, from + fromLength, toLength);
            next = from + fromLength + toLength;
        }
    }

    /// Returns, for a batch, the number of transactions to be committed.
    public int commits() {
        return Protocol.getInt(bytes, at + At.BATCH_COMMITS);
    }

    /// Returns, for a batch, the number of transactions to be ended: the first ones of [#start(int)].
    public int ends() {
        return Protocol.getInt(bytes, at + At.BATCH_ENDS);
    }

    /// Returns, for a batch, the number of transactions to be aborted, which follow those to be ended. The others are
    /// clean.
    public int aborts() {
        return Protocol.getInt(bytes, at + At.BATCH_ABORTS);
    }

    /// Returns, for a batch, the number of transactions to be begun.
    public int begins() {
        return Protocol.getInt(bytes, at + At.BATCH_BEGINS);
    }

    /// Returns, for a batch, the newest start timestamp in it; 0 if it has none.
    public long newest() {
        return newest;
    }

    /// Opens the next commit of a batch: once for each of [#commits].
    public void nextCommit(RequestReader to) {
        openCommit(commitAt, to);
        commitAt += At.BATCH_COMMIT_END + Protocol.getInt(bytes, at + commitAt);
    }

    /// Returns, for a question, the start timestamp of the reader.
    public long reader() {
        return longAt(At.STATUS_READER);
    }

    /// Returns, for a request about several transactions, their number.
    public int starts() {
        return starts;
    }

    /// Returns, for a request about several transactions, the start timestamp of one.
    public long start(int index) {
        return longAt(startsAt + index * Long.BYTES);
    }
}
