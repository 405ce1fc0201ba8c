package cedrat.oracle.server;

import cedrat.oracle.tls.TlsOptions;
import java.net.InetSocketAddress;
import java.util.List;
import java.util.Optional;
import picocli.CommandLine.ArgGroup;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.Spec;

/// Options of commands that are clients of an oracle: where it is, and with which certificate it is asked.
public final class OracleAddress {
    @Spec(Spec.Target.MIXEE)
    private CommandSpec spec;

    @Option(
            names = "--oracle",
            paramLabel = "HOST:PORT[,...]",
            split = ",",
            defaultValue = "127.0.0.1:" + ServerOptions.PORT,
            description = "The addresses of the servers, of which one serves (default: ${DEFAULT-VALUE}).")
    private List<String> servers;

    @ArgGroup(exclusive = false)
    private TlsFiles tls;

    /// Options that picocli fills.
    public OracleAddress() {}

    /// Returns the addresses, which are not resolved.
    ///
    /// @throws ParameterException if one of them is none
    public List<InetSocketAddress> servers() {
        return servers.stream().map(this::address).toList();
    }

    /// Returns the files of TLS, if it is to be used.
    public Optional<TlsOptions> tls() {
        return Optional.ofNullable(tls).map(TlsFiles::options);
    }

    private InetSocketAddress address(String server) {
        try {
            return ServerAddress.of(server);
        } catch (IllegalArgumentException invalid) {
            throw new ParameterException(spec.commandLine(), "invalid --oracle: " + invalid.getMessage(), invalid);
        }
    }
}
