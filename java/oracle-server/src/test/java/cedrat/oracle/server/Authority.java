package cedrat.oracle.server;

import static org.junit.jupiter.api.Assertions.assertEquals;

import cedrat.oracle.tls.TlsOptions;
import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.GeneralSecurityException;
import java.security.KeyStore;
import java.security.cert.Certificate;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;

/// A certificate authority, by the JDK's `keytool`.
public final class Authority {
    private static final char[] PASSWORD = "password".toCharArray();

    private final Path folder;
    private final Path store;

    /// Makes one whose files are in this folder.
    public Authority(Path folder) throws Exception {
        this.folder = Files.createDirectories(folder);
        store = folder.resolve("keys.p12");
        generate("authority", "-ext", "bc:c");
    }

    /// Returns its own certificate.
    String certificate() throws Exception {
        return pem("CERTIFICATE", keys().getCertificate("authority").getEncoded());
    }

    /// Issues a certificate for a client or server with this name, who accepts those of `trusted`. A server is at this
    /// host.
    public TlsOptions issue(String name, String host, Authority trusted) throws Exception {
        String kind = host.matches("[0-9.]+") ? "ip:" : "dns:";
        generate(name, "-signer", "authority", "-ext", "san=" + kind + host);
        StringBuilder chain = new StringBuilder();
        for (Certificate certificate : keys().getCertificateChain(name)) {
            chain.append(pem("CERTIFICATE", certificate.getEncoded()));
        }
        Path key = write(
                name + ".key", pem("PRIVATE KEY", keys().getKey(name, PASSWORD).getEncoded()));
        return new TlsOptions(
                write(name + ".pem", chain.toString()), key, write(name + ".authorities.pem", trusted.certificate()));
    }

    private KeyStore keys() throws IOException, GeneralSecurityException {
        KeyStore keys = KeyStore.getInstance("PKCS12");
        try (InputStream in = Files.newInputStream(store)) {
            keys.load(in, PASSWORD);
        }
        return keys;
    }

    private void generate(String name, String... more) throws Exception {
        List<String> command = new ArrayList<>(List.of(
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
                "-storetype",
                "PKCS12",
                "-keystore",
                store.toString(),
                "-storepass",
                new String(PASSWORD)));
        command.addAll(List.of(more));
        Process process = new ProcessBuilder(command).redirectErrorStream(true).start();
        String said = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
        assertEquals(0, process.waitFor(), said);
    }

    private Path write(String name, String text) throws IOException {
        return Files.writeString(folder.resolve(name), text);
    }

    private static String pem(String kind, byte[] bytes) {
        String body = Base64.getMimeEncoder(64, new byte[] {10}).encodeToString(bytes);
        return "-----BEGIN " + kind + "-----" + System.lineSeparator() + body + System.lineSeparator() + "-----END "
                + kind + "-----" + System.lineSeparator();
    }
}
