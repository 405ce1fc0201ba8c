package cedrat.services;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.security.SecureRandom;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;

/// Certificates, roles and passwords of the servers of `./x oracle up`, made when they are first needed.
///
/// @param folder keeps them; only its owner can read it
record LocalSecurity(Path folder) {
    private static final String HOST = "127.0.0.1";
    private static final String SERVER = "oracle";
    private static final String CLEANER = "cleaner";
    private static final String ROLES = """
            administrator  CN=administrator
            cleaner        CN=cleaner
            client         CN=client
            """;
    private static final int PASSWORD_BYTES = 16;

    /// Names of clients with a certificate: each is that of its role.
    private static final List<String> CLIENTS = List.of("administrator", CLEANER, "client");

    /// Returns options of `cedrat-oracle serve`.
    List<String> server() throws IOException {
        List<String> options = new ArrayList<>(tls(SERVER));
        options.addAll(List.of("--roles", file("roles")));
        return options;
    }

    /// Returns options of a program that sweeps and prunes.
    List<String> cleaner() throws IOException {
        return tls(CLEANER);
    }

    private List<String> tls(String name) throws IOException {
        make();
        return List.of(
                "--tls-certificate",
                file(name + ".pem"),
                "--tls-key",
                file(name + ".key"),
                "--tls-authorities",
                file(name + ".authorities.pem"));
    }

    /// Returns options of `cedrat-oracle` that let it into its nodes of ZooKeeper.
    List<String> zooKeeper() throws IOException {
        make();
        return List.of("--zookeeper-credentials", file("zookeeper"));
    }

    private String file(String name) {
        return folder.resolve(name).toString();
    }

    private void make() throws IOException {
        Path last = folder.resolve("roles");
        if (Files.exists(last)) {
            return;
        }
        Path building = LocalServers.empty(folder.resolveSibling(folder.getFileName() + ".new"));
        Authority authority = Authority.in(building);
        authority.issue(SERVER, HOST, authority);
        for (String client : CLIENTS) {
            authority.issue(client, HOST, authority);
        }
        byte[] password = new byte[PASSWORD_BYTES];
        new SecureRandom().nextBytes(password);
        Files.writeString(
                building.resolve("zookeeper"), SERVER + ":" + HexFormat.of().formatHex(password) + "\n");
        Files.writeString(building.resolve("roles"), ROLES);
        Files.move(building, folder, StandardCopyOption.ATOMIC_MOVE);
    }
}
