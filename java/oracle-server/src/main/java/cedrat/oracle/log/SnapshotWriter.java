package cedrat.oracle.log;

import static cedrat.oracle.log.EntryBytes.LONG;
import static cedrat.oracle.log.EntryBytes.VARINT_BYTES_MAX;

import cedrat.oracle.state.Lifetime;
import cedrat.oracle.state.Remembered;
import cedrat.oracle.state.StatusOracle;

/// Writes what an oracle remembers of its transactions into entries of the log: parts of a snapshot (O5).
///
/// ```text
/// part         version 2 | taken 8 | position 8 | committed 8 | from 8 | end 8 | newest 8 | fact * | transaction *
/// fact         identified | restored | used | pruned
/// identified   6 | identity 8
/// restored     7 | generation 8
/// used         5 | namespace 8
/// pruned       4 | up to varint
/// transaction  open | committed | aborted
/// open         1 | start varint | age varint
/// committed    2 | start varint | lasted varint
/// aborted      3 | start varint
/// ```
///
/// `taken`, `position` and `committed` are the oracle's newest timestamp, position and newest commit when the
/// snapshot was begun, the same in all its parts. A part tells of the transactions that began from `from` up
/// to `end`, which is not of it, as they were when `newest` was the newest timestamp. The first part begins
/// at 1, each other one at the end of the one before, and the last ends behind `taken`. `start` counts from
/// the start timestamp before it, the first from the timestamp below `from`; `age` is `position` less the
/// oracle's position when the transaction began; `lasted` is the commit timestamp less the start timestamp.
///
/// A part stands in the log behind all that was decided before it and in front of all that was decided after
/// it, so it is written while no batch is begun. In between, the oracle goes on: a part is short, whatever
/// the oracle remembers. For one thread at a time.
public final class SnapshotWriter {
    static final byte VERSION = 2;
    static final byte OPEN = 1;
    static final byte COMMITTED = 2;
    static final byte ABORTED = 3;
    static final byte PRUNED = 4;
    static final byte USED = 5;
    static final byte IDENTIFIED = 6;
    static final byte RESTORED = 7;

    static final int TAKEN_AT = 1;
    static final int POSITION_AT = TAKEN_AT + Long.BYTES;
    static final int COMMITTED_AT = POSITION_AT + Long.BYTES;
    static final int FROM_AT = COMMITTED_AT + Long.BYTES;
    static final int END_AT = FROM_AT + Long.BYTES;
    static final int NEWEST_AT = END_AT + Long.BYTES;
    static final int HEADER_BYTES = NEWEST_AT + Long.BYTES;

    /// A million transactions that have committed, half of all timestamps in a row, are 245 parts and 3 MB,
    /// and each part is written in 40 microseconds; all at once would take 10 milliseconds.
    private static final int TRANSACTIONS_MAX = 4096;

    private static final int TRANSACTION_BYTES_MAX = 1 + 2 * VARINT_BYTES_MAX;

    private final StatusOracle oracle;
    private final int transactionsMax;
    private final byte[] bytes;
    private final Remembered put = new Putting();
    private int length;

    private long taken;
    private long position;
    private long committed;
    private long from;
    private long last;

    /// A writer of this oracle's snapshots, of which none is begun.
    public SnapshotWriter(StatusOracle oracle) {
        this(oracle, TRANSACTIONS_MAX);
    }

    /// The same, with parts of at most so many transactions.
    SnapshotWriter(StatusOracle oracle, int transactionsMax) {
        this.oracle = oracle;
        this.transactionsMax = transactionsMax;
        int factsBytes = (3 + StatusOracle.NAMESPACES_MAX) * (1 + Long.BYTES) + 1 + VARINT_BYTES_MAX;
        bytes = new byte[HEADER_BYTES + factsBytes + transactionsMax * TRANSACTION_BYTES_MAX];
        from = 1;
        taken = -1;
    }

    /// Begins a snapshot. The first part has to be written before the oracle decides anything else.
    public void begin() {
        taken = oracle.newest();
        position = oracle.position();
        committed = oracle.newestCommit();
        from = 1;
        length = 0;
    }

    /// Whether parts are left to be written.
    public boolean hasMore() {
        return from <= taken || length == 0 && taken == 0;
    }

    /// The oracle's position when the snapshot was begun.
    public long position() {
        return position;
    }

    /// Writes the next part; there is one.
    public void part() {
        assert hasMore() : "all parts are written";
        bytes[0] = VERSION;
        LONG.set(bytes, TAKEN_AT, taken);
        LONG.set(bytes, POSITION_AT, position);
        LONG.set(bytes, COMMITTED_AT, committed);
        LONG.set(bytes, FROM_AT, from);
        length = HEADER_BYTES;
        last = from - 1;
        from = oracle.tell(from, taken, transactionsMax, put);
        LONG.set(bytes, END_AT, from);
        LONG.set(bytes, NEWEST_AT, oracle.newest());
    }

    /// The bytes of the part, of which [#length] count. Overwritten by the next one.
    public byte[] bytes() {
        return bytes;
    }

    /// Returns the length of the part in bytes.
    public int length() {
        return length;
    }

    private final class Putting implements Remembered {
        @Override
        public void identified(long identity) {
            putNumber(IDENTIFIED, identity);
        }

        @Override
        public void restored(long generation) {
            putNumber(RESTORED, generation);
        }

        @Override
        public void used(long namespace) {
            putNumber(USED, namespace);
        }

        private void putNumber(byte kind, long number) {
            bytes[length++] = kind;
            LONG.set(bytes, length, number);
            length += Long.BYTES;
        }

        @Override
        public void pruned(long upTo) {
            bytes[length++] = PRUNED;
            length = EntryBytes.putVarint(bytes, length, upTo);
        }

        @Override
        public void open(long start, long positionAtStart) {
            putStart(OPEN, start);
            length = EntryBytes.putVarint(bytes, length, position - positionAtStart);
        }

        @Override
        public void committed(Lifetime lifetime) {
            putStart(COMMITTED, lifetime.start());
            length = EntryBytes.putVarint(bytes, length, lifetime.length());
        }

        @Override
        public void aborted(long start) {
            putStart(ABORTED, start);
        }

        private void putStart(byte kind, long start) {
            bytes[length++] = kind;
            length = EntryBytes.putVarint(bytes, length, start - last);
            last = start;
        }
    }
}
