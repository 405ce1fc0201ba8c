package cedrat.oracle.server;

import cedrat.oracle.log.DamagedEntryException;
import cedrat.oracle.protocol.Protocol;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Optional;
import java.util.ServiceLoader;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletionException;
import picocli.CommandLine;
import picocli.CommandLine.ArgGroup;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.ParentCommand;
import picocli.CommandLine.Spec;

/// The command `cedrat-oracle`.
@Command(
        name = "cedrat-oracle",
        mixinStandardHelpOptions = true,
        version = "cedrat-oracle 0.1.0",
        description = "The transaction status oracle.",
        subcommands = {
            InitCommand.class,
            Main.Serve.class,
            LogCommand.class,
            RestoreCommand.class,
            MigrateCommand.class,
            TokenCommand.class
        })
public final class Main implements Callable<Integer> {
    /// It was closed.
    static final int EXIT_ENDED = 0;
    /// It cannot start: the log does not open, or the address is not available.
    static final int EXIT_CANNOT_START = 1;
    /// The command is invalid (picocli's own).
    static final int EXIT_USAGE = 2;
    /// The log has failed while it served, or another server has it now.
    static final int EXIT_LOG_FAILED = 3;
    /// The log, or the file, that was to be created exists already.
    static final int EXIT_EXISTS = 4;

    @Spec
    private CommandSpec spec;

    private final Fault fault;

    Main(Fault fault) {
        this.fault = fault;
    }

    /// Runs the command.
    public static void main(String[] arguments) {
        System.exit(run(arguments));
    }

    static int run(String... arguments) {
        return run(Fault.NONE, arguments);
    }

    static int run(Fault fault, String... arguments) {
        return of(fault).execute(arguments);
    }

    /// Returns the command with all that the class path has.
    static CommandLine of(Fault fault) {
        CommandLine command = AdminCommands.addTo(new CommandLine(new Main(fault)));
        for (Subcommands others : ServiceLoader.load(Subcommands.class)) {
            others.commands().forEach(command::addSubcommand);
        }
        return command.setCaseInsensitiveEnumValuesAllowed(true);
    }

    @Override
    public Integer call() {
        throw new ParameterException(
                spec.commandLine(),
                "a subcommand is missing: `init` creates a log, `serve` starts a server, `log dump` shows a log");
    }

    /// `cedrat-oracle serve`.
    @Command(
            name = "serve",
            mixinStandardHelpOptions = true,
            description = "Serves clients until it is stopped.",
            exitCodeListHeading = "Exit codes:%n",
            exitCodeList = {
                "1:it cannot start: the log does not open or was not initialised, or the address is not available",
                "2:the command is invalid",
                "3:the log has failed, or another server has it now; nothing was answered since",
                "130, 143:a signal stopped it, and it has answered all that it had decided"
            })
    static final class Serve implements Callable<Integer> {
        @Spec
        private CommandSpec spec;

        @ParentCommand
        private Main command;

        @Option(
                names = "--host",
                paramLabel = "NAME",
                defaultValue = "127.0.0.1",
                description =
                        "The address to listen on (default: ${DEFAULT-VALUE}). Without TLS, tokens and Kerberos, clients are not asked who they are: keep it to networks that only they are in.")
        private String host;

        @Option(
                names = "--port",
                paramLabel = "N",
                defaultValue = "" + ServerOptions.PORT,
                description = "The port to listen on; 0 for any (default: ${DEFAULT-VALUE}).")
        private int port;

        @Mixin
        private LogOptions log;

        @Option(
                names = "--rows-log2",
                paramLabel = "N",
                defaultValue = "20",
                description =
                        "Keep the newest 15/16 of 2^N committed rows in memory, 16 bytes each, and a quarter as many keys of tables whose scans are checked, 112 bytes each (default: ${DEFAULT-VALUE}).")
        private int rowsLog2;

        @Option(
                names = "--session-timeout-ms",
                paramLabel = "MS",
                defaultValue = "30000",
                description =
                        "A client that is silent for so long has its open transactions aborted (default: ${DEFAULT-VALUE}).")
        private long sessionTimeoutMs;

        @Option(
                names = "--rows-max",
                paramLabel = "N",
                defaultValue = "" + Protocol.ROWS_MAX,
                description = "The most rows of one transaction (default: ${DEFAULT-VALUE}).")
        private int rowsMax;

        @Option(
                names = "--outstanding-max",
                paramLabel = "N",
                defaultValue = "16384",
                description =
                        "With so many requests of a connection unanswered, it is not read from (default: ${DEFAULT-VALUE}).")
        private int outstandingMax;

        @Option(
                names = "--connections-max",
                paramLabel = "N",
                description =
                        "Maximum number of connections; others are refused (default: 10000, or the limit of open files less 256, if that is lower).")
        private int connectionsMax = ServerOptions.DEFAULTS.connectionsMax();

        @Option(
                names = "--hello-timeout-ms",
                paramLabel = "MS",
                defaultValue = "10000",
                description =
                        "Time from the acceptance of a connection to its hello; without a hello it is then closed (default: ${DEFAULT-VALUE}).")
        private long helloTimeoutMs;

        @Option(
                names = "--network-threads",
                paramLabel = "N",
                defaultValue = "0",
                description =
                        "Threads that read and write beside the one that decides (default: ${DEFAULT-VALUE}: that one does it all).")
        private int networkThreads;

        @Option(
                names = "--outcome-bytes-max",
                paramLabel = "N",
                defaultValue = "268435456",
                description =
                        "What became of transactions, and was not cleaned up, takes about so much memory at most (default: ${DEFAULT-VALUE}); what is more is spilled to a file.")
        private long outcomeBytesMax;

        @Option(
                names = "--scratch",
                paramLabel = "DIR",
                defaultValue = "${sys:java.io.tmpdir}",
                description =
                        "The directory of that file, on a disk (default: ${DEFAULT-VALUE}). The file has no name there, and goes with the server.")
        private Path scratch;

        @ArgGroup(exclusive = false)
        private TlsFiles tls;

        @Option(
                names = "--tokens",
                paramLabel = "FILE",
                description =
                        "Accept clients with the tokens of this file, which `cedrat-oracle token add` creates. It is read again when it has changed.")
        private Path tokens;

        @ArgGroup(exclusive = false)
        private KerberosKeys kerberos;

        @Option(
                names = "--authentication-without-tls",
                description =
                        "Accept tokens and Kerberos without TLS, too. Others on the network can then read tokens, and take over connections.")
        private boolean isAuthenticationWithoutTls;

        @Option(
                names = "--roles",
                paramLabel = "FILE",
                description =
                        "What clients may do: lines of a role, `client`, `cleaner` or `administrator`, and the name in a certificate, token:NAME or kerberos:PRINCIPAL, in which * stands for any text without a comma. Lines of `limits` say how much (default: each may do everything). It is read again when it has changed.")
        private Path roles;

        @Option(
                names = "--metrics",
                paramLabel = "HOST:PORT",
                description =
                        "Answer what operators ask over HTTP there: /metrics for Prometheus, /health, /ready. Port 0 for any.")
        private String metrics;

        Serve() {}

        @Override
        public Integer call() {
            OracleServer server;
            OperationServer operation = null;
            try {
                ServerOptions options = options();
                Health health = new Health();
                if (log.isShared()) {
                    health.become(Health.State.STANDBY, "standing by, while another server may have the log");
                }
                operation = metrics == null ? null : new OperationServer(OperationHttp.address(metrics), health);
                server = OracleServer.start(options, log.makeServed(host, port), command.fault);
            } catch (IllegalArgumentException nonsense) {
                close(operation);
                throw new ParameterException(spec.commandLine(), nonsense.getMessage(), nonsense);
            } catch (IOException | DamagedEntryException problem) {
                close(operation);
                say("cannot start: " + problem.getMessage());
                return EXIT_CANNOT_START;
            }
            if (operation != null) {
                operation.serving(server);
            }
            // One line on the standard output, for a parent process that passed port 0.
            System.out.println("listening on " + server.address().getHostString() + ":"
                    + server.address().getPort());
            System.out.flush();
            Thread ending = new Thread(() -> end(server), "end");
            Runtime.getRuntime().addShutdownHook(ending);
            try {
                return await(server);
            } finally {
                close(operation);
            }
        }

        private static void close(OperationServer operation) {
            if (operation != null) {
                operation.close();
            }
        }

        /// Waits until the server has ended or stopped; returns the exit code.
        static int await(OracleServer server) {
            try {
                server.stopped().toCompletableFuture().join();
                return EXIT_ENDED;
            } catch (CompletionException failed) {
                say("stopped after a failure: " + failed.getCause());
                return EXIT_LOG_FAILED;
            }
        }

        private Roles roles() throws IOException {
            if (roles == null) {
                return Roles.ALL;
            }
            if (tls == null && authentication().isEmpty()) {
                throw new ParameterException(
                        spec.commandLine(),
                        "--roles needs to know who clients are: add --tls-certificate, --tokens or --kerberos-keytab");
            }
            return Roles.read(roles);
        }

        private AuthenticationOptions authentication() {
            return new AuthenticationOptions(
                    Optional.ofNullable(tokens),
                    Optional.ofNullable(kerberos).map(KerberosKeys::options),
                    isAuthenticationWithoutTls);
        }

        private ServerOptions options() throws IOException {
            try {
                return new ServerOptions(
                        new InetSocketAddress(host, port),
                        rowsLog2,
                        Duration.ofMillis(sessionTimeoutMs),
                        rowsMax,
                        outstandingMax,
                        networkThreads,
                        log.bytesMax(),
                        outcomeBytesMax,
                        scratch,
                        Duration.ofMillis(helloTimeoutMs),
                        connectionsMax,
                        Optional.ofNullable(tls).map(TlsFiles::options),
                        roles(),
                        authentication());
            } catch (IllegalArgumentException nonsense) {
                throw new ParameterException(spec.commandLine(), nonsense.getMessage(), nonsense);
            }
        }

        /// A signal says that it is time to end; the virtual machine then makes an exit code of the signal's
        /// number.
        private static void end(OracleServer server) {
            if (server.stopped().toCompletableFuture().isCompletedExceptionally()) {
                return;
            }
            try {
                server.close();
            } catch (IOException problem) {
                say("cannot close the log: " + problem.getMessage());
            }
        }

        private static void say(String text) {
            System.err.println("cedrat-oracle: " + text);
        }
    }
}
