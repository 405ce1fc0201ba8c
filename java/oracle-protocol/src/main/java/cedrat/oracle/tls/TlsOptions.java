package cedrat.oracle.tls;

import java.nio.file.Path;
import java.util.Objects;

/// TLS between clients and the status oracle: what one side shows, and what it accepts. Both sides show a certificate,
/// except clients that authenticate themselves by [cedrat.oracle.authentication.Credentials].
///
/// The files are PEM. They are read again for a later connection if they have changed, so that certificates are
/// renewed while a program runs: replace them by renaming new files over them.
///
/// @param certificate the own certificate, then those between it and its authority; `null`, as `key`, for none
/// @param key the private key of that certificate, in PKCS #8 and not encrypted
/// @param authorities certificates of the authorities from which the certificate of the other side must come
public record TlsOptions(Path certificate, Path key, Path authorities) {
    /// Checks that there are authorities, and both or none of certificate and key.
    public TlsOptions {
        Objects.requireNonNull(authorities, "authorities");
        if ((certificate == null) != (key == null)) {
            throw new IllegalArgumentException("certificate and key belong together: name both, or none");
        }
    }

    /// TLS of a client that shows no certificate.
    public static TlsOptions trusting(Path authorities) {
        return new TlsOptions(null, null, authorities);
    }

    /// Whether a certificate is shown.
    public boolean hasCertificate() {
        return certificate != null;
    }
}
