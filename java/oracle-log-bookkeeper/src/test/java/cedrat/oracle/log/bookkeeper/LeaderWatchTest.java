package cedrat.oracle.log.bookkeeper;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cedrat.oracle.log.Log;
import cedrat.oracle.log.SharedLogs.Place;
import cedrat.oracle.log.contract.RecordingListener;
import cedrat.services.Bookies;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestInfo;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/// Two servers within this process. The session of the first one never ends.
@Tag("services")
@Timeout(300)
class LeaderWatchTest {
    private static final byte[] ENTRY = {1};

    @TempDir
    private static Path folder;

    private static Bookies bookies;

    @BeforeAll
    static void start() throws IOException {
        bookies = Bookies.start(folder, 3);
    }

    @AfterAll
    static void stop() {
        bookies.close();
    }

    private static BookKeeperLog log(TestInfo test, String host) {
        return new BookKeeperLog(new Place(
                bookies.zooKeeper().address(),
                "/cedrat/" + test.getTestMethod().orElseThrow().getName(),
                Duration.ofSeconds(60),
                100_000,
                "a server",
                Optional.empty(),
                Optional.empty(),
                Optional.of(InetSocketAddress.createUnresolved(host, 0))));
    }

    private static CompletableFuture<Void> open(Log log, RecordingListener listener) {
        return awaiting(() -> log.open((bytes, from, length) -> {}, listener));
    }

    private interface Waiting {
        void run() throws Exception;
    }

    private static CompletableFuture<Void> awaiting(Waiting waiting) {
        return CompletableFuture.runAsync(
                () -> {
                    try {
                        waiting.run();
                    } catch (Exception problem) {
                        throw new IllegalStateException(problem);
                    }
                },
                Thread::startVirtualThread);
    }

    private static CompletableFuture<Void> standBy(BookKeeperLog second) throws Exception {
        CompletableFuture<Void> opening = open(second, new RecordingListener());
        awaitWatch(second).awaitConnections(1);
        return opening;
    }

    private static LeaderWatch awaitWatch(BookKeeperLog log) {
        while (log.watch() == null) {
            Thread.onSpinWait();
        }
        return log.watch();
    }

    /// L4, O6h: the first server goes on, and none of its later entries is acknowledged.
    @Test
    void anEndedProcessIsReplacedAtOnce(TestInfo test) throws Exception {
        RecordingListener listener = new RecordingListener();
        try (BookKeeperLog first = log(test, "127.0.0.1");
                BookKeeperLog second = log(test, "127.0.0.1")) {
            open(first, listener).join();
            listener.awaitAcknowledged(first.append(ENTRY, 0, 1));
            CompletableFuture<Void> opening = standBy(second);
            assertFalse(opening.isDone());
            first.liveness().close();
            opening.join();
            first.append(ENTRY, 0, 1);
            assertInstanceOf(ReplacedException.class, listener.awaitFailed());
            assertEquals(1, listener.newest());
        }
    }

    /// O6h: of three servers, one after the other.
    @Test
    void laterLeadersAreWatchedToo(TestInfo test) throws Exception {
        try (BookKeeperLog first = log(test, "0.0.0.0");
                BookKeeperLog second = log(test, "0.0.0.0");
                BookKeeperLog third = log(test, "0.0.0.0")) {
            open(first, new RecordingListener()).join();
            CompletableFuture<Void> opening = standBy(second);
            CompletableFuture<Void> last = standBy(third);
            first.liveness().close();
            opening.join();
            third.watch().awaitConnections(2);
            assertFalse(last.isDone());
            second.liveness().close();
            last.join();
        }
    }

    /// O6h: the host accepts another connection, so the process runs.
    @Test
    void aLostConnectionReplacesNoLeader(TestInfo test) throws Exception {
        RecordingListener listener = new RecordingListener();
        BookKeeperLog second = log(test, "localhost");
        CompletableFuture<Void> opening;
        try (BookKeeperLog first = log(test, "localhost")) {
            open(first, listener).join();
            opening = standBy(second);
            for (int count = 2; count < 5; count++) {
                first.liveness().awaitAndDisconnect();
                second.watch().awaitConnections(count);
            }
            listener.awaitAcknowledged(first.append(ENTRY, 0, 1));
            assertFalse(opening.isDone());
            assertFalse(listener.hasFailed());
        }
        opening.join();
        second.close();
    }

    /// O6h: a host that refuses all connections proves nothing.
    @Test
    void unreachedLeaderIsKept(TestInfo test) throws Exception {
        RecordingListener listener = new RecordingListener();
        BookKeeperLog second = log(test, "127.0.0.1");
        CompletableFuture<Void> opening;
        try (BookKeeperLog first = log(test, "127.0.0.1")) {
            open(first, listener).join();
            first.liveness().close();
            opening = open(second, new RecordingListener());
            LeaderWatch watch = awaitWatch(second);
            CompletableFuture.anyOf(opening, awaiting(() -> watch.awaitRefusals(3)))
                    .join();
            listener.awaitAcknowledged(first.append(ENTRY, 0, 1));
            assertFalse(opening.isDone());
        }
        opening.join();
        second.close();
    }

    @Test
    void connectionsAreBounded() throws Exception {
        List<Socket> connections = new ArrayList<>();
        InetAddress loopback = InetAddress.getLoopbackAddress();
        try (LivenessSocket socket = new LivenessSocket(new InetSocketAddress(loopback, 0))) {
            for (int count = 0; count <= LivenessSocket.CONNECTIONS_MAX; count++) {
                connections.add(new Socket(loopback, socket.address().getPort()));
            }
            assertEquals(-1, connections.getFirst().getInputStream().read());
            connections.removeFirst().close();
            for (Socket connection : connections) {
                assertTrue(connection.isConnected());
            }
        } finally {
            for (Socket connection : connections) {
                assertEquals(-1, connection.getInputStream().read());
                connection.close();
            }
        }
    }
}
