package cedrat.oracle.server;

import cedrat.oracle.tls.TlsOptions;
import java.nio.file.Path;
import picocli.CommandLine.Option;

/// Options for TLS of a command: the three files, or none.
public final class TlsFiles {
    @Option(
            names = "--tls-certificate",
            paramLabel = "FILE",
            required = true,
            description = "Use TLS, and show this certificate (PEM; then those between it and its authority).")
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
            description = "Accept the peers that show a certificate of these authorities (PEM), and no others.")
    private Path authorities;

    /// For picocli, which sets the files.
    public TlsFiles() {}

    /// Returns the files that the command has named.
    public TlsOptions options() {
        return new TlsOptions(certificate, key, authorities);
    }
}
