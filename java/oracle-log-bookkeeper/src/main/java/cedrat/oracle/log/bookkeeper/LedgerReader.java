package cedrat.oracle.log.bookkeeper;

import cedrat.oracle.log.DamagedEntryException;
import cedrat.oracle.log.Log;
import io.netty.buffer.ByteBuf;
import java.io.IOException;
import java.util.ArrayDeque;
import java.util.concurrent.CompletableFuture;
import org.apache.bookkeeper.client.api.LedgerEntries;
import org.apache.bookkeeper.client.api.LedgerEntry;
import org.apache.bookkeeper.client.api.ReadHandle;

/// A ledger that is read. For one thread at a time.
final class LedgerReader implements AutoCloseable {
    private static final int READ_ENTRIES = 8;
    private static final int READS_UNDER_WAY = 4;

    private final ReadHandle handle;
    private byte[] bytes = new byte[0];

    LedgerReader(ReadHandle handle) {
        this.handle = handle;
    }

    long id() {
        return handle.getId();
    }

    /// Whether the ledger is closed for appends. A reader opened after that knows the last entry.
    boolean isClosed() {
        return handle.isClosed();
    }

    /// The last entry that was known to be acknowledged when this was opened, or when [#askLast] was called;
    /// -1 if none was.
    long last() {
        return handle.getLastAddConfirmed();
    }

    /// Asks the bookies how far the ledger is known to be acknowledged.
    long askLast() throws IOException {
        return Ledgers.await("cannot read ledger " + id(), handle.readLastAddConfirmedAsync());
    }

    /// Replays entries, from one up to another, that one included.
    void replay(long from, long to, Log.Replay replay) throws IOException, DamagedEntryException {
        ArrayDeque<CompletableFuture<LedgerEntries>> reads = new ArrayDeque<>();
        try {
            for (long next = from; next <= to || !reads.isEmpty(); ) {
                if (next <= to && reads.size() < READS_UNDER_WAY) {
                    long last = Math.min(to, next + READ_ENTRIES - 1);
                    reads.add(handle.readAsync(next, last));
                    next = last + 1;
                    continue;
                }
                try (LedgerEntries entries = Ledgers.await("cannot read ledger " + id(), reads.remove())) {
                    for (LedgerEntry entry : entries) {
                        replay(entry, replay);
                    }
                }
            }
        } finally {
            reads.forEach(read -> read.thenAccept(LedgerEntries::close));
        }
    }

    private void replay(LedgerEntry of, Log.Replay replay) throws DamagedEntryException {
        ByteBuf entry = of.getEntryBuffer();
        int length = entry.readableBytes();
        if (bytes.length < length) {
            bytes = new byte[Math.max(2 * bytes.length, length)];
        }
        entry.getBytes(entry.readerIndex(), bytes, 0, length);
        try {
            replay.entry(bytes, 0, length);
        } catch (DamagedEntryException damaged) {
            throw damaged.in("entry " + of.getEntryId() + " of ledger " + id());
        }
    }

    @Override
    public void close() throws IOException {
        Ledgers.await("cannot close ledger " + id(), handle.closeAsync());
    }
}
