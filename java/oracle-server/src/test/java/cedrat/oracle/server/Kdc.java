package cedrat.oracle.server;

import java.io.IOException;
import java.net.ServerSocket;
import java.nio.file.Files;
import java.nio.file.Path;
import org.apache.kerby.kerberos.kerb.KrbException;
import org.apache.kerby.kerberos.kerb.server.SimpleKdcServer;

/// The key distribution centre of this process: one, because the JDK reads its configuration once. It ends with the
/// process.
final class Kdc {
    static final String HOST = "localhost";
    static final String REALM = "EXAMPLE.ORG";
    static final String CONFIGURATION = "java.security.krb5.conf";

    private static Kdc shared;

    private final Path folder;
    private final SimpleKdcServer server = new SimpleKdcServer();

    private Kdc() throws IOException, KrbException {
        folder = Files.createTempDirectory(Path.of("target").toAbsolutePath(), "kdc");
        int port;
        try (ServerSocket free = new ServerSocket(0)) {
            port = free.getLocalPort();
        }
        server.setWorkDir(folder.toFile());
        server.setKdcHost(HOST);
        server.setKdcRealm(REALM);
        server.setAllowUdp(false);
        server.setKdcTcpPort(port);
        server.init();
        server.start();
        System.setProperty(CONFIGURATION, folder + "/krb5.conf");
    }

    /// Returns it, and starts it before if it does not run.
    static synchronized Kdc shared() throws IOException, KrbException {
        if (shared == null) {
            shared = new Kdc();
        }
        return shared;
    }

    /// Returns the keytab of a principal, which is created if there is none.
    synchronized Path keys(String principal) throws KrbException {
        Path keys = folder.resolve(principal.replace('/', '-') + ".keytab");
        if (!Files.exists(keys)) {
            server.createPrincipals(principal);
            server.exportPrincipal(principal, keys.toFile());
        }
        return keys;
    }
}
