package cedrat.oracle.log;

import static cedrat.oracle.log.EntryBytes.LONG;
import static cedrat.oracle.log.EntryBytes.VARINT_BYTES_MAX;

import cedrat.oracle.state.Decisions;
import cedrat.oracle.state.Keys;
import cedrat.oracle.state.Rows;
import java.util.Arrays;

/// Puts decisions into an entry of the log, as they are made. The other kind of entry is a part of a snapshot
/// ([SnapshotWriter]).
///
/// ```text
/// entry      version 1 | before 8 | newest 8 | decision *
/// decision   committed | aborted | ended | forgotten | wrote | pruned | used | retired | identified
/// committed  1 | commit varint | lasted varint | count varint | row 8 *
/// aborted    2 | start varint
/// ended      3 | start varint
/// forgotten  4 | start varint
/// wrote      5 | count varint | key *
/// pruned     6 | start varint
/// used       7 | namespace 8
/// retired    8 | namespace 8
/// identified 9 | identity 8
/// key        table 8 | length varint | byte *
/// ```
///
/// Numbers of fixed length are little-endian; a varint has seven bits in each byte, the lowest first, and the
/// highest bit of all but the last is set. `before` and `newest` are the newest timestamps that were given
/// out when the entry was begun and when it was closed: a timestamp in between that is no commit's began a
/// transaction. `commit` counts from `before`, or from the commit before it in the entry; `lasted` is the
/// commit timestamp less the start timestamp; `start` is `before` less the start timestamp, twice, or where
/// that is negative twice the difference less one. `wrote` follows the `committed` whose keys it has.
///
/// An entry without decisions says how far timestamps were given out.
///
/// The decisions on one request may be of any length: with a session a million transactions may abort. So
/// that an entry does not become too long ([#whenFull]), the owner of the writer closes it in between and
/// begins another. For one thread at a time.
public final class EntryWriter implements Decisions {
    static final byte VERSION = 1;
    static final byte COMMITTED = 1;
    static final byte ABORTED = 2;
    static final byte ENDED = 3;
    static final byte FORGOTTEN = 4;
    static final byte WROTE = 5;
    static final byte PRUNED = 6;
    static final byte USED = 7;
    static final byte RETIRED = 8;
    static final byte IDENTIFIED = 9;

    /// An entry gives out no more timestamps. A server closes a batch at a sixteenth of that.
    static final int TIMESTAMPS_MAX = 1 << 16;

    static final int BEFORE_AT = 1;
    static final int NEWEST_AT = BEFORE_AT + Long.BYTES;
    static final int HEADER_BYTES = NEWEST_AT + Long.BYTES;

    private byte[] bytes = new byte[64 << 10];
    private int length;
    private long before;
    private long base;
    private int fullBytes = Integer.MAX_VALUE;
    private Runnable full = () -> {};

    /// An entry that has to be begun.
    public EntryWriter() {}

    /// Begins an entry, when `newest` is the newest timestamp that was given out. The one before is
    /// overwritten.
    public void begin(long newest) {
        before = newest;
        base = newest;
        bytes[0] = VERSION;
        LONG.set(bytes, BEFORE_AT, newest);
        length = HEADER_BYTES;
    }

    /// From now on an entry of so many bytes is full: `full` closes it, does with it what is to be done, and
    /// begins another. It is called in front of a decision on one transaction, but not of a commit, whose
    /// timestamp is given out already: of these a request has one, and is no longer than a frame.
    public void whenFull(int bytes, Runnable full) {
        fullBytes = bytes;
        this.full = full;
    }

    /// Closes the entry, when `newest` is the newest timestamp that was given out.
    public void close(long newest) {
        assert newest - before <= TIMESTAMPS_MAX : "no reader accepts the entry";
        LONG.set(bytes, NEWEST_AT, newest);
    }

    /// The bytes, of which [#length] count. Overwritten by the next entry.
    public byte[] bytes() {
        return bytes;
    }

    /// Returns the length of the entry in bytes.
    public int length() {
        return length;
    }

    /// Whether no decision was put into it.
    public boolean isEmpty() {
        return length == HEADER_BYTES;
    }

    @Override
    public void committed(long start, long commit, Rows rows) {
        need(1 + 3 * VARINT_BYTES_MAX + rows.count() * Long.BYTES);
        bytes[length++] = COMMITTED;
        putVarint(commit - base);
        putVarint(commit - start);
        putVarint(rows.count());
        for (int at = 0; at < rows.count(); at++) {
            LONG.set(bytes, length, rows.get(at));
            length += Long.BYTES;
        }
        base = commit;
    }

    @Override
    public void wrote(Keys keys) {
        need(1 + VARINT_BYTES_MAX);
        bytes[length++] = WROTE;
        putVarint(keys.count());
        for (int index = 0; index < keys.count(); index++) {
            int count = keys.length(index);
            need(Long.BYTES + VARINT_BYTES_MAX + count);
            LONG.set(bytes, length, keys.table(index));
            length += Long.BYTES;
            putVarint(count);
            System.arraycopy(keys.bytes(), keys.begin(index), bytes, length, count);
            length += count;
        }
    }

    @Override
    public void aborted(long start) {
        putStart(ABORTED, start);
    }

    @Override
    public void ended(long start) {
        putStart(ENDED, start);
    }

    @Override
    public void forgotten(long start) {
        putStart(FORGOTTEN, start);
    }

    @Override
    public void pruned(long upTo) {
        putStart(PRUNED, upTo);
    }

    @Override
    public void used(long namespace) {
        putNumber(USED, namespace);
    }

    @Override
    public void retired(long namespace) {
        putNumber(RETIRED, namespace);
    }

    @Override
    public void identified(long identity) {
        putNumber(IDENTIFIED, identity);
    }

    private void putNumber(byte kind, long number) {
        endFullEntry();
        need(1 + Long.BYTES);
        bytes[length++] = kind;
        LONG.set(bytes, length, number);
        length += Long.BYTES;
    }

    private void endFullEntry() {
        if (length >= fullBytes) {
            full.run();
        }
    }

    private void putStart(byte kind, long start) {
        endFullEntry();
        need(1 + VARINT_BYTES_MAX);
        bytes[length++] = kind;
        long age = before - start;
        putVarint(age << 1 ^ age >> 63);
    }

    private void putVarint(long number) {
        length = EntryBytes.putVarint(bytes, length, number);
    }

    private void need(int more) {
        if (bytes.length - length < more) {
            bytes = Arrays.copyOf(bytes, Math.max(2 * bytes.length, length + more));
        }
    }
}
