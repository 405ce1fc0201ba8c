package cedrat.oracle.authentication;

import java.nio.file.Path;
import java.util.Objects;

/// How a client authenticates itself, other than by the certificate of [cedrat.oracle.tls.TlsOptions].
public sealed interface Credentials {
    /// A token that `cedrat-oracle token add` has printed.
    ///
    /// @param file one line, `NAME:TOKEN`. It is read again for each connection, so a token is exchanged while the
    ///     program runs
    /// @param isAllowedWithoutTls whether it is also sent over connections without TLS, where the network can read
    ///     it
    record Token(Path file, boolean isAllowedWithoutTls) implements Credentials {
        /// Checks that there is a file.
        public Token {
            Objects.requireNonNull(file, "file");
        }
    }

    /// A ticket of Kerberos. Realm and key distribution centre are those of the JDK's `krb5.conf`.
    ///
    /// @param service the first part of the server's principal, whose second part is the host that the client
    ///     connects to: `cedrat` for `cedrat/oracle.example.org`
    /// @param principal name of the client in `keytab`; `null` for the ticket that `kinit` has put into the ticket
    ///     cache
    /// @param keytab its keys; `null` as `principal`
    record Kerberos(String service, String principal, Path keytab) implements Credentials {
        /// Checks that there are both, or none, of principal and keytab.
        public Kerberos {
            Objects.requireNonNull(service, "service");
            if ((principal == null) != (keytab == null)) {
                throw new IllegalArgumentException(
                        "principal and keytab of Kerberos belong together: name both, or none");
            }
        }
    }

    /// Returns the token in this file, for connections over TLS only.
    static Credentials token(Path file) {
        return new Token(file, false);
    }

    /// Returns the token in this file, also for connections without TLS.
    static Credentials tokenWithoutTls(Path file) {
        return new Token(file, true);
    }

    /// Returns the ticket in the ticket cache of this user.
    static Credentials kerberos(String service) {
        return new Kerberos(service, null, null);
    }

    /// Returns tickets that keys of this file get.
    static Credentials kerberos(String service, String principal, Path keytab) {
        return new Kerberos(service, principal, keytab);
    }
}
