package cedrat.oracle.log.bookkeeper;

import io.netty.buffer.ByteBuf;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import org.apache.bookkeeper.client.api.BKException;
import org.apache.bookkeeper.client.api.BookKeeper;
import org.apache.bookkeeper.client.api.DigestType;
import org.apache.bookkeeper.client.api.WriteHandle;
import org.apache.bookkeeper.conf.ClientConfiguration;

/// BookKeeper, as far as the log needs it. Waits for each answer.
///
/// An entry is written to three bookies and acknowledged by two. Where only two bookies are left a ledger is
/// written to these, and acknowledged by both: what is acknowledged is then no worse kept, but it takes both
/// to go on.
final class Ledgers implements LedgerStore, AutoCloseable {
    static final int BOOKIES = 3;
    static final int ACKNOWLEDGING = 2;

    /// The bookies' limit of a frame is 5 MiB.
    static final int ENTRY_BYTES_MAX = 4 << 20;

    private static final DigestType DIGEST = DigestType.CRC32C;
    private static final byte[] PASSWORD = {};
    private static final int SESSION_MS = 10_000;

    private final BookKeeper bookKeeper;
    private final String path;

    /// A client of the bookies that this ZooKeeper knows, for the log with this path.
    Ledgers(String zooKeeper, String path) throws IOException {
        this.path = path;
        ClientConfiguration configuration = new ClientConfiguration();
        configuration.setMetadataServiceUri("zk+hierarchical://" + zooKeeper.replace(',', ';') + "/ledgers");
        configuration.setZkTimeout(SESSION_MS);
        // It would let 5,000 appends a second through.
        configuration.setThrottleValue(0);
        // With three bookies there is none to take the place of one that has died; two are enough to
        // acknowledge.
        configuration.setDelayEnsembleChange(true);
        // The protocol of fixed fields, not that of generated messages: less to do for each entry. What it
        // lacks (long polls, explicit confirmations) is not used here.
        configuration.setUseV2WireProtocol(true);
        configuration.setNumWorkerThreads(1);
        configuration.setNumIOThreads(1);
        try {
            bookKeeper = BookKeeper.newBuilder(configuration).build();
        } catch (BKException problem) {
            throw problem("BookKeeper is not to be had", problem);
        } catch (InterruptedException interrupted) {
            throw interrupted(interrupted);
        }
    }

    private record Written(WriteHandle handle) implements LedgerWriter {
        @Override
        public long id() {
            return handle.getId();
        }

        @Override
        public boolean isDegraded() {
            return handle.getLedgerMetadata().getEnsembleSize() < BOOKIES;
        }

        @Override
        public CompletableFuture<Long> append(ByteBuf entry) {
            return handle.appendAsync(entry);
        }

        @Override
        public CompletableFuture<Void> close() {
            return handle.closeAsync();
        }
    }

    @Override
    public LedgerWriter create(long opening) throws IOException {
        return new Written(handle(opening));
    }

    private WriteHandle handle(long opening) throws IOException {
        try {
            return create(opening, BOOKIES);
        } catch (IOException problem) {
            if (!(problem.getCause() instanceof BKException failed)
                    || failed.getCode() != BKException.Code.NotEnoughBookiesException) {
                throw problem;
            }
            return create(opening, ACKNOWLEDGING);
        }
    }

    private WriteHandle create(long opening, int bookies) throws IOException {
        return await(
                "cannot make a ledger on " + bookies + " bookies",
                bookKeeper
                        .newCreateLedgerOp()
                        .withEnsembleSize(bookies)
                        .withWriteQuorumSize(bookies)
                        .withAckQuorumSize(ACKNOWLEDGING)
                        .withDigestType(DIGEST)
                        .withPassword(PASSWORD)
                        .withCustomMetadata(Map.of(
                                "application",
                                text("cedrat-oracle"),
                                "list",
                                text(path),
                                "opening",
                                text(Long.toString(opening))))
                        .execute());
    }

    private static byte[] text(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    @Override
    public long seal(long ledger) throws IOException {
        try (LedgerReader closed = recover(ledger)) {
            return closed.last();
        }
    }

    /// Sees to it that nobody appends to the ledger any more, and opens it.
    LedgerReader recover(long ledger) throws IOException {
        return open(ledger, true);
    }

    /// Opens a ledger that somebody may still append to.
    LedgerReader follow(long ledger) throws IOException {
        return open(ledger, false);
    }

    private LedgerReader open(long ledger, boolean recovery) throws IOException {
        return new LedgerReader(await(
                "cannot open ledger " + ledger,
                bookKeeper
                        .newOpenLedgerOp()
                        .withLedgerId(ledger)
                        .withRecovery(recovery)
                        .withDigestType(DIGEST)
                        .withPassword(PASSWORD)
                        .execute()));
    }

    @Override
    public void delete(long ledger) throws IOException {
        try {
            await(
                    "cannot delete ledger " + ledger,
                    bookKeeper.newDeleteLedgerOp().withLedgerId(ledger).execute());
        } catch (IOException problem) {
            if (!isMissing(problem)) {
                throw problem;
            }
        }
    }

    /// Whether it is because the ledger is not there.
    static boolean isMissing(IOException problem) {
        return problem.getCause() instanceof BKException failed
                && (failed.getCode() == BKException.Code.NoSuchLedgerExistsException
                        || failed.getCode() == BKException.Code.NoSuchLedgerExistsOnMetadataServerException);
    }

    static <T> T await(String otherwise, CompletableFuture<T> future) throws IOException {
        try {
            return future.get();
        } catch (ExecutionException failed) {
            throw problem(otherwise, failed.getCause());
        } catch (InterruptedException interrupted) {
            throw interrupted(interrupted);
        }
    }

    private static IOException problem(String what, Throwable cause) {
        return new IOException(what + ": " + cause.getMessage(), cause);
    }

    private static IOException interrupted(InterruptedException interrupted) {
        Thread.currentThread().interrupt();
        return new IOException("interrupted while waiting for BookKeeper", interrupted);
    }

    @Override
    public void close() throws IOException {
        try {
            bookKeeper.close();
        } catch (BKException problem) {
            throw problem("BookKeeper does not close", problem);
        } catch (InterruptedException interrupted) {
            throw interrupted(interrupted);
        }
    }
}
