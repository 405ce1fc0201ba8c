package cedrat.oracle.server;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cedrat.oracle.client.ClientClosedException;
import cedrat.oracle.client.ClientOptions;
import cedrat.oracle.client.OracleClient;
import cedrat.oracle.client.RefusedException;
import cedrat.oracle.log.VolatileLog;
import cedrat.oracle.protocol.ErrorCode;
import cedrat.oracle.protocol.Protocol;
import cedrat.oracle.tls.TlsOptions;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import javax.security.auth.x500.X500Principal;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/// O6g.
@Timeout(300)
class RolesTest {
    private static final String HOST = "127.0.0.1";

    @TempDir
    private Path folder;

    private Roles roles(String... lines) throws IOException {
        return Roles.read(Files.write(folder.resolve("roles"), List.of(lines)));
    }

    @Test
    void firstRuleThatFitsCounts() throws Exception {
        Roles roles = roles(
                "# rules",
                "",
                "cleaner CN=app-cleaner,O=us",
                "  client   CN=app-*,O=us  ",
                "administrator CN=root (1.*)");
        assertEquals(Role.CLEANER, roles.of("CN=app-cleaner,O=us"));
        assertEquals(Role.CLIENT, roles.of("CN=app-7,O=us"));
        assertEquals(Role.ADMINISTRATOR, roles.of("CN=root (1.2)"));
        for (String name :
                new String[] {"", "CN=app-7", "CN=app-7,O=us,C=de", "CN=app-,X=1,O=us", "xCN=app-7,O=us", "CN=root (12)"
                }) {
            assertNull(roles.of(name), name);
        }
        assertEquals(Role.ADMINISTRATOR, Roles.ALL.of(""));
    }

    /// A comma that belongs to a part of a name is written with a backslash.
    @Test
    void partsOfNamesAreNotConfused() throws Exception {
        Roles roles = roles("cleaner CN=cleaner-*,O=us", "client CN=*", "limits rate=1 CN=a*,O=us");
        assertEquals("CN=cleaner-x\\,O\\=us", new X500Principal("CN=\"cleaner-x,O=us\"").getName());
        assertNull(roles.of("CN=cleaner-x\\,O\\=us"));
        assertNull(roles.of("CN=cleaner-x\\,O=us"));
        assertEquals(Role.CLEANER, roles.of("CN=cleaner-x\\+y,O=us"));
        assertEquals(Limits.NONE, roles.limits("CN=a\\,O=us"));
    }

    @Test
    void invalidRulesAreNamed() throws Exception {
        for (String line : new String[] {"client", "Client CN=a", "owner CN=a"}) {
            String why = assertThrows(IOException.class, () -> roles("client CN=b", line))
                    .getMessage();
            assertTrue(why.contains("roles, line 2"), why);
        }
        Path missing = folder.resolve("missing");
        assertTrue(assertThrows(IOException.class, () -> Roles.read(missing))
                .getMessage()
                .contains(missing.toString()));
    }

    @Test
    void eachRequestNeedsItsRole() {
        for (byte kind = Protocol.HELLO; kind <= Protocol.NAMESPACE; kind++) {
            boolean isForCleaners = kind == Protocol.SWEPT || kind == Protocol.LOW_WATER;
            assertEquals(!isForCleaners, Role.CLIENT.permits(kind, 0), "kind " + kind);
            assertTrue(Role.CLEANER.permits(kind, 0), "kind " + kind);
            assertTrue(Role.ADMINISTRATOR.permits(kind, Protocol.FLAG_RETIRED), "kind " + kind);
        }
        assertEquals(Role.ADMINISTRATOR, Role.needed(Protocol.NAMESPACE, Protocol.FLAG_RETIRED));
        assertEquals(Role.ADMINISTRATOR, Role.needed(Protocol.ADMIN, 0));
    }

    private OracleServer server(Authority authority, String... rules) throws Exception {
        ServerOptions options = ServerOptions.DEFAULTS
                .withListen(new InetSocketAddress(HOST, 0))
                .withRowsLog2(10)
                .withTls(authority.issue("server", HOST, authority))
                .withRoles(roles(rules));
        return OracleServer.start(options, new VolatileLog());
    }

    @Test
    void clientsAreRefusedBeyondTheirRoles() throws Exception {
        Authority authority = new Authority(folder.resolve("authority"));
        try (OracleServer server = server(authority, "client CN=app", "cleaner CN=cleaner")) {
            ClientOptions any = ClientOptions.of(server.address()).withPatience(Duration.ofSeconds(60));
            try (OracleClient app = OracleClient.open(any.withTls(authority.issue("app", HOST, authority)));
                    OracleClient cleaner =
                            OracleClient.open(any.withTls(authority.issue("cleaner", HOST, authority)))) {
                assertTrue(app.begin().value() > 0);
                RefusedException refused = assertThrows(RefusedException.class, app::lowWaterMark);
                assertEquals(ErrorCode.FORBIDDEN, refused.code());
                assertTrue(refused.getMessage().contains("CN=app"), refused.getMessage());
                assertTrue(refused.getMessage().contains("cleaner"), refused.getMessage());
                assertTrue(app.begin().value() > 0, "the connection lives");
                assertTrue(cleaner.lowWaterMark().value() > 0);
            }
            try (OracleClient stranger = OracleClient.open(any.withTls(authority.issue("stranger", HOST, authority)))) {
                String why = assertThrows(ClientClosedException.class, stranger::begin)
                        .getMessage();
                assertTrue(why.contains("no role for CN=stranger"), why);
            }
        }
    }

    private static AdminCommandsTest.Result status(OracleServer server, TlsOptions files) {
        return AdminCommandsTest.run(
                "status",
                "--oracle",
                HOST + ":" + server.address().getPort(),
                "--tls-certificate",
                files.certificate().toString(),
                "--tls-key",
                files.key().toString(),
                "--tls-authorities",
                files.authorities().toString());
    }

    @Test
    void commandsNeedAnAdministrator() throws Exception {
        Authority authority = new Authority(folder.resolve("authority"));
        try (OracleServer server = server(authority, "cleaner CN=app", "administrator CN=operator")) {
            AdminCommandsTest.Result done = status(server, authority.issue("operator", HOST, authority));
            assertEquals(0, done.code(), done.err());
            assertTrue(done.out().contains("log"), done.out());
            AdminCommandsTest.Result refused = status(server, authority.issue("app", HOST, authority));
            assertEquals(1, refused.code());
            assertTrue(refused.err().contains("it takes the role administrator"), refused.err());
            Authority others = new Authority(folder.resolve("others"));
            AdminCommandsTest.Result distrusted = status(server, others.issue("operator", HOST, others));
            assertEquals(1, distrusted.code());
            assertTrue(distrusted.err().contains("TLS: "), distrusted.err());
        }
    }
}
