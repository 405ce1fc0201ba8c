package cedrat.oracle.server;

import cedrat.oracle.tls.TlsOptions;
import java.io.IOException;
import java.nio.file.Path;
import picocli.CommandLine.Option;

/// Options for TLS of the command: the three files, or none.
final class TlsFiles {
    @Option(
            names = "--tls-certificate",
            paramLabel = "FILE",
            required = true,
            description = "Serve over TLS, and show this certificate (PEM; then those between it and its authority).")
    private Path certificate;

    @Option(
            names = "--tls-key",
            paramLabel = "FILE",
            required = true,
            description = "The private key of that certificate (PEM, PKCS #8, not encrypted).")
    private Path key;

    @Option(
            names = "--tls-authorities",
            paramLabel = "FILE",
            required = true,
            description = "Serve the clients that show a certificate of these authorities (PEM), and no others.")
    private Path authorities;

    @Option(
            names = "--roles",
            paramLabel = "FILE",
            description =
                    "What clients may do, by the names in their certificates: lines of a role, `client`, `cleaner` or `administrator`, and a name, in which * stands for any text without a comma (default: each may do everything).")
    private Path roles;

    TlsFiles() {}

    Roles roles() throws IOException {
        return roles == null ? Roles.ALL : Roles.read(roles);
    }

    TlsOptions options() {
        return new TlsOptions(certificate, key, authorities);
    }
}
