package cedrat.oracle.server;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cedrat.oracle.authentication.Credentials;
import cedrat.oracle.client.ClientClosedException;
import cedrat.oracle.client.ClientOptions;
import cedrat.oracle.client.OracleClient;
import cedrat.oracle.client.RefusedException;
import cedrat.oracle.client.UnavailableException;
import cedrat.oracle.log.VolatileLog;
import cedrat.oracle.protocol.ErrorCode;
import cedrat.oracle.protocol.Mechanism;
import cedrat.oracle.protocol.Protocol;
import cedrat.oracle.server.cluster.RawClient;
import cedrat.oracle.tls.TlsOptions;
import cedrat.oracle.transport.ClientExchange;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/// O6m: clients with tickets of a key distribution centre in this process.
@Timeout(300)
class KerberosTest {
    private static final String HOST = Kdc.HOST;
    private static final String SERVER = "cedrat/" + HOST;
    private static final String REALM = Kdc.REALM;

    @TempDir
    private static Path folder;

    private static Path serverKeys;
    private static Path appKeys;
    private static Path otherServerKeys;

    @BeforeAll
    static void createPrincipals() throws Exception {
        serverKeys = Kdc.shared().keys(SERVER);
        otherServerKeys = Kdc.shared().keys("cedrat/elsewhere");
        appKeys = Kdc.shared().keys("app");
    }

    private static ServerOptions options() {
        return ServerOptions.DEFAULTS
                .withListen(new InetSocketAddress(HOST, 0))
                .withRowsLog2(10)
                .withHelloTimeout(Duration.ofDays(1))
                .withSessionTimeout(Duration.ofDays(1))
                .withAuthentication(AuthenticationOptions.NONE
                        .withKerberos(SERVER + "@" + REALM, serverKeys)
                        .withoutTls());
    }

    private static OracleServer start(ServerOptions options) throws Exception {
        return OracleServer.start(options, new VolatileLog());
    }

    private static ClientOptions client(OracleServer server) {
        return ClientOptions.of(InetSocketAddress.createUnresolved(
                        HOST, server.address().getPort()))
                .withReconnect(Duration.ofMillis(1), Duration.ofMillis(20))
                .withPatience(Duration.ofSeconds(60));
    }

    private static Credentials app() {
        return Credentials.kerberos("cedrat", "app", appKeys);
    }

    private static Roles roles(String... lines) throws IOException {
        return Roles.read(Files.write(folder.resolve("roles"), List.of(lines)));
    }

    @Test
    void ticketsReplaceCertificatesOverTls() throws Exception {
        Authority authority = new Authority(folder.resolve("authority"));
        TlsOptions files = authority.issue("server", HOST, authority);
        for (int threads = 0; threads < 3; threads++) {
            ServerOptions options = options()
                    .withTls(files)
                    .withNetworkThreads(threads)
                    .withRoles(roles("client kerberos:*@EXAMPLE.ORG", "administrator CN=*"));
            ClientOptions client;
            try (OracleServer server = start(options)) {
                client = client(server).withTls(TlsOptions.trusting(files.authorities()));
                try (OracleClient app = OracleClient.open(client.withCredentials(app()))) {
                    assertTrue(app.begin().value() > 0);
                    RefusedException refused = assertThrows(RefusedException.class, app::lowWaterMark);
                    assertTrue(refused.getMessage().contains("kerberos:app@EXAMPLE.ORG"), refused.getMessage());
                }
                assertEquals(0, server.authenticationsFailed());
            }
        }
    }

    @Test
    void principalsOfOtherRealmsHaveNoRole() throws Exception {
        Roles roles = roles("client kerberos:app/*@EXAMPLE.ORG", "cleaner kerberos:app@EXAMPLE.ORG");
        assertEquals(Role.CLEANER, roles.of("kerberos:app@EXAMPLE.ORG"));
        assertEquals(Role.CLIENT, roles.of("kerberos:app/one@EXAMPLE.ORG"));
        for (String name : new String[] {
            "app@EXAMPLE.ORG",
            "kerberos:app@EXAMPLE.COM",
            "kerberos:app/a/b@EXAMPLE.ORG",
            "kerberos:app/a@B@EXAMPLE.ORG"
        }) {
            assertEquals(null, roles.of(name), name);
        }
        try (OracleServer server = start(options().withRoles(roles("client kerberos:*@EXAMPLE.COM")));
                OracleClient client = OracleClient.open(client(server).withCredentials(app()))) {
            ClientClosedException refused = assertThrows(ClientClosedException.class, client::begin);
            assertEquals(ErrorCode.FORBIDDEN, refused.code());
        }
    }

    @Test
    void wrongKeysAreNamed() throws Exception {
        try (OracleServer server = start(options())) {
            ClientOptions options = client(server).withPatience(Duration.ofMillis(500));
            Path missing = folder.resolve("missing.keytab");
            assertUnavailable(missing.toString(), options, Credentials.kerberos("cedrat", "app", missing));
            assertUnavailable("app.keytab", options, Credentials.kerberos("cedrat", "unknown", appKeys));
            assertUnavailable("cannot authenticate", options, Credentials.kerberos("other", "app", appKeys));
            assertEquals(0, server.authenticationsFailed(), "nothing was sent");
        }
        String why = assertThrows(
                        IOException.class,
                        () -> start(options()
                                .withAuthentication(AuthenticationOptions.NONE
                                        .withKerberos(SERVER, otherServerKeys)
                                        .withoutTls())))
                .getMessage();
        assertTrue(why.contains("no key of cedrat/localhost@EXAMPLE.ORG"), why);
        assertThrows(
                IllegalArgumentException.class, () -> AuthenticationOptions.NONE.withKerberos("cedrat", serverKeys));
    }

    private static void assertUnavailable(String why, ClientOptions options, Credentials credentials) {
        try (OracleClient client = OracleClient.open(options.withCredentials(credentials))) {
            String message =
                    assertThrows(UnavailableException.class, client::begin).getMessage();
            assertTrue(message.contains(why), message);
        }
    }

    /// A server without the key of the ticket, which the client has got for this host.
    @Test
    void ticketOfAnotherServerIsRefused() throws Exception {
        AuthenticationOptions other = AuthenticationOptions.NONE
                .withKerberos("cedrat/elsewhere", otherServerKeys)
                .withoutTls();
        try (OracleServer server = start(options().withAuthentication(other));
                OracleClient client = OracleClient.open(client(server).withCredentials(app()))) {
            ClientClosedException refused = assertThrows(ClientClosedException.class, client::begin);
            assertEquals(ErrorCode.AUTHENTICATION, refused.code());
            assertEquals(1, server.authenticationsFailed());
        }
    }

    // ---- frames -----------------------------------------------------------------------------------------------------

    /// The messages of a client over one exchange, which succeeds.
    private static List<byte[]> record(OracleServer server) throws Exception {
        List<byte[]> messages = new ArrayList<>();
        try (RawClient client = new RawClient(server);
                ClientExchange exchange = ClientExchange.begin(app(), HOST)) {
            byte[] message = exchange.first();
            while (message != null) {
                messages.add(message);
                client.out.authenticate(client.id(), Mechanism.GSSAPI, message);
                client.send().receive();
                assertEquals(Protocol.AUTHENTICATE, client.reply.request());
                message = exchange.next(client.reply.message(), client.reply.flags() == Protocol.FLAG_DONE);
            }
        }
        return messages;
    }

    @Test
    void replayedExchangeIsRefused() throws Exception {
        try (OracleServer server = start(options())) {
            List<byte[]> recorded = record(server);
            assertEquals(3, recorded.size());
            try (RawClient thief = new RawClient(server)) {
                thief.out.authenticate(thief.id(), Mechanism.GSSAPI, recorded.getFirst());
                thief.send().refused(ErrorCode.AUTHENTICATION, true);
                thief.awaitClosed();
            }
            try (RawClient thief = new RawClient(server);
                    ClientExchange exchange =
                            ClientExchange.begin(app(), HOST)) { // the last message of another exchange
                thief.out.authenticate(thief.id(), Mechanism.GSSAPI, exchange.first());
                thief.send().receive();
                thief.out.authenticate(thief.id(), Mechanism.GSSAPI, new byte[0]);
                thief.send().receive();
                thief.out.authenticate(thief.id(), Mechanism.GSSAPI, recorded.getLast());
                thief.send().refused(ErrorCode.AUTHENTICATION, true);
            }
            assertEquals(2, server.authenticationsFailed());
            assertEquals(0, server.<Integer>inspect((oracle, sessions) -> sessions.count()));
        }
    }

    /// Each frame of an exchange is shortened, changed in each of some bytes, or sent in another order.
    @Test
    void hostileMessagesAreRefused() throws Exception {
        try (OracleServer server = start(options())) {
            int expected = 0;
            byte[] first = record(server).getFirst();
            for (int length : new int[] {0, 1, 10, first.length / 2, first.length - 1}) {
                if (length > 0) { // an empty message begins the mechanism
                    refuses(server, Arrays.copyOf(first, length));
                    expected++;
                }
            }
            for (int at = 0; at < first.length; at += 37) {
                byte[] changed = record(server).getFirst();
                if (at < changed.length) {
                    changed[at] ^= 0x55;
                    refuses(server, changed);
                    expected++;
                }
            }
            assertEquals(expected, server.authenticationsFailed());
            for (byte[] last : new byte[][] {{1}, new byte[4], new byte[60_000]}) {
                try (RawClient client = new RawClient(server);
                        ClientExchange exchange = ClientExchange.begin(app(), HOST)) {
                    client.out.authenticate(client.id(), Mechanism.GSSAPI, exchange.first());
                    client.send().receive();
                    client.out.authenticate(client.id(), Mechanism.GSSAPI, new byte[0]);
                    client.send().receive();
                    client.out.authenticate(client.id(), Mechanism.GSSAPI, last);
                    client.send().refused(ErrorCode.AUTHENTICATION, true);
                }
            }
            try (RawClient client = new RawClient(server);
                    ClientExchange exchange = ClientExchange.begin(app(), HOST)) { // the other mechanism in between
                client.out.authenticate(client.id(), Mechanism.GSSAPI, exchange.first());
                client.out.authenticate(client.id(), Mechanism.PLAIN, new byte[5]);
                client.send().receive();
                assertEquals(Protocol.AUTHENTICATE, client.reply.request());
                client.refused(ErrorCode.AUTHENTICATION, true);
            }
            assertEquals(0, server.authentication().waitingBytes());
        }
    }

    private static void refuses(OracleServer server, byte[] message) throws Exception {
        try (RawClient client = new RawClient(server)) {
            client.out.authenticate(client.id(), Mechanism.GSSAPI, message);
            client.send().refused(ErrorCode.AUTHENTICATION, true);
            client.awaitClosed();
        }
    }

    /// The connection is cut behind each message of an exchange; a hello in the middle of it is one without a name.
    @Test
    void cutExchangesLeaveNothing() throws Exception {
        try (OracleServer server = start(options())) {
            for (int messages = 1; messages <= 3; messages++) {
                try (RawClient client = new RawClient(server);
                        ClientExchange exchange = ClientExchange.begin(app(), HOST)) {
                    byte[] message = exchange.first();
                    for (int count = 0; count < messages; count++) {
                        client.out.authenticate(client.id(), Mechanism.GSSAPI, message);
                        client.send();
                        if (count < messages - 1) {
                            client.receive();
                            message = exchange.next(client.reply.message(), false);
                        }
                    }
                }
            }
            try (RawClient client = new RawClient(server);
                    ClientExchange exchange = ClientExchange.begin(app(), HOST)) {
                client.out.authenticate(client.id(), Mechanism.GSSAPI, exchange.first());
                client.send().receive();
                client.out.hello(client.id(), 1, Protocol.VERSION, 7);
                client.send().refused(ErrorCode.AUTHENTICATION, true);
            }
            while (server.connections() > 0) {
                Thread.onSpinWait();
            }
            server.settle();
            assertEquals(0, server.authentication().waitingBytes());
            assertEquals(0, server.<Integer>inspect((oracle, sessions) -> sessions.count()));
        }
    }

    @Test
    void commandsAuthenticateByKerberos() throws Exception {
        try (OracleServer server = start(options().withRoles(roles("administrator kerberos:app@EXAMPLE.ORG")))) {
            AdminCommandsTest.Result done = AdminCommandsTest.run(
                    "status",
                    "--oracle",
                    HOST + ":" + server.address().getPort(),
                    "--kerberos-service",
                    "cedrat",
                    "--kerberos-principal",
                    "app",
                    "--kerberos-keytab",
                    appKeys.toString());
            assertEquals(0, done.code(), done.err());
            assertTrue(done.out().startsWith("serving yes"), done.out());
        }
    }
}
