package cedrat.oracle.server;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cedrat.oracle.log.VolatileLog;
import cedrat.oracle.protocol.ErrorCode;
import cedrat.oracle.protocol.Protocol;
import cedrat.oracle.server.cluster.RawClient;
import io.netty.buffer.PooledByteBufAllocator;
import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.net.InetSocketAddress;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/// D8: limits of all connections of one client together. Here its name is empty, as without TLS.
@Timeout(120)
class LimitsTest {
    private static final Duration LONG = Duration.ofDays(1);

    @TempDir
    private Path folder;

    private Roles roles(String... lines) throws IOException {
        return Roles.read(Files.write(folder.resolve("roles"), List.of(lines)));
    }

    private static ServerOptions options() {
        return ServerOptions.DEFAULTS
                .withListen(new InetSocketAddress("127.0.0.1", 0))
                .withRowsLog2(10)
                .withSessionTimeout(LONG)
                .withHelloTimeout(LONG);
    }

    private ServerOptions limited(String limits) throws IOException {
        return options().withRoles(roles("administrator *", "limits " + limits));
    }

    @Test
    void firstLineThatFitsCounts() throws Exception {
        Roles roles = roles(
                "client CN=*",
                "limits connections=3 rate=5 CN=a 1=x",
                "limits bytes=9999999999 CN=*",
                "limits   outstanding=7",
                "limits rate=1");
        assertEquals(Limits.NONE.with(Limits.Kind.CONNECTIONS, 3).with(Limits.Kind.RATE, 5), roles.limits("CN=a 1=x"));
        assertEquals(Limits.NONE.with(Limits.Kind.BYTES, 9_999_999_999L), roles.limits("CN=b"));
        assertEquals(Limits.NONE.with(Limits.Kind.OUTSTANDING, 7), roles.limits("token:b"));
        assertEquals(Limits.NONE, Roles.ALL.limits("CN=a"));
        for (String line : new String[] {
            "limits", "limits CN=a", "limits rate=0", "limits rate=x CN=a", "limits rate=-1", "limits rate="
        }) {
            String why = assertThrows(IOException.class, () -> roles("client CN=b", line))
                    .getMessage();
            assertTrue(why.contains("roles, line 2"), why);
        }
    }

    @Test
    void connectionsOfClientAreLimited() throws Exception {
        for (int threads = 0; threads < 3; threads++) {
            try (OracleServer server = OracleServer.start(
                            limited("connections=2").withNetworkThreads(threads), new VolatileLog());
                    RawClient first = new RawClient(server, 1);
                    RawClient second = new RawClient(server, 2)) {
                try (RawClient third = new RawClient(server)) {
                    third.out.hello(third.id(), 1, Protocol.VERSION, 3);
                    third.send().refused(ErrorCode.LIMIT, true);
                    third.awaitClosed();
                }
                try (RawClient again = new RawClient(server, 2)) { // takes over the session
                    second.refused(ErrorCode.TAKEN_OVER, true);
                    assertTrue(first.begin() < again.begin());
                }
                while (server.connections() > 1) {
                    Thread.onSpinWait();
                }
                server.settle();
                new RawClient(server, 3).close();
                assertEquals(1, server.reading().limited()[Limits.Kind.CONNECTIONS.ordinal()]);
            }
        }
    }

    /// Requests above a limit wait; none is refused or lost.
    @Test
    void requestsAboveLimitsWait() throws Exception {
        for (String limits :
                new String[] {"outstanding=3", "rate=1000", "bytes=40", "outstanding=5 rate=2000 bytes=64"}) {
            for (int threads = 0; threads < 3; threads++) {
                ServerOptions options = limited(limits).withNetworkThreads(threads);
                try (OracleServer server = OracleServer.start(options, new VolatileLog())) {
                    List<RawClient> clients = new ArrayList<>();
                    for (int count = 1; count <= 5; count++) {
                        RawClient client = new RawClient(server, count);
                        clients.add(client);
                        for (int request = 0; request < 300; request++) {
                            client.out.plain(Protocol.BEGIN, client.id());
                        }
                        byte[] bytes = Arrays.copyOf(client.out.bytes(), client.out.length());
                        client.out.clear();
                        // Ends within a request, for a while.
                        client.send(Arrays.copyOf(bytes, bytes.length / 2 + 3));
                        client.send(Arrays.copyOfRange(bytes, bytes.length / 2 + 3, bytes.length));
                    }
                    for (RawClient client : clients) {
                        for (int request = 0; request < 300; request++) {
                            client.receive();
                            assertEquals(Protocol.BEGIN, client.reply.request(), limits);
                        }
                    }
                    assertEquals(1500, server.reading().begun());
                    boolean isLimited =
                            Arrays.stream(server.reading().limited()).sum() > 0;
                    // The bytes of parts of requests depend on when they are read.
                    assertTrue(isLimited || limits.startsWith("bytes"), limits);
                    for (RawClient client : clients) {
                        client.close();
                    }
                }
            }
        }
    }

    /// A client with many unanswered requests makes no other client wait.
    @Test
    void otherClientsAreNotHeld() throws Exception {
        Path tokens = folder.resolve("tokens");
        String greedy = Tokens.add(tokens, "greedy");
        String modest = Tokens.add(tokens, "modest");
        ServerOptions options = options()
                .withRoles(roles("client token:*", "limits rate=1 token:greedy"))
                .withAuthentication(
                        AuthenticationOptions.NONE.withTokens(tokens).withoutTls());
        try (OracleServer server = OracleServer.start(options, new VolatileLog());
                RawClient first = new RawClient(server);
                RawClient second = new RawClient(server)) {
            AuthenticationTest.authenticate(first, greedy);
            first.out.hello(first.id(), 1, Protocol.VERSION, 1);
            for (int count = 0; count < 100; count++) {
                first.out.plain(Protocol.BEGIN, first.id());
            }
            first.send();
            AuthenticationTest.authenticate(second, modest);
            second.out.hello(second.id(), 1, Protocol.VERSION, 2);
            second.send().receive();
            for (int count = 0; count < 1000; count++) {
                assertTrue(second.begin() > 0);
            }
            assertTrue(server.reading().limited()[Limits.Kind.RATE.ordinal()] > 0);
        }
    }

    /// A silent connection that waits for room is not silent by its own fault.
    @Test
    void heldSessionsDoNotExpire() throws Exception {
        HeldLog log = new HeldLog();
        try (OracleServer server = OracleServer.start(limited("outstanding=1 bytes=10"), log);
                RawClient first = new RawClient(server, 1);
                RawClient second = new RawClient(server, 2)) {
            log.hold();
            first.out.plain(Protocol.BEGIN, first.id());
            first.send();
            while (server.outstanding() == 0) {
                Thread.onSpinWait();
            }
            second.out.plain(Protocol.BEGIN, second.id());
            second.send();
            while (server.reading().limited()[Limits.Kind.OUTSTANDING.ordinal()] < 2) {
                Thread.onSpinWait();
            }
            for (int tick = 0; tick <= Sessions.TICKS + 1; tick++) {
                server.tick();
            }
            log.go();
            first.receive();
            assertEquals(Protocol.BEGIN, first.reply.request());
            second.receive();
            assertEquals(Protocol.BEGIN, second.reply.request());
        }
    }

    /// The memory of connections that say no more than a hello, or not even that. The limit of open files bounds their
    /// number here, as both ends are in this process.
    @Test
    void idleConnectionsTakeLittleMemory() throws Exception {
        int count = (int) Math.min(10_000, (FileLimit.files() - 1000) / 2);
        ServerOptions options = options().withConnectionsMax(count);
        List<RawClient> clients = new ArrayList<>();
        try (OracleServer server = OracleServer.start(options, new VolatileLog())) {
            byte[] bytes = new byte[0];
            long before = heapBytes();
            while (clients.size() < count) {
                RawClient client = new RawClient(server.address(), bytes);
                clients.add(client);
                if (clients.size() % 2 == 0) {
                    client.out.hello(1, 1, Protocol.VERSION, clients.size());
                    client.send();
                }
            }
            while (server.connections() < count
                    || server.<Integer>inspect((oracle, sessions) -> sessions.count()) < count / 2) {
                Thread.onSpinWait();
            }
            server.settle();
            assertEquals(0, server.authentication().waitingBytes());
            assertEquals(0, server.outstandingBytes());
            long each = (heapBytes() - before) / count;
            assertTrue(each < 16_384, each + " bytes of heap for each connection and its client");
            long pinned = PooledByteBufAllocator.DEFAULT.pinnedDirectMemory();
            assertTrue(pinned < 64 << 20, pinned + " bytes of buffers");
        } finally {
            for (RawClient client : clients) {
                client.close();
            }
        }
    }

    private static long heapBytes() {
        System.gc();
        return ManagementFactory.getMemoryMXBean().getHeapMemoryUsage().getUsed();
    }
}
