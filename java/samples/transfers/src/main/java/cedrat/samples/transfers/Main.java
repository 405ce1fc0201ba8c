package cedrat.samples.transfers;

import cedrat.oracle.client.ClientOptions;
import cedrat.oracle.log.VolatileLog;
import cedrat.oracle.server.OracleServer;
import cedrat.oracle.server.ServerOptions;
import cedrat.oracle.server.TlsFiles;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.stream.Collectors;
import picocli.CommandLine;
import picocli.CommandLine.ArgGroup;
import picocli.CommandLine.Command;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.Spec;

/// The command.
@Command(
        name = "transfers",
        mixinStandardHelpOptions = true,
        description = "Moves money between two tables; one client dies, and the total stays.",
        exitCodeListHeading = "Exit codes:%n",
        exitCodeList = {
            "0:the total was always the same",
            "1:it was not, or something failed",
            "2:the command is invalid"
        })
public final class Main implements Callable<Integer> {
    private static final int CONNECT_MS = 10_000;

    @Option(
            names = "--oracle",
            paramLabel = "HOST:PORT",
            split = ",",
            description = "An oracle: its server, or all of its servers with commas between them, of which one serves."
                    + " Without it, one in this program.")
    private List<String> oracle;

    @ArgGroup(exclusive = false)
    private TlsFiles tls;

    @Option(
            names = "--hbase",
            paramLabel = "HOST:PORT",
            description =
                    "The ZooKeeper of an HBase that keeps the tables, with clients that are processes; needs --oracle."
                            + " Without it, the tables are in the memory of this program.")
    private String hbase;

    @Option(names = "--as-client", hidden = true)
    private boolean isClient;

    @Option(names = "--dies", hidden = true)
    private boolean dies;

    @Option(
            names = "--clients",
            defaultValue = "4",
            description = "So many clients, one of which dies (${DEFAULT-VALUE}).")
    private int clients;

    @Option(names = "--transfers", defaultValue = "1000", description = "So many transfers of each (${DEFAULT-VALUE}).")
    private int transfers;

    @Option(
            names = "--accounts",
            defaultValue = "20",
            description = "So many accounts in each table (${DEFAULT-VALUE}).")
    private int accounts;

    @Option(names = "--seed", defaultValue = "1", description = "Chance begins here (${DEFAULT-VALUE}).")
    private long seed;

    @Spec
    private CommandSpec spec;

    private final Witness witness;
    private final Class<?> program;

    private Main(Witness witness, Class<?> program) {
        this.witness = witness;
        this.program = program;
    }

    /// Runs the command.
    public static void main(String[] arguments) {
        System.exit(run(arguments));
    }

    static int run(String... arguments) {
        return run(Witness.NONE, Main.class, arguments);
    }

    /// The same, with a witness of what this process does, and clients that are processes of another program.
    static int run(Witness witness, Class<?> program, String... arguments) {
        return new CommandLine(new Main(witness, program)).execute(arguments);
    }

    @Override
    public Integer call() throws Exception {
        if (clients < 1 || transfers < 2 || accounts < 1) {
            throw new ParameterException(
                    spec.commandLine(),
                    "invalid number of clients, transfers or accounts: choose at least 1 client, 2 transfers and 1 account");
        }
        if (hbase != null) {
            if (oracle == null) {
                throw new ParameterException(spec.commandLine(), "--hbase needs --oracle HOST:PORT");
            }
            if (!connects("HBase's ZooKeeper", List.of(address(hbase))) || !connects("the oracle", servers())) {
                return 1;
            }
            Processes processes =
                    new Processes(options(), address(hbase), clients, transfers, accounts, seed, witness, program);
            return isClient ? processes.pay(dies) : report(processes.run());
        }
        if (oracle != null) {
            return connects("the oracle", servers()) ? report(options()) : 1;
        }
        ServerOptions options = ServerOptions.DEFAULTS.withListen(new InetSocketAddress("127.0.0.1", 0));
        try (OracleServer server = OracleServer.start(options, new VolatileLog())) {
            return report(ClientOptions.of(server.address()));
        }
    }

    /// Tries to connect to one of the addresses, and prints a message if none accepts. The clients of HBase and of the
    /// oracle would try for minutes, and print the stack of each attempt.
    private boolean connects(String service, List<InetSocketAddress> addresses) {
        IOException last = null;
        for (InetSocketAddress address : addresses) {
            try (Socket socket = new Socket()) {
                socket.connect(new InetSocketAddress(address.getHostString(), address.getPort()), CONNECT_MS);
                return true;
            } catch (IOException refused) {
                last = refused;
            }
        }
        spec.commandLine()
                .getErr()
                .println("transfers: cannot reach " + service + " at "
                        + addresses.stream().map(Processes::address).collect(Collectors.joining(","))
                        + " (" + last.getMessage() + "): start it with `./x oracle up`");
        return false;
    }

    private ClientOptions options() {
        ClientOptions options = ClientOptions.of(servers().toArray(InetSocketAddress[]::new));
        return tls == null ? options : options.withTls(tls.options());
    }

    private int report(ClientOptions options) throws InterruptedException {
        return report(new Transfers(options, clients, transfers, accounts, seed).run());
    }

    private int report(Transfers.Report report) {
        spec.commandLine()
                .getOut()
                .printf(
                        "%d transfers; the total was taken %d times and was wrong %d times;%n"
                                + "%d rows of the client that died were removed; %d versions of %d accounts are left%n",
                        report.transfers(),
                        report.totals(),
                        report.wrong(),
                        report.removed(),
                        report.versions(),
                        2 * accounts);
        return report.wrong() == 0 ? 0 : 1;
    }

    private List<InetSocketAddress> servers() {
        return oracle.stream().map(this::address).toList();
    }

    private InetSocketAddress address(String text) {
        int colon = text.lastIndexOf(':');
        try {
            return new InetSocketAddress(
                    text.substring(0, Math.max(colon, 0)), Integer.parseInt(text.substring(colon + 1)));
        } catch (IllegalArgumentException nonsense) {
            throw new ParameterException(spec.commandLine(), "invalid address " + text + ": write HOST:PORT");
        }
    }
}
