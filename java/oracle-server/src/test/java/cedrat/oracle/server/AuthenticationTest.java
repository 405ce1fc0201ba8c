package cedrat.oracle.server;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cedrat.oracle.authentication.Credentials;
import cedrat.oracle.client.ClientClosedException;
import cedrat.oracle.client.ClientOptions;
import cedrat.oracle.client.OracleClient;
import cedrat.oracle.client.Outcome;
import cedrat.oracle.client.RefusedException;
import cedrat.oracle.client.UnavailableException;
import cedrat.oracle.log.VolatileLog;
import cedrat.oracle.protocol.ErrorCode;
import cedrat.oracle.protocol.Mechanism;
import cedrat.oracle.protocol.Protocol;
import cedrat.oracle.server.cluster.RawClient;
import cedrat.oracle.tls.TlsOptions;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/// O6m: clients with tokens, and connections that begin in every other way.
@Timeout(300)
class AuthenticationTest {
    private static final String HOST = "127.0.0.1";
    private static final Duration LONG = Duration.ofDays(1);

    @TempDir
    private Path folder;

    private Path tokens;
    private Path token;

    @BeforeEach
    void addToken() throws Exception {
        tokens = folder.resolve("tokens");
        token = Files.writeString(folder.resolve("app.token"), Tokens.add(tokens, "app") + "\n");
    }

    private ServerOptions options() {
        return ServerOptions.DEFAULTS
                .withListen(new InetSocketAddress(HOST, 0))
                .withRowsLog2(10)
                .withSessionTimeout(LONG)
                .withHelloTimeout(LONG)
                .withAuthentication(AuthenticationOptions.NONE.withTokens(tokens));
    }

    private ServerOptions plainOptions() {
        return options().withAuthentication(options().authentication().withoutTls());
    }

    private Roles roles(String... lines) throws IOException {
        return Roles.read(Files.write(folder.resolve("roles"), List.of(lines)));
    }

    private static OracleServer start(ServerOptions options) throws Exception {
        return OracleServer.start(options, new VolatileLog());
    }

    private static ClientOptions client(OracleServer server) {
        return ClientOptions.of(server.address())
                .withReconnect(Duration.ofMillis(1), Duration.ofMillis(20))
                .withPatience(Duration.ofSeconds(60));
    }

    private static void assertServes(ClientOptions options) {
        try (OracleClient client = OracleClient.open(options)) {
            assertTrue(client.begin().value() > 0);
        }
    }

    private static ClientClosedException assertRefused(ClientOptions options) {
        try (OracleClient client = OracleClient.open(options)) {
            return assertThrows(ClientClosedException.class, client::begin);
        }
    }

    @Test
    void tokensReplaceCertificatesOverTls() throws Exception {
        Authority authority = new Authority(folder.resolve("authority"));
        Authority others = new Authority(folder.resolve("others"));
        TlsOptions certificate = authority.issue("operator", HOST, authority);
        TlsOptions trusting = TlsOptions.trusting(certificate.authorities());
        TlsOptions distrusted = others.issue("stranger", HOST, authority);
        ServerOptions options = options()
                .withTls(authority.issue("server", HOST, authority))
                .withRoles(roles("client token:app", "administrator CN=operator"));
        for (int threads = 0; threads < 3; threads++) {
            try (OracleServer server = start(options.withNetworkThreads(threads))) {
                ClientOptions any = client(server);
                ClientOptions byToken = any.withTls(trusting).withCredentials(Credentials.token(token));
                try (OracleClient client = OracleClient.open(byToken)) {
                    assertTrue(client.begin().value() > 0);
                    RefusedException refused = assertThrows(RefusedException.class, client::lowWaterMark);
                    assertTrue(refused.getMessage().contains("token:app"), refused.getMessage());
                }
                assertServes(any.withTls(certificate));
                // The token counts where both are there.
                try (OracleClient client =
                        OracleClient.open(any.withTls(certificate).withCredentials(Credentials.token(token)))) {
                    assertThrows(RefusedException.class, client::lowWaterMark);
                }
                ClientClosedException unknown = assertRefused(any.withTls(trusting));
                assertEquals(ErrorCode.AUTHENTICATION, unknown.code());
                ClientOptions stranger = any.withTls(distrusted).withPatience(Duration.ofMillis(500));
                try (OracleClient client = OracleClient.open(stranger.withCredentials(Credentials.token(token)))) {
                    String why = assertThrows(UnavailableException.class, client::begin)
                            .getMessage();
                    assertTrue(why.contains("TLS: "), why);
                }
            }
        }
    }

    @Test
    void wrongTokensAreRefused() throws Exception {
        try (OracleServer server = start(plainOptions())) {
            Path wrong = folder.resolve("wrong.token");
            for (String line : new String[] {"app:" + "x".repeat(43), "other:" + "x".repeat(43), "app:x", "ä:ö"}) {
                Files.writeString(wrong, line);
                ClientClosedException refused =
                        assertRefused(client(server).withCredentials(Credentials.tokenWithoutTls(wrong)));
                assertEquals(ErrorCode.AUTHENTICATION, refused.code());
                assertTrue(refused.getMessage().endsWith("the oracle does not know this name and token"));
            }
            assertEquals(4, server.authenticationsFailed());
            assertServes(client(server).withCredentials(Credentials.tokenWithoutTls(token)));
            assertEquals(ErrorCode.AUTHENTICATION, assertRefused(client(server)).code());
        }
    }

    @Test
    void tokensNeedTlsUnlessAllowed() throws Exception {
        String why = assertThrows(IllegalArgumentException.class, () -> start(options()))
                .getMessage();
        assertTrue(why.contains("--authentication-without-tls"), why);
        try (OracleServer server = start(plainOptions())) {
            ClientOptions careless = client(server).withCredentials(Credentials.token(token));
            why = assertThrows(IllegalArgumentException.class, () -> OracleClient.open(careless))
                    .getMessage();
            assertTrue(why.contains(token.toString()), why);
            assertServes(client(server).withCredentials(Credentials.tokenWithoutTls(token)));
        }
        try (OracleServer server = start(plainOptions().withAuthentication(AuthenticationOptions.NONE))) {
            ClientClosedException unsupported =
                    assertRefused(client(server).withCredentials(Credentials.tokenWithoutTls(token)));
            assertTrue(unsupported.getMessage().contains("--tokens"), unsupported.getMessage());
        }
    }

    @Test
    void unusableTokenFilesAreNamed() throws Exception {
        try (OracleServer server = start(plainOptions())) {
            Path file = folder.resolve("client.token");
            ClientOptions options = client(server)
                    .withCredentials(Credentials.tokenWithoutTls(file))
                    .withPatience(Duration.ofMillis(300));
            for (String line : new String[] {null, "app", ":x", "app:", "app:x\nother:y"}) {
                if (line != null) {
                    Files.writeString(file, line);
                }
                try (OracleClient client = OracleClient.open(options)) {
                    String why = assertThrows(UnavailableException.class, client::begin)
                            .getMessage();
                    assertTrue(why.contains(file.toString()), why);
                }
            }
            assertEquals(0, server.authenticationsFailed(), "nothing was sent");
        }
        Files.writeString(tokens, "app\n");
        assertTrue(assertThrows(IOException.class, () -> start(plainOptions()))
                .getMessage()
                .contains("tokens, line 1"));
    }

    /// A4.
    @Test
    void removedTokenEndsConnections() throws Exception {
        Path other = Files.writeString(folder.resolve("other.token"), Tokens.add(tokens, "other"));
        try (OracleServer server = start(plainOptions());
                RawClient connected = authenticated(server, 1)) {
            assertTrue(connected.begin() > 0);
            Tokens.remove(tokens, "app", false);
            server.authentication().refreshNow();
            connected.refused(ErrorCode.HELLO, true);
            connected.awaitClosed();
            assertRefused(client(server).withCredentials(Credentials.tokenWithoutTls(token)));
            assertServes(client(server).withCredentials(Credentials.tokenWithoutTls(other)));
        }
    }

    /// A client whose token is exchanged goes on with its open transactions.
    @Test
    void clientsSurviveExchangeOfTokens() throws Exception {
        try (OracleServer server = start(plainOptions());
                OracleClient client =
                        OracleClient.open(client(server).withCredentials(Credentials.tokenWithoutTls(token)))) {
            var open = client.begin();
            Files.writeString(token, Tokens.add(tokens, "app"));
            Tokens.remove(tokens, "app", true);
            server.authentication().refreshNow();
            assertEquals(Outcome.Kind.COMMITTED, client.commit(open, 7).kind());
        }
    }

    /// A name that was served before is tried again, because the files of one server of several may be late.
    @Test
    void servedClientTriesAgainWhenRefused() throws Exception {
        try (OracleServer server = start(plainOptions());
                OracleClient client =
                        OracleClient.open(client(server).withCredentials(Credentials.tokenWithoutTls(token)))) {
            assertTrue(client.begin().value() > 0);
            String before = Files.readString(tokens);
            Tokens.remove(tokens, "app", false);
            server.authentication().refreshNow();
            var begun = client.beginAsync();
            while (server.authenticationsFailed() == 0) {
                Thread.onSpinWait();
            }
            Files.writeString(tokens, before);
            assertTrue(begun.join().value() > 0);
        }
    }

    @Test
    void changedRolesApplyToLaterHellos() throws Exception {
        Roles roles = roles("client token:app");
        try (OracleServer server = start(plainOptions().withRoles(roles))) {
            ClientOptions options = client(server).withCredentials(Credentials.tokenWithoutTls(token));
            assertServes(options);
            roles("cleaner token:app");
            server.authentication().refreshNow();
            try (OracleClient client = OracleClient.open(options)) {
                assertTrue(client.lowWaterMark().value() > 0);
            }
            Files.writeString(folder.resolve("roles"), "owner token:app");
            server.authentication().refreshNow();
            try (OracleClient client = OracleClient.open(options)) {
                assertTrue(client.lowWaterMark().value() > 0, "the rules from before stay in use");
            }
        }
    }

    /// The session of a client cannot be resumed by another one, who knows its number.
    @Test
    void sessionsBelongToTheirClient() throws Exception {
        Path other = Files.writeString(folder.resolve("other.token"), Tokens.add(tokens, "other"));
        try (OracleServer server = start(plainOptions());
                RawClient first = authenticated(server, 7);
                RawClient second = new RawClient(server)) {
            authenticate(second, Files.readString(other));
            second.out.hello(second.id(), 1, Protocol.VERSION, 7);
            second.send().refused(ErrorCode.FORBIDDEN, true);
            assertTrue(first.begin() > 0);
        }
    }

    // ---- frames -----------------------------------------------------------------------------------------------------

    private RawClient authenticated(OracleServer server, long session) throws Exception {
        RawClient client = new RawClient(server);
        authenticate(client, Files.readString(token));
        client.out.hello(client.id(), 1, Protocol.VERSION, session);
        client.send().receive();
        assertEquals(Protocol.HELLO, client.reply.request());
        return client;
    }

    private static byte[] plain(String nameAndToken) {
        return ("\0" + nameAndToken.strip().replaceFirst(":", "\0")).getBytes(StandardCharsets.UTF_8);
    }

    /// Authenticates a client by a line of `cedrat-oracle token add`.
    static void authenticate(RawClient client, String nameAndToken) throws Exception {
        client.out.authenticate(client.id(), Mechanism.PLAIN, plain(nameAndToken));
        client.send().receive();
        assertEquals(Protocol.AUTHENTICATE, client.reply.request());
        assertEquals(Protocol.FLAG_DONE, client.reply.flags());
    }

    @Test
    void hostileExchangesAreRefused() throws Exception {
        String secret = Files.readString(token);
        try (OracleServer server = start(plainOptions())) {
            List<byte[]> hostile = new ArrayList<>(List.of(
                    new byte[0],
                    new byte[3],
                    plain(secret + "\0"),
                    ("app" + new String(plain(secret), StandardCharsets.UTF_8) + "x").getBytes(StandardCharsets.UTF_8),
                    ("other" + new String(plain(secret), StandardCharsets.UTF_8)).getBytes(StandardCharsets.UTF_8),
                    new byte[Protocol.FIRST_FRAME_BYTES_MAX - Protocol.HEADER_BYTES - 8]));
            Random random = new Random(7);
            for (int count = 0; count < 50; count++) {
                byte[] bytes = new byte[random.nextInt(200)];
                random.nextBytes(bytes);
                hostile.add(bytes);
            }
            for (byte[] message : hostile) {
                try (RawClient client = new RawClient(server)) {
                    client.out.authenticate(client.id(), Mechanism.PLAIN, message);
                    client.send().refused(ErrorCode.AUTHENTICATION, true);
                    client.awaitClosed();
                }
            }
            assertEquals(hostile.size(), server.authenticationsFailed());
            assertEquals(0, server.authentication().waitingBytes());
        }
    }

    @Test
    void framesOutOfOrderAreRefused() throws Exception {
        try (OracleServer server = start(plainOptions())) {
            try (RawClient client = new RawClient(server)) { // a second exchange
                authenticate(client, Files.readString(token));
                client.out.authenticate(client.id(), Mechanism.PLAIN, plain(Files.readString(token)));
                client.send().refused(ErrorCode.AUTHENTICATION, true);
            }
            try (RawClient client = authenticated(server, 1)) { // behind the hello
                client.out.authenticate(client.id(), Mechanism.PLAIN, plain(Files.readString(token)));
                client.send().refused(ErrorCode.HELLO, true);
            }
            try (RawClient client = new RawClient(server)) { // no hello
                authenticate(client, Files.readString(token));
                client.out.plain(Protocol.BEGIN, client.id());
                client.send().refused(ErrorCode.HELLO, true);
            }
            try (RawClient client = new RawClient(server)) { // a mechanism that there is not
                client.out.authenticate(client.id(), Mechanism.GSSAPI, new byte[10]);
                client.send().refused(ErrorCode.UNSUPPORTED, true);
            }
            try (RawClient client = new RawClient(server)) { // an unknown kind, then a hello
                byte[] unknown = new byte[16];
                unknown[0] = 12;
                unknown[4] = 99;
                client.send(unknown).refused(ErrorCode.UNSUPPORTED, true);
                client.awaitClosed();
            }
            for (int at : new int[] {5, 6, 16, 17, 18, 23}) { // a changed byte of the header of the exchange
                try (RawClient client = new RawClient(server)) {
                    client.out.authenticate(1, Mechanism.PLAIN, plain(Files.readString(token)));
                    client.out.bytes()[at] = 77;
                    client.send().refused(ErrorCode.UNSUPPORTED, true);
                    client.awaitClosed();
                }
            }
            assertEquals(0, server.reading().begun());
        }
    }

    @Test
    void longFramesBeforeHelloAreRefused() throws Exception {
        try (OracleServer server = start(plainOptions());
                RawClient client = new RawClient(server)) {
            client.send(new byte[] {0, 0, 2, 0, Protocol.BEGIN}).refused(ErrorCode.TOO_LONG, true);
            client.awaitClosed();
        }
    }

    /// A3. Each sends all but the last byte of the longest message.
    @Test
    void slowExchangesTakeBoundedMemory() throws Exception {
        try (OracleServer server = start(plainOptions())) {
            byte[] message = new byte[Protocol.FIRST_FRAME_BYTES_MAX - Protocol.HEADER_BYTES - 8];
            List<RawClient> clients = new ArrayList<>();
            int most = (int) (Authentication.WAITING_BYTES_MAX / Protocol.FIRST_FRAME_BYTES_MAX);
            boolean isRefused = false;
            while (!isRefused) {
                assertTrue(clients.size() <= most, "all of " + most + " connections hold their bytes");
                RawClient client = new RawClient(server);
                clients.add(client);
                client.out.authenticate(client.id(), Mechanism.PLAIN, message);
                client.send(Arrays.copyOf(client.out.bytes(), client.out.length() - 1));
                client.out.clear();
                long before = clients.size() * (long) message.length;
                while (server.authentication().waitingBytes() < before && !isRefused) {
                    isRefused = !client.nothingArrived();
                }
            }
            clients.getLast().refused(ErrorCode.HELLO, true);
            server.settle();
            assertTrue(server.authentication().waitingBytes() <= Authentication.WAITING_BYTES_MAX);
            for (RawClient client : clients) {
                client.close();
            }
            while (server.connections() > 0) {
                Thread.onSpinWait();
            }
            server.settle();
            assertEquals(0, server.authentication().waitingBytes());
        }
    }

    @Test
    void slowExchangeEndsWithHelloTimeout() throws Exception {
        ServerOptions impatient = plainOptions().withHelloTimeout(Duration.ofMillis(100));
        try (OracleServer server = start(impatient);
                RawClient half = new RawClient(server);
                RawClient whole = new RawClient(server)) {
            half.send(new byte[] {36, 0, 0});
            authenticate(whole, Files.readString(token));
            for (RawClient client : List.of(half, whole)) {
                client.refused(ErrorCode.HELLO, true);
                client.awaitClosed();
            }
        }
    }

    /// The connection is cut behind each byte of the exchange and the hello.
    @Test
    void cutExchangesLeaveNothing() throws Exception {
        try (OracleServer server = start(plainOptions())) {
            RawClient model = new RawClient(server);
            model.out.authenticate(1, Mechanism.PLAIN, plain(Files.readString(token)));
            byte[] bytes = Arrays.copyOf(model.out.bytes(), model.out.length());
            model.close();
            for (int length = 0; length <= bytes.length; length++) {
                try (RawClient client = new RawClient(server)) {
                    client.send(Arrays.copyOf(bytes, length));
                }
            }
            while (server.connections() > 0) {
                Thread.onSpinWait();
            }
            server.settle();
            assertEquals(0, server.authentication().waitingBytes());
            assertEquals(0, server.authenticationsFailed());
            assertServes(client(server).withCredentials(Credentials.tokenWithoutTls(token)));
            assertFalse(server.inspect((oracle, sessions) -> sessions.count()) > 1, "sessions of cut connections");
        }
    }

    // ---- commands ---------------------------------------------------------------------------------------------------

    @Test
    void commandsAuthenticateByToken() throws Exception {
        ServerOptions options = plainOptions().withRoles(roles("administrator token:app"));
        try (OracleServer server = start(options)) {
            String address = HOST + ":" + server.address().getPort();
            String[] status = {"status", "--oracle", address, "--token-file", token.toString(), "--token-without-tls"};
            AdminCommandsTest.Result done = AdminCommandsTest.run(status);
            assertEquals(0, done.code(), done.err());
            assertTrue(done.out().startsWith("serving yes"), done.out());
            Files.writeString(token, "app:wrong");
            AdminCommandsTest.Result refused = AdminCommandsTest.run(status);
            assertEquals(1, refused.code());
            assertTrue(refused.err().contains("does not know this name and token"), refused.err());
            AdminCommandsTest.Result careless =
                    AdminCommandsTest.run("status", "--oracle", address, "--token-file", token.toString());
            assertEquals(Main.EXIT_USAGE, careless.code(), careless.err());
            assertTrue(careless.err().contains("--tls-authorities"), careless.err());
        }
    }

    @Test
    void serveExplainsWhatIsMissing() {
        String[] serve = {"serve", "--log", "none", "--port", "0", "--tokens", tokens.toString()};
        assertEquals(Main.EXIT_USAGE, Main.run(serve));
    }
}
