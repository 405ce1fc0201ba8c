package cedrat.oracle.server;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cedrat.oracle.client.ClientClosedException;
import cedrat.oracle.client.ClientOptions;
import cedrat.oracle.client.OracleClient;
import cedrat.oracle.client.OracleIdentity;
import cedrat.oracle.client.StartTimestamp;
import cedrat.oracle.log.EntryWriter;
import cedrat.oracle.log.Identities;
import cedrat.oracle.protocol.ErrorCode;
import cedrat.oracle.protocol.FrameWriter;
import cedrat.oracle.protocol.Protocol;
import cedrat.oracle.protocol.ProtocolException;
import cedrat.oracle.protocol.RequestReader;
import cedrat.oracle.server.cluster.RawClient;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.time.Duration;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/// O5e and O6d: an oracle has one identity, and a client goes on only with the oracle that it knows.
@Timeout(300)
class IdentityTest {
    private static final long SESSION = 11;
    private static final long OTHER = 0x7172737475767778L;

    private static final ServerOptions OPTIONS = ServerOptions.DEFAULTS
            .withListen(new InetSocketAddress("127.0.0.1", 0))
            .withRowsLog2(8)
            .withSessionTimeout(Duration.ofDays(1));

    private static OracleServer start(HeldLog log) throws Exception {
        return OracleServer.start(OPTIONS, log);
    }

    private static OracleClient connect(InetSocketAddress address) {
        return OracleClient.open(ClientOptions.of(address).withReconnect(Duration.ofMillis(1), Duration.ofMillis(20)));
    }

    private static long identity(OracleServer server) throws Exception {
        try (RawClient client = new RawClient(server.address(), SESSION, Protocol.VERSION)) {
            return client.reply.identity();
        }
    }

    private static RawClient hello(OracleServer server, long identity) throws Exception {
        RawClient client = new RawClient(server);
        client.out.hello(client.id(), 1, Protocol.VERSION, SESSION, identity, identity);
        return client;
    }

    /// O6d.
    @Test
    void helloToAnotherOracleDecidesNothing() throws Exception {
        try (OracleServer server = start(new HeldLog())) {
            long identity = identity(server);
            try (RawClient client = hello(server, OTHER)) {
                client.out.namespace(client.id(), 5, 0);
                client.out.plain(Protocol.BEGIN, client.id());
                client.send().refused(ErrorCode.OTHER_ORACLE, true);
                String said = client.reply.errorText();
                assertTrue(said.contains(HexFormat.of().toHexDigits(OTHER)), said);
                assertTrue(said.contains(HexFormat.of().toHexDigits(identity)), said);
                client.awaitClosed();
            }
            try (RawClient client = hello(server, identity)) {
                assertEquals(identity, client.send().receive().identity());
                assertEquals(1, client.begin(), "nothing had begun");
                assertEquals(1, server.reading().sessions());
            }
        }
    }

    /// O5e: no reply states an identity that a restart could lose.
    @Test
    void identityIsStatedWhenItIsKept() throws Exception {
        HeldLog log = new HeldLog();
        long identity;
        try (OracleServer server = start(log)) {
            identity = identity(server);
        }
        assertEquals(identity, identityOf(log.kept().subList(0, 1)));
    }

    private static long identityOf(List<byte[]> entries) throws Exception {
        try (OracleServer server = start(new HeldLog(1, entries))) {
            return identity(server);
        }
    }

    /// O5e.
    @Test
    void identityOutlivesForgottenEntriesAndRestarts() throws Exception {
        HeldLog log = new HeldLog();
        long identity;
        try (OracleServer server = start(log);
                RawClient client = new RawClient(server, SESSION + 1)) {
            identity = identity(server);
            while (log.kept().size() == log.everything().size()) {
                client.commit(client.begin(), client.id());
            }
        }
        List<byte[]> kept = log.kept();
        assertEquals(identity, identityOf(kept));
        assertNotEquals(identity, identityOf(List.of()), "another log has another identity");
    }

    /// O5e.
    @Test
    void logOfEarlierVersionGetsOneIdentity() throws Exception {
        EntryWriter entry = new EntryWriter();
        entry.begin(0);
        entry.close(7);
        HeldLog log = new HeldLog(1, List.of(Arrays.copyOf(entry.bytes(), entry.length())));
        long identity;
        try (OracleServer server = start(log)) {
            identity = identity(server);
            try (RawClient client = hello(server, identity)) {
                client.send().receive();
                assertEquals(8, client.begin());
            }
        }
        assertEquals(identity, identityOf(log.kept()));
    }

    @Test
    void initialisedLogHasDrawnIdentity() throws Exception {
        assertEquals(OTHER, identityOf(List.of(Identities.firstEntry(OTHER))));
    }

    /// O6d: also with requests outstanding, and transactions open.
    @Test
    void clientOfReplacedOracleCloses() throws Exception {
        HeldLog log = new HeldLog();
        OracleServer first = start(log);
        InetSocketAddress address = first.address();
        try (OracleClient client = connect(address)) {
            OracleIdentity identity;
            StartTimestamp open;
            CompletableFuture<?> outstanding;
            try (first) {
                identity = client.identity().orElseThrow();
                open = client.begin();
                client.use(5);
                log.die();
                outstanding = client.commitAsync(open, 7);
                log.awaitAppends(log.appends());
            }
            try (OracleServer other = OracleServer.start(OPTIONS.withListen(address), new HeldLog())) {
                ExecutionException failed = assertThrows(ExecutionException.class, outstanding::get);
                assertRefused((ClientClosedException) failed.getCause(), identity);
                assertRefused(assertThrows(ClientClosedException.class, client::begin), identity);
                assertRefused(assertThrows(ClientClosedException.class, () -> client.resolve(open)), identity);
                try (OracleClient fresh = connect(other.address())) {
                    assertNotEquals(identity, fresh.identity().orElseThrow());
                    assertEquals(1, fresh.begin().value(), "the other oracle has decided nothing");
                }
            }
        }
    }

    private static void assertRefused(ClientClosedException refused, OracleIdentity known) {
        assertEquals(ErrorCode.OTHER_ORACLE, refused.code(), refused::toString);
        assertTrue(refused.getMessage().contains("the client knows the oracle " + known), refused::toString);
    }

    @Test
    void clientResumesAfterOracleRestarts() throws Exception {
        HeldLog log = new HeldLog();
        OracleServer first = start(log);
        InetSocketAddress address = first.address();
        try (OracleClient client = connect(address)) {
            Optional<OracleIdentity> identity;
            try (first) {
                identity = client.identity();
                assertEquals(1, client.begin().value());
            }
            try (OracleServer again = OracleServer.start(OPTIONS.withListen(address), new HeldLog(1, log.kept()))) {
                assertEquals(2, client.begin().value());
                assertEquals(identity, client.identity());
                assertEquals(address, again.address());
            }
        }
    }

    @Test
    void clientsWithoutIdentitiesAreServed() throws Exception {
        try (OracleServer server = start(new HeldLog())) {
            for (int version = 1; version < Protocol.VERSION_IDENTITY; version++) {
                try (RawClient client = new RawClient(server.address(), SESSION + version, version)) {
                    assertEquals(version, client.reply.version());
                    assertEquals(Protocol.IDENTITY_NONE, client.reply.identity());
                    assertEquals(version, client.begin());
                }
            }
        }
    }

    /// Answers on one connection, up to the first ping; returns the identity in its hello. Without an identity it is a
    /// server of version 2.
    private static long answer(ServerSocket listening, long identity) {
        RequestReader in = new RequestReader(Protocol.ROWS_MAX);
        FrameWriter out = new FrameWriter(64);
        byte[] bytes = new byte[1 << 12];
        int from = 0;
        int end = 0;
        long known = 0;
        try (Socket socket = listening.accept()) {
            while (true) {
                int length = in.next(bytes, from, end);
                if (length == 0) {
                    end += socket.getInputStream().read(bytes, end, bytes.length - end);
                    continue;
                }
                from += length;
                switch (in.kind()) {
                    case Protocol.HELLO -> {
                        known = in.identity();
                        if (identity == 0 && in.versionLowest() > 2) {
                            out.error(in.id(), Protocol.FLAG_CLOSING, ErrorCode.VERSION, "versions 1 to 2");
                            socket.getOutputStream().write(out.bytes(), 0, out.length());
                            return known;
                        }
                        out.welcome(in.id(), identity == 0 ? 2 : 3, Integer.MAX_VALUE, 10, 10, identity, identity);
                    }
                    case Protocol.ANNOUNCE -> out.values(Protocol.ANNOUNCE, in.id(), 0);
                    default -> out.done(Protocol.PING, in.id());
                }
                socket.getOutputStream().write(out.bytes(), 0, out.length());
                out.clear();
                if (in.kind() == Protocol.PING) {
                    return known;
                }
            }
        } catch (IOException | ProtocolException problem) {
            throw new AssertionError(problem);
        }
    }

    /// P1: the identity lies within the frame; the server goes on serving others.
    @Test
    void truncatedHelloIsRefused() throws Exception {
        try (OracleServer server = start(new HeldLog())) {
            for (int missing = 1; missing <= 2 * Long.BYTES; missing++) {
                try (RawClient client = new RawClient(server)) {
                    FrameWriter out = new FrameWriter(64);
                    out.hello(1, 1, Protocol.VERSION, SESSION, OTHER, OTHER);
                    byte[] hello = Arrays.copyOf(out.bytes(), out.length() - missing);
                    hello[0] -= (byte) missing; // the length
                    client.send(hello).refused(ErrorCode.MALFORMED, true);
                    client.awaitClosed();
                }
            }
            assertEquals(0, server.reading().sessions());
            assertNotEquals(0, identity(server));
        }
    }

    /// A server of version 2 states no identity. It cannot read the log of an oracle with an identity, so a client that
    /// knows one offers it no version, and it decides nothing.
    @Test
    void serverWithoutIdentityIsUsedAtFirst() throws Exception {
        try (ServerSocket listening = new ServerSocket(0, 1, InetAddress.getLoopbackAddress());
                OracleClient client = connect((InetSocketAddress) listening.getLocalSocketAddress())) {
            Optional<OracleIdentity> learned = Optional.of(new OracleIdentity(OTHER));
            assertAnswer(listening, client, 0, 0, Optional.empty());
            assertAnswer(listening, client, OTHER, 0, learned);
            CompletableFuture<Long> said =
                    CompletableFuture.supplyAsync(() -> answer(listening, 0), Thread::startVirtualThread);
            ClientClosedException refused = assertThrows(ClientClosedException.class, client::identity);
            assertEquals(ErrorCode.VERSION, refused.code());
            assertEquals(OTHER, said.join());
        }
    }

    private static void assertAnswer(
            ServerSocket listening, OracleClient client, long stated, long known, Optional<OracleIdentity> expected) {
        CompletableFuture<Long> said =
                CompletableFuture.supplyAsync(() -> answer(listening, stated), Thread::startVirtualThread);
        assertEquals(expected, client.identity());
        assertEquals(known, said.join());
    }
}
