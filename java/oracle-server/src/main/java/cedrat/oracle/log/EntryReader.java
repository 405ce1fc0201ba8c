package cedrat.oracle.log;

import static cedrat.oracle.log.EntryWriter.ABORTED;
import static cedrat.oracle.log.EntryWriter.COMMITTED;
import static cedrat.oracle.log.EntryWriter.ENDED;
import static cedrat.oracle.log.EntryWriter.FORGOTTEN;
import static cedrat.oracle.log.EntryWriter.HEADER_BYTES;
import static cedrat.oracle.log.EntryWriter.IDENTIFIED;
import static cedrat.oracle.log.EntryWriter.PRUNED;
import static cedrat.oracle.log.EntryWriter.RETIRED;
import static cedrat.oracle.log.EntryWriter.TIMESTAMPS_MAX;
import static cedrat.oracle.log.EntryWriter.USED;
import static cedrat.oracle.log.EntryWriter.VERSION;
import static cedrat.oracle.log.EntryWriter.WROTE;

import cedrat.oracle.state.Decisions;
import cedrat.oracle.state.Keys;
import cedrat.oracle.state.Rows;

/// Reads what [EntryWriter] has written. For one thread at a time.
public final class EntryReader {
    private final Rows rows = new Rows();
    private final Keys keys = new Keys();
    private final EntryBytes entry = new EntryBytes();
    private long before;
    private long newest;

    /// A reader of no entry.
    public EntryReader() {}

    /// Opens an entry: `length` bytes from `from` on.
    ///
    /// @throws DamagedEntryException if they are no entry of this version
    public void open(byte[] bytes, int from, int length) throws DamagedEntryException {
        entry.open(bytes, from, length, HEADER_BYTES, VERSION);
        before = entry.number();
        newest = entry.number();
        if (before < 0 || newest < before) {
            throw damaged("an entry whose timestamps go from " + before + " to " + newest);
        }
        // Each of them takes memory, and none takes a byte of the entry.
        if (newest - before > TIMESTAMPS_MAX) {
            throw damaged(
                    "an entry that gives out " + (newest - before) + " timestamps; it has at most " + TIMESTAMPS_MAX);
        }
    }

    /// The newest timestamp that was given out when the entry was begun.
    public long before() {
        return before;
    }

    /// The newest timestamp that was given out when the entry was closed.
    public long newest() {
        return newest;
    }

    /// Reports all decisions of the entry, in their order.
    ///
    /// @throws DamagedEntryException if they are invalid; the decisions before the damage were reported
    public void tell(Decisions to) throws DamagedEntryException {
        long base = before;
        byte last = 0;
        while (entry.hasMore()) {
            byte kind = entry.kind();
            switch (kind) {
                case COMMITTED -> {
                    long commit = base + entry.varint();
                    long start = commit - entry.varint();
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
                case PRUNED -> to.pruned(start());
                case USED -> to.used(number("namespace"));
                case RETIRED -> to.retired(number("namespace"));
                case IDENTIFIED -> to.identified(number("identity"));
                case WROTE -> {
                    readKeys();
                    if (last != COMMITTED) {
                        throw damaged("keys without a commit");
                    }
                    to.wrote(keys);
                }
                default -> throw damaged("a decision of kind " + kind);
            }
            last = kind;
        }
    }

    private void readRows() throws DamagedEntryException {
        long count = entry.varint();
        if (count < 0 || count > entry.left() / Long.BYTES) {
            throw damaged(count + " rows, of which not all are there");
        }
        rows.clear();
        for (; count > 0; count--) {
            rows.add(entry.number());
        }
    }

    private void readKeys() throws DamagedEntryException {
        long count = entry.varint();
        keys.clear();
        for (; count != 0; count--) {
            if (entry.left() < Long.BYTES) {
                throw damaged(Long.toUnsignedString(count) + " keys that are not there");
            }
            long table = entry.number();
            long length = entry.varint();
            if (length < 0 || length > entry.left()) {
                throw damaged("a key of " + length + " bytes, of which not all are there");
            }
            keys.add(table, entry.bytes(), entry.skip((int) length), (int) length);
        }
    }

    private long number(String what) throws DamagedEntryException {
        if (entry.left() < Long.BYTES) {
            throw damaged("a truncated " + what);
        }
        return entry.number();
    }

    private long start() throws DamagedEntryException {
        long coded = entry.varint();
        long start = before - (coded >>> 1 ^ -(coded & 1));
        if (start <= 0 || start > newest) {
            throw damaged("a decision on a transaction that began at " + start);
        }
        return start;
    }

    /// An error that says what is wrong, and which byte was read last.
    DamagedEntryException damaged(String what) {
        return entry.damaged(what);
    }
}
