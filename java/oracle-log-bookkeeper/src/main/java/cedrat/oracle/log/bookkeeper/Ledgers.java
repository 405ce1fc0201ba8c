package cedrat.oracle.log.bookkeeper;

import io.netty.buffer.ByteBuf;
import java.io.IOException;
import java.nio.file.Path;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import org.apache.bookkeeper.client.BookKeeper;
import org.apache.bookkeeper.client.api.BKException;
import org.apache.bookkeeper.client.api.DigestType;
import org.apache.bookkeeper.client.api.LedgersIterator;
import org.apache.bookkeeper.client.api.ListLedgersResult;
import org.apache.bookkeeper.client.api.WriteHandle;
import org.apache.bookkeeper.conf.ClientConfiguration;
import org.apache.bookkeeper.proto.BookieClient;
import org.apache.commons.configuration2.ex.ConfigurationException;

/// BookKeeper, as far as the log needs it. Waits for each answer.
///
/// An entry is written to three bookies and acknowledged by two. Where only two bookies are left a ledger is
/// written to these, and acknowledged by both: what is acknowledged is then no worse kept, but it takes both
/// to go on.
final class Ledgers implements LedgerStore, AutoCloseable {
    static final int BOOKIES = 3;
    static final int ACKNOWLEDGING = 2;

    private static final DigestType DIGEST = DigestType.CRC32C;
    private static final byte[] PASSWORD = {};
    private static final int SESSION_MS = 10_000;

    /// One for each connection that an answer may reach while it is closed, and there is one to each bookie.
    private static final int CLOSING_ATTEMPTS = 100;

    private final BookKeeper bookKeeper;

    /// A client of the bookies that this ZooKeeper knows, with the properties in a file.
    Ledgers(String zooKeeper, Optional<Path> properties) throws IOException {
        try {
            bookKeeper =
                    BookKeeper.forConfig(configuration(zooKeeper, properties)).build();
        } catch (BKException problem) {
            throw problem("cannot reach BookKeeper", problem);
        } catch (InterruptedException interrupted) {
            throw interrupted(interrupted);
        }
    }

    /// Returns the properties of the client: those in the file, but for what the log relies on.
    static ClientConfiguration configuration(String zooKeeper, Optional<Path> properties) throws IOException {
        ClientConfiguration configuration = new ClientConfiguration();
        if (properties.isPresent()) {
            load(configuration, properties.get());
        }
        configuration.setMetadataServiceUri("zk+hierarchical://" + zooKeeper.replace(',', ';') + "/ledgers");
        configuration.setZkTimeout(SESSION_MS);
        // It would let 5,000 appends a second through.
        configuration.setThrottleValue(0);
        // With three bookies there is none to take the place of one that has died; two are enough to
        // acknowledge.
        configuration.setDelayEnsembleChange(true);
        configuration.setNumWorkerThreads(1);
        configuration.setNumIOThreads(1);
        return configuration;
    }

    private static void load(ClientConfiguration configuration, Path file) throws IOException {
        try {
            configuration.loadConf(file.toUri().toURL());
        } catch (ConfigurationException problem) {
            throw new IOException("cannot read the properties of BookKeeper in " + file + ": " + problem, problem);
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
    public LedgerWriter create(Origin origin) throws IOException {
        return new Written(handle(origin));
    }

    private WriteHandle handle(Origin origin) throws IOException {
        try {
            return create(origin, BOOKIES);
        } catch (IOException problem) {
            if (!(problem.getCause() instanceof BKException failed)
                    || failed.getCode() != BKException.Code.NotEnoughBookiesException) {
                throw problem;
            }
            return create(origin, ACKNOWLEDGING);
        }
    }

    private WriteHandle create(Origin origin, int bookies) throws IOException {
        return await(
                "cannot create a ledger on " + bookies + " bookies",
                bookKeeper
                        .newCreateLedgerOp()
                        .withEnsembleSize(bookies)
                        .withWriteQuorumSize(bookies)
                        .withAckQuorumSize(ACKNOWLEDGING)
                        .withDigestType(DIGEST)
                        .withPassword(PASSWORD)
                        .withCustomMetadata(origin.toMetadata())
                        .execute());
    }

    @Override
    public long seal(long ledger) throws IOException {
        try (LedgerReader closed = recover(ledger)) {
            return closed.last();
        }
    }

    /// Seals the ledger against all appends, and opens it.
    LedgerReader recover(long ledger) throws IOException {
        return open(ledger, true);
    }

    /// Opens a ledger that may still grow.
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

    /// Returns the metadata of a ledger; empty if it does not exist.
    Optional<Map<String, byte[]>> metadata(long ledger) throws IOException {
        try {
            return Optional.of(
                    await("cannot read the metadata of ledger " + ledger, bookKeeper.getLedgerMetadata(ledger))
                            .getCustomMetadata());
        } catch (IOException problem) {
            if (isMissing(problem)) {
                return Optional.empty();
            }
            throw problem;
        }
    }

    /// The numbers of all ledgers that the bookies have, whosever they are.
    All all() throws IOException {
        return new All(
                await("cannot list the ledgers", bookKeeper.newListLedgersOp().execute()));
    }

    /// Numbers of ledgers, which are asked for as they are wanted.
    static final class All implements AutoCloseable {
        private final ListLedgersResult result;
        private final LedgersIterator each;

        private All(ListLedgersResult result) {
            this.result = result;
            each = result.iterator();
        }

        boolean hasNext() throws IOException {
            return each.hasNext();
        }

        long next() throws IOException {
            return each.next();
        }

        @Override
        public void close() throws IOException {
            try {
                result.close();
            } catch (IOException problem) {
                throw problem;
            } catch (Exception problem) {
                throw problem("cannot close the list of ledgers", problem);
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
        return new IOException("the thread was interrupted while it waited for BookKeeper", interrupted);
    }

    @Override
    public void close() throws IOException {
        closeConnections(bookKeeper.getClientCtx().getBookieClient());
        try {
            bookKeeper.close();
        } catch (BKException problem) {
            throw problem("cannot close the client of BookKeeper", problem);
        } catch (InterruptedException interrupted) {
            throw interrupted(interrupted);
        }
    }

    /// Closes the connections to the bookies; requests that are outstanding fail.
    ///
    /// A bookie may answer a request while it is failed here. Version 4.17 of the client then throws a
    /// `NullPointerException`, because it has recycled the request. Its own `BookKeeper.close` would end there, and
    /// leave its threads and its session of ZooKeeper behind. A connection that has thrown counts as closed, so the
    /// next attempt goes on with the others.
    static void closeConnections(BookieClient client) {
        for (int attempt = 1; ; attempt++) {
            try {
                client.close();
                return;
            } catch (NullPointerException answeredMeanwhile) {
                if (attempt == CLOSING_ATTEMPTS) {
                    throw answeredMeanwhile;
                }
            }
        }
    }
}
