package cedrat.oracle.log.bookkeeper;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cedrat.oracle.log.Identities;
import cedrat.oracle.log.Log;
import cedrat.oracle.log.LogAbsentException;
import cedrat.oracle.log.LogExistsException;
import cedrat.oracle.log.OpenMode;
import cedrat.oracle.log.SharedLogs.Place;
import cedrat.oracle.log.contract.RecordingListener;
import cedrat.oracle.protocol.Protocol;
import cedrat.oracle.server.OracleServer;
import cedrat.oracle.server.ServerOptions;
import cedrat.oracle.server.cluster.RawClient;
import cedrat.services.Bookies;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.nio.file.Path;
import java.time.Duration;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.retry.RetryOneTime;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/// O5e and O5f: only an initialised log in BookKeeper is served, and its identity stays.
@Tag("services")
@Timeout(300)
class OpenModeTest {
    private static final long SESSION = 11;
    private static final int LEDGER_BYTES = 8000;
    private static final AtomicInteger LOGS = new AtomicInteger();

    @TempDir
    private static Path folder;

    private static Bookies bookies;
    private static CuratorFramework curator;

    private Place place;

    @BeforeAll
    static void start() throws IOException {
        bookies = Bookies.start(folder, 3);
        curator = CuratorFrameworkFactory.newClient(bookies.zooKeeper().address(), new RetryOneTime(1000));
        curator.start();
    }

    @AfterAll
    static void stop() {
        curator.close();
        bookies.close();
    }

    @BeforeEach
    void place() {
        place = new Place(
                bookies.zooKeeper().address(),
                "/cedrat/mode-" + LOGS.incrementAndGet(),
                Duration.ofSeconds(60),
                LEDGER_BYTES,
                "test");
    }

    private void initialise(long identity) throws Exception {
        byte[] entry = Identities.firstEntry(identity);
        try (Log log = new BookKeeperLog(place, OpenMode.CREATE_NEW)) {
            log.open((bytes, from, length) -> {}, new RecordingListener());
            log.append(entry, 0, entry.length);
        }
    }

    private OracleServer serve(OpenMode mode) throws Exception {
        return OracleServer.start(
                ServerOptions.DEFAULTS
                        .withListen(new InetSocketAddress("127.0.0.1", 0))
                        .withRowsLog2(8),
                new BookKeeperLog(place, mode));
    }

    private static long identity(OracleServer server) throws Exception {
        try (RawClient client = new RawClient(server.address(), SESSION, Protocol.VERSION)) {
            return client.reply.identity();
        }
    }

    private ListNode node() {
        return new ListNode(curator, place.path());
    }

    private void assertAbsent(String why) {
        String said = assertThrows(LogAbsentException.class, () -> serve(OpenMode.EXISTING))
                .getMessage();
        assertTrue(said.contains("at " + place.path() + " of the ZooKeeper " + place.zooKeeper()), said);
        assertTrue(said.contains(", because it " + why), said);
    }

    /// O5f: a path that was mistyped, or a ZooKeeper that was wiped.
    @Test
    void serverRefusesMissingLogAndCreatesNothing() throws Exception {
        assertAbsent("does not exist");
        assertEquals(null, curator.checkExists().forPath(place.path()));
    }

    /// O5f: of an initialisation that was interrupted.
    @Test
    void interruptedInitialisationIsFinishedBySecondOne() throws Exception {
        try (Log log = new BookKeeperLog(place, OpenMode.CREATE_NEW)) {
            log.open((bytes, from, length) -> {}, new RecordingListener());
        }
        assertAbsent("has no entry");
        initialise(7);
        try (OracleServer server = serve(OpenMode.EXISTING)) {
            assertEquals(7, identity(server));
        }
    }

    /// O5f: also while a server has the log.
    @Test
    void initialisationOfExistingLogIsRefused() throws Exception {
        initialise(7);
        try (OracleServer server = serve(OpenMode.EXISTING)) {
            IOException refused = assertThrows(IOException.class, () -> initialise(8));
            assertTrue(refused.getMessage().contains("log at " + place.path()), refused::toString);
            assertEquals(7, identity(server));
        }
        assertThrows(LogExistsException.class, () -> initialise(8));
        try (OracleServer server = serve(OpenMode.EXISTING)) {
            assertEquals(7, identity(server));
        }
    }

    /// O5e.
    @Test
    void identityOutlivesDeletedLedgers() throws Exception {
        initialise(7);
        long first = node().read().ledgers().getFirst();
        try (OracleServer server = serve(OpenMode.EXISTING);
                RawClient client = new RawClient(server, SESSION + 1)) {
            for (long row = 1; node().read().ledgers().contains(first); row++) {
                client.commit(client.begin(), row);
            }
        }
        assertNotEquals(first, node().read().ledgers().getFirst());
        try (OracleServer server = serve(OpenMode.EXISTING)) {
            assertEquals(7, identity(server));
        }
    }

    /// O5f: the server that stands by begins no other log.
    @Test
    void standbyRefusesWipedZooKeeper() throws Exception {
        initialise(7);
        try (OracleServer server = serve(OpenMode.EXISTING)) {
            assertEquals(7, identity(server));
            CompletableFuture<OracleServer> standby = CompletableFuture.supplyAsync(
                    () -> {
                        try {
                            return serve(OpenMode.EXISTING);
                        } catch (Exception refused) {
                            throw new CompletionException(refused);
                        }
                    },
                    Thread::startVirtualThread);
            while (bookies.zooKeeper().ephemeralsBelow(place.path() + "/election") < 2) {
                Thread.onSpinWait();
            }
            curator.delete().forPath(place.path() + "/ledgers");
            CompletionException ended = assertThrows(CompletionException.class, standby::join);
            assertEquals(LogAbsentException.class, ended.getCause().getClass(), ended::toString);
            assertFalse(node().exists());
        }
    }
}
