package cedrat.oracle.server;

import java.nio.file.Path;
import picocli.CommandLine.Option;

/// Options for Kerberos of a server: both, or none.
final class KerberosKeys {
    @Option(
            names = "--kerberos-principal",
            paramLabel = "SERVICE/HOST",
            required = true,
            description =
                    "Accept clients with tickets of Kerberos for this principal. HOST is the one that clients connect to.")
    private String principal;

    @Option(
            names = "--kerberos-keytab",
            paramLabel = "FILE",
            required = true,
            description = "The keys of that principal.")
    private Path keytab;

    KerberosKeys() {}

    AuthenticationOptions.Kerberos options() {
        return new AuthenticationOptions.Kerberos(principal, keytab);
    }
}
