package cedrat.oracle.server;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cedrat.oracle.authentication.Credentials;
import cedrat.oracle.client.ClientOptions;
import cedrat.oracle.client.OracleClient;
import cedrat.oracle.client.RefusedException;
import cedrat.oracle.tls.TlsOptions;
import java.net.InetSocketAddress;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/// Each example of the page about the oracle that needs no BookKeeper, as an operator runs them, one after the other.
@Timeout(300)
class GuideServeTest {
    private static final String PAGE = "oracle.md";
    private static final String OPERATOR = "operator,O=Example";

    @TempDir
    private Path folder;

    private Kdc kdc;
    private Authority authority;
    private TlsOptions operator;
    private GuideServer server;

    @BeforeEach
    void prepare() throws Exception {
        kdc = Kdc.shared();
        server = new GuideServer(folder);
        authority = new Authority(folder.resolve("authority"));
        TlsOptions own = authority.issue("server", Kdc.HOST, authority);
        copy(own.certificate(), "server.pem");
        copy(own.key(), "server.key");
        copy(own.authorities(), "authorities.pem");
        operator = authority.issue(OPERATOR, Kdc.HOST, authority);
        copy(kdc.keys("cedrat/" + Kdc.HOST), "etc/cedrat-oracle/server.keytab");
        copy(kdc.keys("operator"), "operator.keytab");
        GuidePage page = GuidePage.of(PAGE);
        List<String> roles = page.blocks("text").stream()
                .filter(block -> block.startsWith("administrator "))
                .toList();
        assertEquals(1, roles.size(), "the file of --roles");
        Files.writeString(folder.resolve("roles"), roles.getFirst());
    }

    @AfterEach
    void stop() {
        server.close();
    }

    private void copy(Path file, String name) throws Exception {
        Files.copy(file, folder.resolve(name));
    }

    private ClientOptions client() {
        return ClientOptions.of(InetSocketAddress.createUnresolved(Kdc.HOST, server.port()))
                .withPatience(Duration.ofSeconds(60));
    }

    private static void assertRole(Role role, ClientOptions options) {
        try (OracleClient client = OracleClient.open(options)) {
            assertTrue(client.begin().value() > 0);
            if (role == Role.CLIENT) {
                assertThrows(RefusedException.class, client::lowWaterMark);
            } else {
                assertTrue(client.lowWaterMark().value() > 0);
            }
        }
    }

    private TlsOptions certificate(String name) throws Exception {
        return authority.issue(name, Kdc.HOST, authority);
    }

    @Test
    void examplesOfThePageRunAsWritten() throws Exception {
        List<String> served = new ArrayList<>();
        for (GuidePage.Command command : GuidePage.of(PAGE).commands()) {
            if (command.has("bookkeeper")) {
                continue;
            }
            String out = server.run(command);
            if (command.is("status")) {
                assertTrue(out.startsWith("serving yes\n"), out);
            }
            if (command.is("serve")) {
                served.add(command.shell());
                assertClients(command);
            }
        }
        assertEquals(9, served.size(), served.toString());
    }

    /// Clients of each role have what it permits, and no more.
    private void assertClients(GuidePage.Command command) throws Exception {
        boolean isOverTls = command.has("--tls-certificate");
        ClientOptions any =
                isOverTls ? client().withTls(TlsOptions.trusting(folder.resolve("authorities.pem"))) : client();
        if (isOverTls) {
            assertRole(Role.ADMINISTRATOR, client().withTls(operator));
        }
        if (isOverTls && command.has("--tokens")) {
            assertRole(Role.CLIENT, any.withTls(certificate("app,O=Example")));
            assertRole(Role.CLEANER, any.withTls(certificate("cleaner-1,O=Example")));
            assertRole(Role.CLIENT, any.withCredentials(Credentials.token(folder.resolve("transfers.token"))));
        } else if (command.has("--tokens")) {
            Path token = folder.resolve("operator.token");
            assertRole(Role.ADMINISTRATOR, any.withCredentials(Credentials.tokenWithoutTls(token)));
        } else if (command.has("--kerberos-keytab")) {
            Path keys = kdc.keys("cleaner/one");
            assertRole(Role.CLEANER, any.withCredentials(Credentials.kerberos("cedrat", "cleaner/one", keys)));
        } else if (!isOverTls) {
            assertRole(Role.ADMINISTRATOR, any);
        }
    }
}
