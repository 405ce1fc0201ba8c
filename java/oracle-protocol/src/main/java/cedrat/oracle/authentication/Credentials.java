package cedrat.oracle.authentication;

import java.nio.file.Path;
import java.util.Objects;

/// How a client authenticates itself, other than by the certificate of [cedrat.oracle.tls.TlsOptions]: by a [Token]
/// or by [Kerberos].
public abstract class Credentials {
    private Credentials() {}

    /// Returns the token in this file, for connections over TLS only.
    public static Credentials token(Path file) {
        return new Token(file, false);
    }

    /// Returns the token in this file, also for connections without TLS.
    public static Credentials tokenWithoutTls(Path file) {
        return new Token(file, true);
    }

    /// Returns the ticket in the ticket cache of this user.
    public static Credentials kerberos(String service) {
        return new Kerberos(service, null, null);
    }

    /// Returns tickets that keys of this file get.
    public static Credentials kerberos(String service, String principal, Path keytab) {
        return new Kerberos(service, principal, keytab);
    }

    /// A token that `cedrat-oracle token add` has printed.
    public static final class Token extends Credentials {
        private final Path file;
        private final boolean isAllowedWithoutTls;

        private Token(Path file, boolean isAllowedWithoutTls) {
            this.file = Objects.requireNonNull(file, "file");
            this.isAllowedWithoutTls = isAllowedWithoutTls;
        }

        /// Returns a file of one line, `NAME:TOKEN`. It is read again for each connection, so a token is exchanged
        /// while the program runs.
        public Path file() {
            return file;
        }

        /// Whether it is also sent over connections without TLS, where the network can read it.
        public boolean isAllowedWithoutTls() {
            return isAllowedWithoutTls;
        }
    }

    /// A ticket of Kerberos. Realm and key distribution centre are those of the JDK's `krb5.conf`.
    public static final class Kerberos extends Credentials {
        private final String service;
        private final String principal;
        private final Path keytab;

        private Kerberos(String service, String principal, Path keytab) {
            this.service = Objects.requireNonNull(service, "service");
            if ((principal == null) != (keytab == null)) {
                throw new IllegalArgumentException(
                        "principal and keytab of Kerberos belong together: name both, or none");
            }
            this.principal = principal;
            this.keytab = keytab;
        }

        /// Returns the first part of the server's principal, whose second part is the host that the client connects to:
        /// `cedrat` for `cedrat/oracle.example.org`.
        public String service() {
            return service;
        }

        /// Returns the name of the client in [#keytab]; `null` for the ticket that `kinit` has put into the ticket
        /// cache.
        public String principal() {
            return principal;
        }

        /// Returns the file of its keys; `null` as [#principal].
        public Path keytab() {
            return keytab;
        }
    }
}
