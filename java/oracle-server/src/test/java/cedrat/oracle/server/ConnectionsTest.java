package cedrat.oracle.server;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cedrat.oracle.client.ClientOptions;
import cedrat.oracle.client.OracleClient;
import cedrat.oracle.protocol.ErrorCode;
import cedrat.oracle.server.cluster.RawClient;
import java.io.InputStream;
import java.net.InetSocketAddress;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/// Limits of connections: their number, and the time until the hello.
@Timeout(300)
class ConnectionsTest {
    private static final InetSocketAddress ANY = new InetSocketAddress("127.0.0.1", 0);
    private static final int MAX = 3;
    private static final ServerOptions OPTIONS =
            ServerOptions.DEFAULTS.withListen(ANY).withRowsLog2(10).withSessionTimeout(Duration.ofDays(1));

    private static String ask(OperationServer operation, String path) throws Exception {
        URI uri = URI.create("http://127.0.0.1:" + operation.address().getPort() + path);
        try (InputStream body = uri.toURL().openStream()) {
            return new String(body.readAllBytes(), StandardCharsets.UTF_8);
        }
    }

    @Test
    void tooManyConnectionsAreRefused() throws Exception {
        for (int threads = 0; threads < 3; threads++) {
            HeldLog log = new HeldLog();
            ServerOptions options = OPTIONS.withHelloTimeout(Duration.ofDays(1))
                    .withConnectionsMax(MAX)
                    .withNetworkThreads(threads);
            try (OperationServer operation = new OperationServer(ANY, new Health());
                    OracleServer server = OracleServer.start(options, log)) {
                operation.serving(server);
                List<RawClient> admitted = new ArrayList<>();
                for (int count = 0; count < MAX; count++) {
                    admitted.add(new RawClient(server, count + 1));
                }
                log.hold(); // a refusal of the connection itself waits for no append
                for (int count = 0; count < MAX; count++) {
                    try (RawClient refused = new RawClient(server)) {
                        refused.refused(ErrorCode.HELLO, true);
                        assertTrue(refused.reply.errorText().contains("--connections-max"));
                        refused.awaitClosed();
                    }
                }
                log.go();
                assertTrue(ask(operation, "/health").contains("\"serving\""));
                String metrics = ask(operation, "/metrics");
                assertTrue(metrics.contains("\ncedrat_oracle_connections " + MAX + ".0\n"), metrics);
                assertTrue(metrics.contains("\ncedrat_oracle_connections_refused_total " + MAX + ".0\n"), metrics);
                // A client that was refused tries again, and is served when a connection is closed.
                try (OracleClient client = OracleClient.open(ClientOptions.of(server.address()))) {
                    while (server.connectionsRefused() == MAX) {
                        Thread.onSpinWait();
                    }
                    admitted.removeLast().close();
                    assertTrue(client.begin().value() > 0);
                }
                for (RawClient client : admitted) {
                    client.begin();
                    client.close();
                }
            }
        }
    }

    /// The time-out of sessions makes no difference.
    @Test
    void hellosAreAwaitedFromAcceptance() throws Exception {
        ServerOptions options = OPTIONS.withHelloTimeout(Duration.ofMillis(100));
        try (OracleServer server = OracleServer.start(options, new HeldLog());
                RawClient mute = new RawClient(server);
                RawClient half = new RawClient(server)) {
            half.send(new byte[] {36, 0, 0});
            for (RawClient client : List.of(mute, half)) {
                client.refused(ErrorCode.HELLO, true);
                assertTrue(client.reply.errorText().contains("100 ms"), client.reply.errorText());
                client.awaitClosed();
            }
        }
    }

    @Test
    void limitAboveFilesIsRefused() {
        String message = assertThrows(
                        IllegalArgumentException.class, () -> OPTIONS.withConnectionsMax(Integer.MAX_VALUE))
                .getMessage();
        assertTrue(message.contains("ulimit -n"), message);
        assertEquals(1024 - FileLimit.RESERVED, FileLimit.connections(1024));
        assertEquals(1, FileLimit.connections(100));
        assertEquals(Integer.MAX_VALUE, FileLimit.connections(Long.MAX_VALUE));
        assertEquals(Main.EXIT_USAGE, Main.run("serve", "--log", "none", "--connections-max", "" + Integer.MAX_VALUE));
    }
}
