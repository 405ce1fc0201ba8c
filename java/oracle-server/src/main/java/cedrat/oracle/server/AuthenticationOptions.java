package cedrat.oracle.server;

import java.nio.file.Path;
import java.util.Objects;
import java.util.Optional;

/// How clients may authenticate themselves, other than by a certificate.
///
/// @param tokens the file of tokens, which `cedrat-oracle token` makes
/// @param kerberos the server's keys of Kerberos
/// @param isAllowedWithoutTls whether the server offers them without TLS, too. Then others can read tokens, and can
///     take over a connection after its authentication
public record AuthenticationOptions(Optional<Path> tokens, Optional<Kerberos> kerberos, boolean isAllowedWithoutTls) {
    /// Certificates only.
    public static final AuthenticationOptions NONE =
            new AuthenticationOptions(Optional.empty(), Optional.empty(), false);

    /// Checks that nothing is `null`.
    public AuthenticationOptions {
        Objects.requireNonNull(tokens);
        Objects.requireNonNull(kerberos);
    }

    /// The server's principal, `SERVICE/HOST` or `SERVICE/HOST@REALM`, and the file of its keys.
    public record Kerberos(String principal, Path keytab) {
        /// Checks the principal.
        public Kerberos {
            Objects.requireNonNull(keytab);
            if (!principal.matches("[^/@]+/[^/@]+(@[^/@]+)?")) {
                throw new IllegalArgumentException(
                        "invalid principal of a server " + principal + ": write SERVICE/HOST or SERVICE/HOST@REALM");
            }
        }

        /// Returns the first part of the principal, which clients have to know.
        String service() {
            return principal.substring(0, principal.indexOf('/'));
        }
    }

    /// The same, with the tokens of this file.
    public AuthenticationOptions withTokens(Path file) {
        return new AuthenticationOptions(Optional.of(file), kerberos, isAllowedWithoutTls);
    }

    /// The same, with Kerberos.
    public AuthenticationOptions withKerberos(String principal, Path keytab) {
        return new AuthenticationOptions(tokens, Optional.of(new Kerberos(principal, keytab)), isAllowedWithoutTls);
    }

    /// The same, also without TLS.
    public AuthenticationOptions withoutTls() {
        return new AuthenticationOptions(tokens, kerberos, true);
    }

    /// Whether there is no other authentication than that by certificates.
    boolean isEmpty() {
        return tokens.isEmpty() && kerberos.isEmpty();
    }
}
