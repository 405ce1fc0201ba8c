package cedrat.oracle.server;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cedrat.oracle.protocol.Protocol;
import cedrat.oracle.server.cluster.RawClient;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/// D3: memory for replies, while the log acknowledges nothing.
@Timeout(300)
class ReplyBytesTest {
    private static final long SESSION = 11;
    /// Limit of the number of outstanding requests of a connection.
    private static final int REQUESTS = 64;

    private static final ServerOptions OPTIONS = ServerOptions.DEFAULTS
            .withListen(new InetSocketAddress("127.0.0.1", 0))
            .withRowsLog2(10)
            .withOutstandingMax(REQUESTS)
            .withSessionTimeout(Duration.ofDays(1));

    /// Sends one request more than [#REQUESTS], each about `starts` transactions.
    private static CompletableFuture<Void> send(RawClient client, long start, int starts) {
        long[] asked = new long[starts];
        Arrays.fill(asked, start);
        return CompletableFuture.runAsync(
                () -> {
                    try {
                        for (int count = 0; count <= REQUESTS; count++) {
                            client.out.status(count, start, asked, starts);
                            client.send();
                        }
                    } catch (IOException closed) {
                        throw new AssertionError(closed);
                    }
                },
                Thread::startVirtualThread);
    }

    /// Holds the log while connections ask for more than may be outstanding; returns the bytes of the replies that the
    /// server has in memory when all wait. Then all are answered.
    private static long bytesHeld(ServerOptions options, int connections, int starts) throws Exception {
        HeldLog log = new HeldLog();
        try (OracleServer server = OracleServer.start(options, log)) {
            List<RawClient> clients = new ArrayList<>();
            long start = 0;
            for (int number = 0; number < connections; number++) {
                clients.add(new RawClient(server, SESSION + number));
                start = clients.getLast().begin();
            }
            log.hold();
            List<CompletableFuture<Void>> sending = new ArrayList<>();
            for (RawClient client : clients) {
                sending.add(send(client, start, starts));
            }
            server.awaitWaiting(connections);
            long held = server.outstandingBytes();
            log.go();
            for (RawClient client : clients) {
                for (int count = 0; count <= REQUESTS; count++) {
                    assertEquals(count, client.receive().id());
                    assertEquals(starts, client.reply.values());
                }
            }
            for (int number = 0; number < connections; number++) {
                sending.get(number).join();
                clients.get(number).close();
            }
            server.settle();
            assertEquals(0, server.outstandingBytes());
            return held;
        }
    }

    @Test
    void connectionWaitsForBytesOfReplies() throws Exception {
        for (int threads = 0; threads < 2; threads++) {
            int starts = 1 << 13;
            long held = bytesHeld(OPTIONS.withNetworkThreads(threads), 1, starts);
            long reply = Protocol.HEADER_BYTES + (long) starts * Long.BYTES;
            assertTrue(held < Decider.OUTSTANDING_BYTES_MAX + reply, "D3: " + held + " bytes");
        }
    }

    @Test
    void batchesAreBoundedOverAllConnections() throws Exception {
        int starts = 1 << 13;
        long held = bytesHeld(OPTIONS, 8, starts);
        long reply = Protocol.HEADER_BYTES + (long) starts * Long.BYTES;
        // One batch is in flight, and one is open.
        assertTrue(held < 2 * (Persister.REPLIES_BYTES_MAX + reply), "D3: " + held + " bytes");
    }

    @Test
    void longestRepliesAreAnsweredOneByOne() throws Exception {
        int starts = Protocol.STARTS_MAX;
        long held = bytesHeld(OPTIONS, 1, starts);
        long reply = Protocol.HEADER_BYTES + (long) starts * Long.BYTES;
        assertTrue(held <= 2 * reply, "D3: " + held + " bytes");
    }
}
