package cedrat.oracle.log;

import static cedrat.oracle.log.EntryWriter.ABORTED;
import static cedrat.oracle.log.EntryWriter.BEFORE_AT;
import static cedrat.oracle.log.EntryWriter.COMMITTED;
import static cedrat.oracle.log.EntryWriter.ENDED;
import static cedrat.oracle.log.EntryWriter.FORGOTTEN;
import static cedrat.oracle.log.EntryWriter.HEADER_BYTES;
import static cedrat.oracle.log.EntryWriter.LONG;
import static cedrat.oracle.log.EntryWriter.NEWEST_AT;
import static cedrat.oracle.log.EntryWriter.VERSION;

import cedrat.oracle.state.Decisions;
import cedrat.oracle.state.Rows;

/// Reads what [EntryWriter] has written. For one thread at a time.
public final class EntryReader {
    private final Rows rows = new Rows();
    private byte[] bytes;
    private int at;
    private int end;
    private long before;
    private long newest;

    /// A reader of no entry.
    public EntryReader() {}

    /// Opens an entry: `length` bytes from `from` on.
    ///
    /// @throws DamagedEntryException if they are no entry of this version
    public void open(byte[] bytes, int from, int length) throws DamagedEntryException {
        this.bytes = bytes;
        at = from;
        end = from + length;
        if (length < HEADER_BYTES) {
            throw damaged("an entry of " + length + " bytes; it has at least " + HEADER_BYTES);
        }
        if (bytes[from] != VERSION) {
            throw damaged("an entry of version " + bytes[from] + "; this program reads version " + VERSION);
        }
        before = (long) LONG.get(bytes, from + BEFORE_AT);
        newest = (long) LONG.get(bytes, from + NEWEST_AT);
        if (before < 0 || newest < before) {
            throw damaged("an entry whose timestamps go from " + before + " to " + newest);
        }
        at = from + HEADER_BYTES;
    }

    /// The newest timestamp that was given out when the entry was begun.
    public long before() {
        return before;
    }

    /// The newest timestamp that was given out when the entry was closed.
    public long newest() {
        return newest;
    }

    /// Tells all decisions of the entry, in their order.
    ///
    /// @throws DamagedEntryException if they make no sense; those before the damage were told
    public void tell(Decisions to) throws DamagedEntryException {
        long base = before;
        while (at < end) {
            byte kind = bytes[at++];
            switch (kind) {
                case COMMITTED -> {
                    long commit = base + varint();
                    long start = commit - varint();
                    readRows();
                    if (commit <= base || commit > newest || start <= 0 || start >= commit) {
                        throw damaged("a commit at " + commit + " of a transaction that began at " + start);
                    }
                    to.committed(start, commit, rows);
                    base = commit;
                }
                case ABORTED -> to.aborted(start());
                case ENDED -> to.ended(start());
                case FORGOTTEN -> to.forgotten(start());
                default -> throw damaged("a decision of kind " + kind);
            }
        }
    }

    private void readRows() throws DamagedEntryException {
        long count = varint();
        if (count < 0 || count > (end - at) / Long.BYTES) {
            throw damaged(count + " rows, of which not all are there");
        }
        rows.clear();
        for (; count > 0; count--) {
            rows.add((long) LONG.get(bytes, at));
            at += Long.BYTES;
        }
    }

    private long start() throws DamagedEntryException {
        long coded = varint();
        long start = before - (coded >>> 1 ^ -(coded & 1));
        if (start <= 0 || start > newest) {
            throw damaged("a decision on a transaction that began at " + start);
        }
        return start;
    }

    private long varint() throws DamagedEntryException {
        long number = 0;
        for (int shift = 0; at < end && shift < Long.SIZE; shift += 7) {
            byte next = bytes[at++];
            number |= (long) (next & 0x7f) << shift;
            if (next >= 0) {
                return number;
            }
        }
        throw damaged("a number that does not end");
    }

    private DamagedEntryException damaged(String what) {
        return new DamagedEntryException(what + ", at byte " + at);
    }
}
