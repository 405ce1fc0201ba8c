package cedrat.oracle.server;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cedrat.oracle.log.VolatileLog;
import cedrat.oracle.protocol.ErrorCode;
import cedrat.oracle.protocol.FrameWriter;
import cedrat.oracle.protocol.Protocol;
import cedrat.oracle.server.cluster.RawClient;
import io.netty.buffer.ByteBufAllocator;
import io.netty.buffer.ByteBufAllocatorMetricProvider;
import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.net.InetSocketAddress;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.SplittableRandom;
import java.util.stream.LongStream;
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
        connectionsOfClientAreLimited(Fault.NONE);
    }

    private void connectionsOfClientAreLimited(Fault fault) throws Exception {
        for (int threads = 0; threads < 3; threads++) {
            try (OracleServer server = OracleServer.start(
                            limited("connections=2").withNetworkThreads(threads), new VolatileLog(), fault);
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
        requestsAboveLimitsWait(Fault.NONE);
    }

    private void requestsAboveLimitsWait(Fault fault) throws Exception {
        for (String limits :
                new String[] {"outstanding=3", "rate=1000", "bytes=40", "outstanding=5 rate=2000 bytes=64"}) {
            for (int threads = 0; threads < 3; threads++) {
                ServerOptions options = limited(limits).withNetworkThreads(threads);
                try (OracleServer server = OracleServer.start(options, new VolatileLog(), fault)) {
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

    @Test
    void batchUsesRateOfItsRequests() throws Exception {
        batchUsesRateOfItsRequests(Fault.NONE);
    }

    /// The ping arrives with the batch, and waits for another second.
    private void batchUsesRateOfItsRequests(Fault fault) throws Exception {
        try (OracleServer server = OracleServer.start(limited("rate=100"), new VolatileLog(), fault);
                RawClient client = new RawClient(server, 1)) {
            client.out.endBatch(client.out.beginBatch(client.id(), 0, 0, 0, 0, 200));
            client.out.plain(Protocol.PING, client.id());
            client.send().receive();
            assertEquals(Protocol.BATCH, client.reply.request());
            client.receive();
            assertEquals(Protocol.PING, client.reply.request());
            assertTrue(server.reading().limited()[Limits.Kind.RATE.ordinal()] > 0, "the batch counts as one request");
        }
    }

    @Test
    void framesUseRateOfTheirContent() throws Exception {
        framesUseRateOfTheirContent(Fault.NONE);
    }

    /// Transactions are counted, and 64 rows of a commit as one: the ping behind each frame waits.
    private void framesUseRateOfTheirContent(Fault fault) throws Exception {
        long[] many = LongStream.rangeClosed(1, 200).toArray();
        long[] rows = LongStream.range(0, 13_000).toArray();
        try (OracleServer server = OracleServer.start(limited("rate=100"), new VolatileLog(), fault)) {
            for (int frame = 0; frame < 3; frame++) {
                try (RawClient client = new RawClient(server, frame + 1)) {
                    long start = client.begin();
                    long before = server.reading().limited()[Limits.Kind.RATE.ordinal()];
                    switch (frame) {
                        case 0 -> client.out.status(client.id(), start, many, many.length);
                        case 1 -> client.out.starts(Protocol.CLEANED, 0, client.id(), many, 0, many.length);
                        default -> client.out.commit(client.id(), start, rows, rows.length, many, many.length);
                    }
                    client.out.plain(Protocol.PING, client.id());
                    client.send().receive();
                    client.receive();
                    long after = server.reading().limited()[Limits.Kind.RATE.ordinal()];
                    assertTrue(after > before, "frame " + frame + " counts as one request");
                }
            }
        }
    }

    @Test
    void changedLimitsApplyToLaterHellos() throws Exception {
        changedLimitsApplyToLaterHellos(Fault.NONE);
    }

    private void changedLimitsApplyToLaterHellos(Fault fault) throws Exception {
        try (OracleServer server = OracleServer.start(limited("connections=1"), new VolatileLog(), fault);
                RawClient first = new RawClient(server, 1)) {
            roles("administrator *", "limits connections=20");
            server.authentication().refreshNow();
            try (RawClient second = new RawClient(server, 2)) {
                assertTrue(first.begin() < second.begin());
            }
        }
    }

    @Test
    void cutConnectionsLeaveNothing() throws Exception {
        cutConnectionsLeaveNothing(Fault.NONE);
    }

    /// Connections are cut in each state: within a frame, while they are held, while their replies wait for the log,
    /// with more bytes than permitted, after a refusal. Then nothing is counted any more.
    private void cutConnectionsLeaveNothing(Fault fault) throws Exception {
        SplittableRandom random = new SplittableRandom(7);
        for (int threads = 0; threads < 2; threads++) {
            HeldLog log = new HeldLog();
            ServerOptions options =
                    limited("connections=40 outstanding=6 bytes=300").withNetworkThreads(threads);
            try (OracleServer server = OracleServer.start(options, log, fault)) {
                for (int round = 0; round < 10; round++) {
                    List<RawClient> clients = new ArrayList<>();
                    log.hold();
                    for (int count = 0; count < 20; count++) {
                        RawClient client = new RawClient(server);
                        clients.add(client);
                        client.send(hostile(client, random, 1 + random.nextInt(15)));
                    }
                    server.settle();
                    if (random.nextBoolean()) {
                        log.go();
                        server.settle();
                    }
                    for (RawClient client : clients) {
                        client.close();
                    }
                    log.go();
                    while (server.connections() > 0) {
                        Thread.onSpinWait();
                    }
                    for (int turns = 0; turns < 100 && server.accounts() > 0; turns++) {
                        server.settle();
                    }
                    assertEquals(0, server.accounts(), "round " + round);
                    assertEquals(0, server.outstanding());
                }
                new RawClient(server, 1000).close();
            }
        }
    }

    /// A hello, and requests of which the last one is cut, or invalid.
    private static byte[] hostile(RawClient client, SplittableRandom random, long session) {
        FrameWriter out = client.out;
        if (random.nextInt(10) > 0) {
            out.hello(client.id(), 1, 1 + random.nextInt(Protocol.VERSION), session);
        }
        for (int count = random.nextInt(20); count > 0; count--) {
            switch (random.nextInt(6)) {
                case 0 -> out.endBatch(out.beginBatch(client.id(), 0, 0, 0, 0, random.nextInt(Protocol.BATCH_MAX + 2)));
                case 1 -> out.endBatch(out.beginBatch(client.id(), 1, 1, 1, 1, 1));
                case 2 -> out.starts(Protocol.CLEANED, 0, client.id(), new long[] {1, 2, 3}, 0, 3);
                case 3 -> out.hello(client.id(), 1, Protocol.VERSION, session);
                case 4 -> out.commit(client.id(), 1, new long[] {3, 4}, 2, new long[0], 0);
                default -> out.plain(Protocol.BEGIN, client.id());
            }
        }
        byte[] bytes = Arrays.copyOf(out.bytes(), random.nextInt(out.length() + 1));
        out.clear();
        return bytes;
    }

    @Test
    void plantedFaultsAreFound() {
        assertThrows(AssertionError.class, () -> connectionsOfClientAreLimited(Fault.IGNORES_LIMITS));
        assertThrows(AssertionError.class, () -> requestsAboveLimitsWait(Fault.IGNORES_LIMITS));
        assertThrows(AssertionError.class, () -> batchUsesRateOfItsRequests(Fault.COUNTS_FRAMES));
        assertThrows(AssertionError.class, () -> framesUseRateOfTheirContent(Fault.COUNTS_FRAMES));
        assertThrows(AssertionError.class, () -> changedLimitsApplyToLaterHellos(Fault.KEEPS_ROLES));
        assertThrows(AssertionError.class, () -> cutConnectionsLeaveNothing(Fault.KEEPS_CUT_CONNECTIONS));
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
            // An entry that the opening has appended may be on its way: it would pass for that of the first client.
            while (server.outstanding() != 0) {
                Thread.onSpinWait();
            }
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
            long buffersBefore = bufferBytes();
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
            long buffers = bufferBytes() - buffersBefore;
            assertTrue(buffers < 64 << 20, buffers + " bytes of buffers");
        } finally {
            for (RawClient client : clients) {
                client.close();
            }
        }
    }

    /// Peers that begin a handshake and do not go on: each has a record of TLS, which must arrive entirely.
    @Test
    void slowHandshakesTakeBoundedMemory() throws Exception {
        int count = 1000;
        Authority authority = new Authority(folder.resolve("authority"));
        ServerOptions options = options().withTls(authority.issue("server", "127.0.0.1", authority));
        byte[] record = new byte[16_000];
        record[0] = 22;
        record[1] = 3;
        record[2] = 1;
        record[3] = 0x40;
        List<RawClient> clients = new ArrayList<>();
        try (OracleServer server = OracleServer.start(options, new VolatileLog())) {
            long heapBefore = heapBytes();
            long buffersBefore = bufferBytes();
            byte[] bytes = new byte[0];
            while (clients.size() < count) {
                clients.add(new RawClient(server.address(), bytes).send(record));
            }
            while (server.connections() < count) {
                Thread.onSpinWait();
            }
            server.settle();
            long heap = (heapBytes() - heapBefore) / count;
            assertTrue(heap < 16_384, heap + " bytes of heap for each connection and its client");
            long buffers = (bufferBytes() - buffersBefore) / count;
            assertTrue(buffers < 65_536, buffers + " bytes of buffers for each connection");
        } finally {
            for (RawClient client : clients) {
                client.close();
            }
        }
    }

    /// The bytes that Netty has allocated for buffers, whether they are used or not.
    private static long bufferBytes() {
        return ((ByteBufAllocatorMetricProvider) ByteBufAllocator.DEFAULT)
                .metric()
                .usedDirectMemory();
    }

    private static long heapBytes() {
        System.gc();
        return ManagementFactory.getMemoryMXBean().getHeapMemoryUsage().getUsed();
    }
}
