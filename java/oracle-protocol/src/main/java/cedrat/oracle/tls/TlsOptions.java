package cedrat.oracle.tls;

import java.nio.file.Path;
import java.util.Objects;

/// TLS between clients and the status oracle: what one side shows, and what it accepts. Both sides show a certificate,
/// except clients that authenticate themselves by [cedrat.oracle.authentication.Credentials].
///
/// The files are PEM. They are read again for a later connection if they have changed, so that certificates are
/// renewed while a program runs: replace them by renaming new files over them.
public final class TlsOptions {
    private final Path certificate;
    private final Path key;
    private final Path authorities;

    /// TLS with these files.
    ///
    /// @param certificate the own certificate, then those between it and its authority; `null`, as `key`, for none
    /// @param key the private key of that certificate, in PKCS #8 and not encrypted
    /// @param authorities certificates of the authorities from which the certificate of the other side must come
    public TlsOptions(Path certificate, Path key, Path authorities) {
        if ((certificate == null) != (key == null)) {
            throw new IllegalArgumentException("certificate and key belong together: name both, or none");
        }
        this.certificate = certificate;
        this.key = key;
        this.authorities = Objects.requireNonNull(authorities, "authorities");
    }

    /// TLS of a client that shows no certificate.
    public static TlsOptions trusting(Path authorities) {
        return new TlsOptions(null, null, authorities);
    }

    /// Whether a certificate is shown.
    public boolean hasCertificate() {
        return certificate != null;
    }

    /// Returns the file of the own certificate; `null` if there is none.
    public Path certificate() {
        return certificate;
    }

    /// Returns the file of its private key; `null` if there is none.
    public Path key() {
        return key;
    }

    /// Returns the file of the accepted authorities.
    public Path authorities() {
        return authorities;
    }

    @Override
    public boolean equals(Object other) {
        if (!(other instanceof TlsOptions)) {
            return false;
        }
        TlsOptions tlsOptions = (TlsOptions) other;
        return Objects.equals(certificate, tlsOptions.certificate)
                && Objects.equals(key, tlsOptions.key)
                && authorities.equals(tlsOptions.authorities);
    }

    @Override
    public int hashCode() {
        return Objects.hash(certificate, key, authorities);
    }

    @Override
    public String toString() {
        return "TlsOptions[certificate=" + certificate + ", key=" + key + ", authorities=" + authorities + "]";
    }
}
