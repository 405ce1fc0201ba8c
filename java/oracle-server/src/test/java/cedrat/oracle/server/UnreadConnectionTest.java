package cedrat.oracle.server;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cedrat.oracle.log.VolatileLog;
import cedrat.oracle.protocol.AdminKind;
import cedrat.oracle.protocol.ErrorCode;
import cedrat.oracle.protocol.Protocol;
import cedrat.oracle.server.cluster.RawClient;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/// Clients that do not read their replies, by accident or design.
@Timeout(120)
@SuppressWarnings("try")
class UnreadConnectionTest {
    private static final long SESSION = 7;
    private static final int ROUNDS = 2000;

    @TempDir
    private Path folder;

    /// Time passes only by [OracleServer#tick] and [OracleServer#helloTick].
    private ServerOptions options(String... roles) throws Exception {
        Path rules = Files.write(folder.resolve("roles"), List.of(roles));
        return ServerOptions.DEFAULTS
                .withListen(new InetSocketAddress("127.0.0.1", 0))
                .withRowsLog2(10)
                .withSessionTimeout(Duration.ofDays(1))
                .withHelloTimeout(Duration.ofDays(1))
                .withRoles(Roles.read(rules));
    }

    private static OracleServer start(ServerOptions options) throws Exception {
        return OracleServer.start(options, new VolatileLog());
    }

    private static void assertConnections(int count, OracleServer server, String why) {
        for (int round = 0; round < ROUNDS && server.connections() != count; round++) {
            server.settle();
        }
        server.settle();
        assertEquals(count, server.connections(), why);
    }

    /// O8e: it would hold the low-water mark for as long as its process lives, or is suspended.
    @Test
    void unreadSessionExpires() throws Exception {
        for (int threads = 0; threads < 2; threads++) {
            try (OracleServer server = start(options("administrator *").withNetworkThreads(threads));
                    UnreadConnection unread = new UnreadConnection(server, SESSION, null)) {
                for (int tick = 0; tick <= Sessions.TICKS; tick++) {
                    server.tick();
                }
                assertEquals(0, server.<Integer>inspect((oracle, sessions) -> sessions.count()));
                assertEquals(0, server.reading().open());
            }
        }
    }

    /// O8e and D8: each connection that is taken over would take memory, and a place in the server.
    @Test
    void replacedConnectionIsClosed() throws Exception {
        for (int threads = 0; threads < 2; threads++) {
            ServerOptions options =
                    options("administrator *", "limits connections=1").withNetworkThreads(threads);
            try (OracleServer server = start(options);
                    UnreadConnection unread = new UnreadConnection(server, SESSION, null);
                    RawClient next = new RawClient(server, SESSION)) {
                assertConnections(1, server, "a replaced connection stays");
                assertTrue(next.begin() > 0);
            }
        }
    }

    /// O8e and D8: it counts until it is closed, which the client cannot delay.
    @Test
    void refusedConnectionCountsUntilClosed() throws Exception {
        for (int threads = 0; threads < 2; threads++) {
            ServerOptions options =
                    options("administrator *", "limits connections=2").withNetworkThreads(threads);
            try (OracleServer server = start(options);
                    UnreadConnection unread = new UnreadConnection(server, SESSION, null);
                    RawClient operator = new RawClient(server, SESSION + 1)) {
                operator.out.admin(operator.id(), AdminKind.END_SESSION, SESSION);
                operator.send().receive();
                assertEquals(Protocol.ADMIN, operator.reply.request());
                try (RawClient third = new RawClient(server)) {
                    third.out.hello(third.id(), 1, Protocol.VERSION, SESSION + 2);
                    third.send().refused(ErrorCode.LIMIT, true);
                }
                for (int tick = 0; tick <= Sessions.TICKS; tick++) {
                    server.helloTick();
                }
                assertConnections(1, server, "a refused connection stays");
                new RawClient(server, SESSION + 2).close();
            }
        }
    }

    /// A4: requests of a stolen token would still be decided.
    @Test
    void removedTokenEndsUnreadConnection() throws Exception {
        for (int threads = 0; threads < 2; threads++) {
            Path tokens = folder.resolve("tokens" + threads);
            byte[] plain = ("\0" + Tokens.add(tokens, "app").replaceFirst(":", "\0")).getBytes(StandardCharsets.UTF_8);
            ServerOptions options = options("client token:app")
                    .withNetworkThreads(threads)
                    .withAuthentication(
                            AuthenticationOptions.NONE.withTokens(tokens).withoutTls());
            try (OracleServer server = start(options);
                    UnreadConnection unread = new UnreadConnection(server, SESSION, plain)) {
                Tokens.remove(tokens, "app", false);
                server.authentication().refreshNow();
                assertConnections(0, server, "a connection by a removed token stays");
            }
        }
    }
}
