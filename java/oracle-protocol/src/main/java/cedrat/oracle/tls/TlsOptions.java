package cedrat.oracle.tls;

import java.nio.file.Path;
import java.util.Objects;

/// TLS between clients and the status oracle: what one side shows, and what it accepts. Both sides show a certificate.
///
/// The files are PEM. They are read again for a later connection if they have changed, so that certificates are
/// renewed while a program runs: replace them by renaming new files over them.
///
/// @param certificate the own certificate, then those between it and its authority
/// @param key the private key of that certificate, in PKCS #8 and not encrypted
/// @param authorities certificates of the authorities from which the certificate of the other side must come
public record TlsOptions(Path certificate, Path key, Path authorities) {
    /// Checks that there are three.
    public TlsOptions {
        Objects.requireNonNull(certificate, "certificate");
        Objects.requireNonNull(key, "key");
        Objects.requireNonNull(authorities, "authorities");
    }
}
