package cedrat.oracle.server;

import cedrat.oracle.authentication.Credentials;
import cedrat.oracle.tls.TlsOptions;
import java.nio.file.Path;
import java.util.Optional;
import picocli.CommandLine.ArgGroup;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.Spec;

/// Options of a client: TLS, and how it authenticates itself.
public final class ClientSecurity {
    @Spec(Spec.Target.MIXEE)
    private CommandSpec spec;

    @ArgGroup(exclusive = false)
    private Files tls;

    @ArgGroup(exclusive = true)
    private Authentication authentication;

    /// Options that picocli fills.
    public ClientSecurity() {}

    private static final class Files {
        @Option(
                names = "--tls-authorities",
                paramLabel = "FILE",
                required = true,
                description =
                        "Use TLS, and accept servers that show a certificate of these authorities (PEM), and no others.")
        private Path authorities;

        @ArgGroup(exclusive = false)
        private Certificate certificate;
    }

    private static final class Certificate {
        @Option(
                names = "--tls-certificate",
                paramLabel = "FILE",
                required = true,
                description = "Show this certificate (PEM; then those between it and its authority).")
        private Path certificate;

        @Option(
                names = "--tls-key",
                paramLabel = "FILE",
                required = true,
                description = "The private key of that certificate (PEM, PKCS #8, not encrypted).")
        private Path key;
    }

    private static final class Authentication {
        @ArgGroup(exclusive = false)
        private Token token;

        @ArgGroup(exclusive = false)
        private Kerberos kerberos;
    }

    private static final class Token {
        @Option(
                names = "--token-file",
                paramLabel = "FILE",
                required = true,
                description = "Authenticate by the token in this file, which `cedrat-oracle token add` has printed.")
        private Path file;

        @Option(
                names = "--token-without-tls",
                description = "Send it without TLS, too. Others on the network can then read it.")
        private boolean isWithoutTls;
    }

    private static final class Kerberos {
        @Option(
                names = "--kerberos-service",
                paramLabel = "NAME",
                required = true,
                description =
                        "Authenticate by Kerberos. NAME is the first part of the server's principal, as in NAME/HOST.")
        private String service;

        @ArgGroup(exclusive = false)
        private Keys keys;
    }

    private static final class Keys {
        @Option(
                names = "--kerberos-principal",
                paramLabel = "NAME",
                required = true,
                description = "The own principal (default: that of the ticket cache).")
        private String principal;

        @Option(
                names = "--kerberos-keytab",
                paramLabel = "FILE",
                required = true,
                description = "The keys of that principal.")
        private Path keytab;
    }

    /// Returns the files of TLS, if it is to be used.
    public Optional<TlsOptions> tls() {
        return Optional.ofNullable(tls)
                .map(files -> files.certificate == null
                        ? TlsOptions.trusting(files.authorities)
                        : new TlsOptions(files.certificate.certificate, files.certificate.key, files.authorities));
    }

    /// Returns how the client authenticates itself, if not by its certificate alone.
    ///
    /// @throws ParameterException if a token would be sent without TLS
    public Optional<Credentials> credentials() {
        if (authentication == null) {
            return Optional.empty();
        }
        Kerberos kerberos = authentication.kerberos;
        if (kerberos != null) {
            return Optional.of(
                    kerberos.keys == null
                            ? Credentials.kerberos(kerberos.service)
                            : Credentials.kerberos(kerberos.service, kerberos.keys.principal, kerberos.keys.keytab));
        }
        Token token = authentication.token;
        if (tls == null && !token.isWithoutTls) {
            throw new ParameterException(
                    spec.commandLine(),
                    "--token-file needs TLS, because others could read the token: add --tls-authorities, or permit it"
                            + " with --token-without-tls");
        }
        return Optional.of(
                token.isWithoutTls ? Credentials.tokenWithoutTls(token.file) : Credentials.token(token.file));
    }
}
