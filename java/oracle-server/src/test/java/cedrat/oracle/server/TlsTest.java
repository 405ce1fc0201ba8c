package cedrat.oracle.server;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cedrat.oracle.client.ClientOptions;
import cedrat.oracle.client.OracleClient;
import cedrat.oracle.client.Outcome;
import cedrat.oracle.client.StartTimestamp;
import cedrat.oracle.client.UnavailableException;
import cedrat.oracle.log.VolatileLog;
import cedrat.oracle.protocol.Protocol;
import cedrat.oracle.tls.TlsOptions;
import cedrat.oracle.transport.Tls;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.FileTime;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.stream.LongStream;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/// O6f: over TLS a server decides nothing for a peer without a certificate of its authorities, and a client
/// asks nothing of a server whose certificate does not name its host.
@Timeout(300)
class TlsTest {
    private static final String HOST = "127.0.0.1";
    private static final InetSocketAddress ANY = new InetSocketAddress(HOST, 0);
    private static final ServerOptions PLAIN =
            ServerOptions.DEFAULTS.withListen(ANY).withRowsLog2(10);

    @TempDir
    private static Path folder;

    private static Authority ours;
    private static Authority others;
    private static TlsOptions serverFiles;
    private static TlsOptions clientFiles;

    @BeforeAll
    static void issue() throws Exception {
        ours = new Authority(folder.resolve("ours"));
        others = new Authority(folder.resolve("others"));
        serverFiles = ours.issue("server", HOST, ours);
        clientFiles = ours.issue("client", HOST, ours);
    }

    private static OracleServer server(TlsOptions files) throws Exception {
        return OracleServer.start(PLAIN.withTls(files), new VolatileLog());
    }

    private static ClientOptions client(OracleServer server, TlsOptions files) {
        return plain(server).withTls(files);
    }

    private static ClientOptions plain(OracleServer server) {
        return ClientOptions.of(server.address())
                .withReconnect(Duration.ofMillis(1), Duration.ofMillis(20))
                .withPatience(Duration.ofSeconds(60));
    }

    /// Fails if the client can begin a transaction. Returns why it cannot.
    private static String refused(ClientOptions options) {
        try (OracleClient client = OracleClient.open(options.withPatience(Duration.ofSeconds(3)))) {
            return assertThrows(UnavailableException.class, client::begin).getMessage();
        }
    }

    private static void assertServes(ClientOptions options) {
        try (OracleClient client = OracleClient.open(options)) {
            assertTrue(client.begin().value() > 0);
        }
    }

    @Test
    void clientsOfItsAuthoritiesAreServed() throws Exception {
        long[] rows = LongStream.rangeClosed(1, Protocol.ROWS_MAX).toArray();
        for (int threads = 0; threads < 3; threads++) {
            ServerOptions options = PLAIN.withTls(serverFiles).withNetworkThreads(threads);
            try (OracleServer server = OracleServer.start(options, new VolatileLog());
                    OracleClient client = OracleClient.open(client(server, clientFiles))) {
                assertEquals(
                        Outcome.Kind.COMMITTED,
                        client.commit(client.begin(), rows).kind());
                List<CompletableFuture<StartTimestamp>> begun = new ArrayList<>();
                for (int count = 0; count < 5000; count++) {
                    begun.add(client.beginAsync());
                }
                assertEquals(
                        5000,
                        begun.stream().map(CompletableFuture::join).distinct().count());
                assertEquals(0, server.handshakesFailed());
            }
        }
    }

    @Test
    void otherAuthoritiesAreRefused() throws Exception {
        try (OracleServer server = server(serverFiles)) {
            String why = refused(client(server, others.issue("stranger", HOST, ours)));
            assertTrue(why.contains("TLS: "), why);
            assertTrue(server.handshakesFailed() > 0);
            why = refused(client(server, others.issue("distrustful", HOST, others)));
            assertTrue(why.contains("TLS: "), why);
            assertEquals(0, server.reading().begun());
            assertServes(client(server, clientFiles));
        }
    }

    @Test
    void serverOfAnotherHostIsRefused() throws Exception {
        try (OracleServer server = server(ours.issue("elsewhere", "oracle.example.org", ours))) {
            String why = refused(client(server, clientFiles));
            assertTrue(why.contains("TLS: "), why);
            assertTrue(why.contains(HOST), why);
            assertEquals(0, server.reading().begun());
        }
    }

    @Test
    void plainPeersAreRefused() throws Exception {
        try (OracleServer server = server(serverFiles)) {
            String why = refused(plain(server));
            assertTrue(why.contains("only one side uses TLS"), why);
            assertEquals(0, server.reading().begun());
        }
        ServerOptions impatient = PLAIN.withHelloTimeout(Duration.ofMillis(100));
        try (OracleServer server = OracleServer.start(impatient, new VolatileLog())) {
            String why = refused(client(server, clientFiles));
            assertTrue(why.contains("only one side uses TLS"), why);
        }
    }

    @Test
    void connectionWithoutHandshakeIsClosed() throws Exception {
        ServerOptions options = PLAIN.withTls(serverFiles).withHelloTimeout(Duration.ofMillis(100));
        try (OracleServer server = OracleServer.start(options, new VolatileLog());
                Socket mute = new Socket(HOST, server.address().getPort())) {
            while (mute.getInputStream().read() >= 0) {
                // an alert of TLS, at most
            }
            assertEquals(1, server.handshakesFailed());
        }
    }

    /// Files that cannot be used leave those from before in use.
    @Test
    void certificatesAreRenewedWhileServing() throws Exception {
        TlsOptions files = ours.issue("renewed", HOST, ours);
        try (OracleServer server = server(files)) {
            assertServes(client(server, clientFiles));
            byte[] good = Files.readAllBytes(files.certificate());
            replace(files.certificate(), new byte[] {1}, 1);
            assertServes(client(server, clientFiles));
            replace(files.certificate(), good, 2);
            replace(files.authorities(), others.certificate().getBytes(StandardCharsets.US_ASCII), 2);
            refused(client(server, clientFiles));
            assertServes(client(server, others.issue("successor", HOST, ours)));
        }
    }

    /// The time is given, because the clock of a file system may be coarse.
    private static void replace(Path file, byte[] bytes, int seconds) throws Exception {
        Files.write(file, bytes);
        Files.setLastModifiedTime(file, FileTime.fromMillis(System.currentTimeMillis() + 1000L * seconds));
    }

    /// A file that is being replaced, or was deleted.
    @Test
    void unreadableFileFailsOneRefresh() throws Exception {
        TlsOptions files = ours.issue("deleted", HOST, ours);
        Tls tls = Tls.client(files);
        Files.delete(files.key());
        assertTrue(assertThrows(IOException.class, tls::refresh)
                .getMessage()
                .contains(files.key().toString()));
        tls.refresh();
    }

    @Test
    void missingFilesAreNamed() throws Exception {
        Path missing = folder.resolve("missing.pem");
        TlsOptions files = new TlsOptions(missing, clientFiles.key(), clientFiles.authorities());
        ClientOptions options = ClientOptions.of(ANY).withTls(files);
        String why = assertThrows(UncheckedIOException.class, () -> OracleClient.open(options))
                .getMessage();
        assertTrue(why.contains(missing.toString()), why);
        String[] serve = {"serve", "--log", "none", "--port", "0", "--tls-certificate", missing.toString()};
        assertEquals(Main.EXIT_USAGE, Main.run(serve));
        List<String> all = new ArrayList<>(List.of(serve));
        all.addAll(List.of("--tls-key", clientFiles.key().toString()));
        all.addAll(List.of("--tls-authorities", clientFiles.authorities().toString()));
        assertEquals(Main.EXIT_CANNOT_START, Main.run(all.toArray(String[]::new)));
    }
}
