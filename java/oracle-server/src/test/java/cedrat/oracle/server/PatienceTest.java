package cedrat.oracle.server;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cedrat.oracle.client.ClientOptions;
import cedrat.oracle.client.ClientThreads;
import cedrat.oracle.client.OracleClient;
import cedrat.oracle.client.OracleException;
import cedrat.oracle.client.Outcome;
import cedrat.oracle.client.Pipeline;
import cedrat.oracle.client.Replies;
import cedrat.oracle.client.StartTimestamp;
import cedrat.oracle.client.UnavailableException;
import cedrat.oracle.log.VolatileLog;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.function.Consumer;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/// Calls of a client that has no server.
@Timeout(300)
class PatienceTest {
    private static final Duration PATIENCE = Duration.ofMillis(200);
    /// Patience of a client that a server answers later, also on a busy machine.
    private static final Duration LONG_PATIENCE = Duration.ofSeconds(2);

    private static final int CALLS = 4;

    /// An address that no server listens on.
    private static InetSocketAddress unused() throws IOException {
        try (ServerSocket socket = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
            return (InetSocketAddress) socket.getLocalSocketAddress();
        }
    }

    private static ClientOptions options() throws IOException {
        return options(unused(), PATIENCE);
    }

    private static ClientOptions options(InetSocketAddress server, Duration patience) {
        return ClientOptions.of(server)
                .withPatience(patience)
                .withReconnect(Duration.ofMillis(1), Duration.ofMillis(20));
    }

    private static OracleServer server() throws Exception {
        return OracleServer.start(
                ServerOptions.DEFAULTS.withListen(new InetSocketAddress("127.0.0.1", 0)), new VolatileLog());
    }

    private record Failed(Duration after, OracleException why) {}

    /// Makes the next call as soon as one has failed.
    private static final class Again implements Replies<Long> {
        final List<Failed> failed = new ArrayList<>();
        final CompletableFuture<List<Failed>> all = new CompletableFuture<>();
        Consumer<Long> call;

        @Override
        public void failed(Long asked, OracleException why) {
            failed.add(new Failed(Duration.ofNanos(System.nanoTime() - asked), why));
            if (failed.size() == CALLS) {
                all.complete(failed);
                return;
            }
            call.accept(System.nanoTime());
        }

        @Override
        public void begun(Long asked, long start) {
            all.completeExceptionally(new AssertionError("begun without a server"));
        }

        @Override
        public void decided(Long asked, long start, long outcome) {}

        @Override
        public void outcomes(Long asked, long[] outcomes) {}

        @Override
        public void number(Long asked, long number) {}
    }

    @Test
    void everyCallWaitsForItsOwnPatience() throws Exception {
        Again replies = new Again();
        try (ClientThreads threads = new ClientThreads(1)) {
            Pipeline<Long> pipeline = threads.open(options(), replies);
            replies.call = asked -> {
                try {
                    pipeline.begin(asked);
                } catch (OracleException atOnce) {
                    replies.all.completeExceptionally(new AssertionError("failed at once", atOnce));
                }
            };
            pipeline.execute(() -> replies.call.accept(System.nanoTime()));
            List<Failed> failed = replies.all.join();
            assertEquals(CALLS, failed.size());
            for (Failed each : failed) {
                assertTrue(each.after.compareTo(PATIENCE) >= 0, each.toString());
                assertInstanceOf(UnavailableException.class, each.why);
                assertTrue(each.why.getMessage().contains(" could be reached since 20"), each.why.getMessage());
            }
        }
    }

    @Test
    void waitingCallStatesSinceWhen() throws Exception {
        try (OracleClient client = OracleClient.open(options())) {
            for (int call = 0; call < 2; call++) {
                String message =
                        assertThrows(UnavailableException.class, client::begin).getMessage();
                assertTrue(message.contains(" could be reached since 20"), message);
                assertTrue(message.contains("refused") || message.contains("just been opened"), message);
            }
        }
    }

    /// C5: transactions whose end, abort or commit had no answer do not stay open, however long their client lives.
    @Test
    void failedEndsHoldNothingBack() throws Exception {
        try (OracleServer server = server();
                Proxy proxy = new Proxy(server.address());
                OracleClient client = OracleClient.open(options(proxy.address(), LONG_PATIENCE))) {
            StartTimestamp ended = client.begin();
            StartTimestamp aborted = client.begin();
            StartTimestamp committed = client.begin();
            StartTimestamp resolved = client.begin();
            StartTimestamp alive = client.begin();
            proxy.refuse(true);
            proxy.cut();
            assertThrows(UnavailableException.class, () -> client.end(ended));
            assertThrows(UnavailableException.class, () -> client.abort(aborted));
            assertThrows(UnavailableException.class, () -> client.commit(committed, 1));
            assertThrows(UnavailableException.class, () -> client.commit(resolved, 2));
            assertThrows(UnavailableException.class, () -> client.resolve(resolved));
            proxy.refuse(false);
            while (!alive.equals(lowWaterMark(client))) {
                Thread.onSpinWait();
            }
            assertEquals(Outcome.Kind.ABORTED, client.commit(committed, 1).kind());
            assertEquals(Outcome.Kind.ABORTED, client.resolve(resolved).kind());
            assertEquals(Outcome.Kind.COMMITTED, client.commit(alive, 1).kind());
        }
    }

    /// Returns the low-water mark; `null` while there is no server.
    private static StartTimestamp lowWaterMark(OracleClient client) {
        try {
            return client.lowWaterMark();
        } catch (UnavailableException notYet) {
            return null;
        }
    }

    /// A commit that is sent again before a server answers is decided as one that was never abandoned.
    @Test
    void repeatedCommitIsNotResolved() throws Exception {
        try (OracleServer server = server();
                Proxy proxy = new Proxy(server.address());
                OracleClient client = OracleClient.open(options(proxy.address(), LONG_PATIENCE))) {
            StartTimestamp start = client.begin();
            proxy.refuse(true);
            proxy.cut();
            assertThrows(UnavailableException.class, () -> client.commit(start, 1));
            CompletableFuture<Outcome> again = client.commitAsync(start, 1);
            proxy.refuse(false);
            assertEquals(Outcome.Kind.COMMITTED, again.join().kind());
        }
    }
}
