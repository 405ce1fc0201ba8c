package cedrat.services;

import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.security.GeneralSecurityException;
import java.security.KeyStore;
import java.security.cert.Certificate;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;

/// A certificate authority for tests, by the JDK's `keytool`. Only the permissions of its folder protect its keys.
///
/// **Threads:** one at a time.
public final class Authority {
    /// PEM files of a server or client, as `NAME.pem`, `NAME.key` and `NAME.authorities.pem`.
    ///
    /// @param certificate its certificate, and those that lead to the authority's
    /// @param key its key, in PKCS #8
    /// @param authorities the certificates of the authorities that it accepts
    public record Identity(Path certificate, Path key, Path authorities) {}

    private static final String OWN = "authority";
    private static final String PASSWORD = "password";

    private final Path folder;
    private final Path store;

    private Authority(Path folder) {
        this.folder = folder;
        store = folder.resolve("keys.p12");
    }

    /// Returns the one whose files are in this folder, which only its owner can read; makes it, if there is none.
    public static Authority in(Path folder) throws IOException {
        Files.createDirectories(folder);
        Files.setPosixFilePermissions(folder, PosixFilePermissions.fromString("rwx------"));
        Authority authority = new Authority(folder);
        if (!Files.exists(authority.store)) {
            authority.generate(OWN, "-ext", "bc:c");
        }
        return authority;
    }

    /// Returns its own certificate, as PEM.
    public String certificate() throws IOException {
        try {
            return pem("CERTIFICATE", keys().getCertificate(OWN).getEncoded());
        } catch (GeneralSecurityException problem) {
            throw unusable(problem);
        }
    }

    /// Issues a certificate for a client, or a server at this host, which accepts certificates of `trusted`.
    public Identity issue(String name, String host, Authority trusted) throws IOException {
        String kind = host.matches("[0-9.]+") ? "ip:" : "dns:";
        generate(name, "-signer", OWN, "-ext", "san=" + kind + host);
        try {
            KeyStore keys = keys();
            StringBuilder chain = new StringBuilder();
            for (Certificate certificate : keys.getCertificateChain(name)) {
                chain.append(pem("CERTIFICATE", certificate.getEncoded()));
            }
            byte[] key = keys.getKey(name, PASSWORD.toCharArray()).getEncoded();
            return new Identity(
                    write(name + ".pem", chain.toString()),
                    write(name + ".key", pem("PRIVATE KEY", key)),
                    write(name + ".authorities.pem", trusted.certificate()));
        } catch (GeneralSecurityException problem) {
            throw unusable(problem);
        }
    }

    private KeyStore keys() throws IOException, GeneralSecurityException {
        KeyStore keys = KeyStore.getInstance("PKCS12");
        try (InputStream in = Files.newInputStream(store)) {
            keys.load(in, PASSWORD.toCharArray());
        }
        return keys;
    }

    private IOException unusable(GeneralSecurityException problem) {
        return new IOException("cannot use the keys in " + store + ": " + problem.getMessage(), problem);
    }

    private void generate(String name, String... more) throws IOException {
        List<String> arguments = new ArrayList<>(List.of(
                Path.of(System.getProperty("java.home"), "bin", "keytool").toString(),
                "-genkeypair",
                "-alias",
                name,
                "-dname",
                "CN=" + name,
                "-keyalg",
                "EC",
                "-groupname",
                "secp256r1",
                "-validity",
                "3650",
                "-storetype",
                "PKCS12",
                "-keystore",
                store.toString(),
                "-storepass",
                PASSWORD));
        arguments.addAll(List.of(more));
        Process process =
                new ProcessBuilder(arguments).redirectErrorStream(true).start();
        String output = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
        try {
            if (process.waitFor() != 0) {
                throw new IOException("keytool cannot make a key in " + store + ": " + output);
            }
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
            throw new IOException("the thread was interrupted while it waited for keytool", interrupted);
        }
    }

    private Path write(String name, String text) throws IOException {
        return Files.writeString(folder.resolve(name), text);
    }

    private static String pem(String kind, byte[] bytes) {
        String body = Base64.getMimeEncoder(64, new byte[] {'\n'}).encodeToString(bytes);
        return "-----BEGIN " + kind + "-----\n" + body + "\n-----END " + kind + "-----\n";
    }
}
