package cedrat.oracle.server;

import java.net.InetSocketAddress;
import java.util.List;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.Spec;

/// Options of commands that are clients of an oracle: where it is, and how they authenticate themselves.
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

    @Mixin
    private ClientSecurity security;

    /// Options that picocli fills.
    public OracleAddress() {}

    /// Returns the addresses, which are not resolved.
    ///
    /// @throws ParameterException if one of them is none
    public List<InetSocketAddress> servers() {
        return servers.stream().map(this::address).toList();
    }

    /// Returns TLS and authentication of the client.
    public ClientSecurity security() {
        return security;
    }

    private InetSocketAddress address(String server) {
        try {
            return ServerAddress.of(server);
        } catch (IllegalArgumentException invalid) {
            throw new ParameterException(spec.commandLine(), "invalid --oracle: " + invalid.getMessage(), invalid);
        }
    }
}
