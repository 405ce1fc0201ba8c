package cedrat.oracle.log;

import static cedrat.oracle.log.SnapshotWriter.ABORTED;
import static cedrat.oracle.log.SnapshotWriter.COMMITTED;
import static cedrat.oracle.log.SnapshotWriter.HEADER_BYTES;
import static cedrat.oracle.log.SnapshotWriter.IDENTIFIED;
import static cedrat.oracle.log.SnapshotWriter.OPEN;
import static cedrat.oracle.log.SnapshotWriter.PRUNED;
import static cedrat.oracle.log.SnapshotWriter.RESTORED;
import static cedrat.oracle.log.SnapshotWriter.USED;
import static cedrat.oracle.log.SnapshotWriter.VERSION;

import cedrat.oracle.state.Lifetime;
import cedrat.oracle.state.Remembered;

/// Reads what [SnapshotWriter] has written. For one thread at a time.
public final class SnapshotReader {
    /// Timestamps and positions are below this one, so that adding some to them does not overflow.
    private static final long NUMBERS_MAX = 1L << 60;

    private final EntryBytes entry = new EntryBytes();
    private long taken;
    private long position;
    private long committed;
    private long from;
    private long end;
    private long newest;

    /// A reader of no part.
    public SnapshotReader() {}

    /// Whether an entry is a part of a snapshot, and not a batch of decisions, if it is one at all.
    public static boolean isPart(byte[] bytes, int from, int length) {
        return length > 0 && bytes[from] == VERSION;
    }

    /// Opens a part: `length` bytes from `from` on.
    ///
    /// @throws DamagedEntryException if they are no part of this version
    public void open(byte[] bytes, int from, int length) throws DamagedEntryException {
        entry.open(bytes, from, length, HEADER_BYTES, VERSION);
        taken = entry.number();
        position = entry.number();
        committed = entry.number();
        this.from = entry.number();
        end = entry.number();
        newest = entry.number();
        boolean isOrdered = 0 <= committed && committed <= taken && taken <= newest && newest < NUMBERS_MAX;
        if (!isOrdered || position < 0 || position >= NUMBERS_MAX) {
            throw damaged("a snapshot begun at " + taken + " behind " + position + " rows, the newest of them of "
                    + committed + ", of which a part was written at " + newest);
        }
        boolean isEmpty = taken == 0 && this.from == 1 && end == 1;
        if (!isEmpty && (this.from < 1 || end <= this.from || end > taken + 1)) {
            throw damaged("a part from " + this.from + " to " + end + " of a snapshot begun at " + taken);
        }
    }

    /// The newest timestamp when the snapshot was begun.
    public long taken() {
        return taken;
    }

    /// The oracle's position when the snapshot was begun.
    public long position() {
        return position;
    }

    /// The newest commit timestamp when the snapshot was begun.
    public long committed() {
        return committed;
    }

    /// The first start timestamp of which the part tells.
    public long from() {
        return from;
    }

    /// The first start timestamp of which it tells no more.
    public long end() {
        return end;
    }

    /// The newest timestamp when the part was written.
    public long newest() {
        return newest;
    }

    /// Whether it is the first of its snapshot.
    public boolean isFirst() {
        return from == 1;
    }

    /// Whether it is the last of its snapshot.
    public boolean isLast() {
        return end == taken + 1;
    }

    /// Reports all transactions of the part, in their order.
    ///
    /// @throws DamagedEntryException if they are invalid; the transactions before the damage were reported
    public void tell(Remembered to) throws DamagedEntryException {
        long start = from - 1;
        while (entry.hasMore()) {
            byte kind = entry.kind();
            if (kind >= PRUNED && kind <= RESTORED && isFirst() && start == 0) {
                tellFact(kind, to);
                continue;
            }
            if (kind < OPEN || kind > ABORTED) {
                throw damaged("a transaction of kind " + kind);
            }
            long step = entry.varint();
            if (step <= 0 || step >= end - start) {
                throw damaged("a transaction " + step + " behind " + start + " in a part that ends at " + end);
            }
            start += step;
            switch (kind) {
                case OPEN -> {
                    long age = entry.varint();
                    if (age < 0 || age > position) {
                        throw damaged("transaction " + start + " began " + age + " rows before " + position);
                    }
                    to.open(start, position - age);
                }
                case COMMITTED -> {
                    long lasted = entry.varint();
                    if (lasted <= 0 || lasted > newest - start) {
                        throw damaged("transaction " + start + " lasted " + lasted + " until it committed");
                    }
                    to.committed(new Lifetime(start, start + lasted));
                }
                default -> to.aborted(start);
            }
        }
    }

    private void tellFact(byte kind, Remembered to) throws DamagedEntryException {
        if (kind == PRUNED) {
            long upTo = entry.varint();
            if (upTo <= 0 || upTo > taken) {
                throw damaged("transactions pruned up to " + upTo + " in a snapshot begun at " + taken);
            }
            to.pruned(upTo);
            return;
        }
        if (entry.left() < Long.BYTES) {
            throw damaged("a truncated "
                    + switch (kind) {
                        case USED -> "namespace";
                        case IDENTIFIED -> "identity";
                        default -> "generation";
                    });
        }
        long number = entry.number();
        switch (kind) {
            case USED -> to.used(number);
            case IDENTIFIED -> to.identified(number);
            default -> to.restored(number);
        }
    }

    /// An error that says what is wrong, and which byte was read last.
    DamagedEntryException damaged(String what) {
        return entry.damaged(what);
    }
}
