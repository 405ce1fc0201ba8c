package cedrat.oracle.server;

import cedrat.oracle.log.DamagedEntryException;
import cedrat.oracle.log.Log;
import cedrat.oracle.log.SharedLogs;
import cedrat.oracle.log.VolatileLog;
import cedrat.oracle.log.embedded.EmbeddedLog;
import cedrat.oracle.protocol.Protocol;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ServiceLoader;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletionException;
import picocli.CommandLine;
import picocli.CommandLine.Command;
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
        subcommands = Main.Serve.class)
public final class Main implements Callable<Integer> {
    /// It was closed.
    static final int EXIT_ENDED = 0;
    /// It cannot begin: the log does not open, or the address is not to be had.
    static final int EXIT_CANNOT_START = 1;
    /// The command makes no sense (picocli's own).
    static final int EXIT_USAGE = 2;
    /// The log has failed while it served, or another server has it now.
    static final int EXIT_LOG_FAILED = 3;

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
        return new CommandLine(new Main(fault))
                .setCaseInsensitiveEnumValuesAllowed(true)
                .execute(arguments);
    }

    @Override
    public Integer call() {
        throw new ParameterException(spec.commandLine(), "what shall it do? `serve` serves");
    }

    /// What logs there are.
    enum LogKind {
        /// Keeps nothing.
        NONE {
            @Override
            Log make(Serve options) {
                return new VolatileLog();
            }
        },
        /// Keeps them in a directory of this machine.
        EMBEDDED {
            @Override
            Log make(Serve options) {
                return new EmbeddedLog(EmbeddedLog.Options.keeping(options.data(), options.logBytesMax));
            }
        },
        /// Keeps them in BookKeeper, for several servers of which one serves.
        BOOKKEEPER {
            @Override
            Log make(Serve options) {
                return options.shared();
            }
        };

        abstract Log make(Serve options);
    }

    /// `cedrat-oracle serve`.
    @Command(
            name = "serve",
            mixinStandardHelpOptions = true,
            description = "Serves clients until it is told to end.",
            exitCodeListHeading = "Exit codes:%n",
            exitCodeList = {
                "1:it cannot begin: the log does not open, or the address is not to be had",
                "2:the command makes no sense",
                "3:the log has failed, or another server has it now; nothing was answered since",
                "130, 143:a signal told it to end, and it has answered all that it had decided"
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
                        "The address to listen on (default: ${DEFAULT-VALUE}). Clients are not asked who they are: keep it to networks that only they are in.")
        private String host;

        @Option(
                names = "--port",
                paramLabel = "N",
                defaultValue = "" + ServerOptions.PORT,
                description = "The port to listen on; 0 for any (default: ${DEFAULT-VALUE}).")
        private int port;

        @Option(
                names = "--log",
                paramLabel = "KIND",
                required = true,
                description =
                        "Where decisions are kept: ${COMPLETION-CANDIDATES}. With embedded, in the directory that --data names. With bookkeeper, in ledgers that --zookeeper leads to: of all servers with the same --zookeeper and --path one serves, and the others wait for their turn. With none, nothing survives the end of the server, and timestamps begin at 1 again.")
        private LogKind log;

        @Option(
                names = "--data",
                paramLabel = "DIR",
                description =
                        "With --log embedded: the directory of the log, on a local disk; made if it is not there. One server at a time can have it.")
        private Path data;

        @Option(
                names = "--zookeeper",
                paramLabel = "HOST:PORT[,...]",
                description = "With --log bookkeeper: the ZooKeeper that the bookies have.")
        private String zooKeeper;

        @Option(
                names = "--path",
                paramLabel = "PATH",
                defaultValue = "/cedrat/oracle",
                description =
                        "With --log bookkeeper: the node of ZooKeeper below which this oracle's servers meet (default: ${DEFAULT-VALUE}).")
        private String path;

        @Option(
                names = "--zookeeper-session-ms",
                paramLabel = "MS",
                defaultValue = "4000",
                description =
                        "With --log bookkeeper: a server that ZooKeeper has not heard for so long stops, and another takes over (default: ${DEFAULT-VALUE}).")
        private long zooKeeperSessionMs;

        @Option(
                names = "--ledger-bytes-max",
                paramLabel = "N",
                defaultValue = "67108864",
                description =
                        "With --log bookkeeper: a ledger of so many bytes is followed by another; room comes back by whole ledgers (default: ${DEFAULT-VALUE}).")
        private long ledgerBytesMax;

        @Option(
                names = "--log-bytes-max",
                paramLabel = "N",
                defaultValue = "1073741824",
                description =
                        "Cut the log to about so many bytes, which bounds the time of a start, too; the disk needs room for four times as many (default: ${DEFAULT-VALUE}).")
        private long logBytesMax;

        @Option(
                names = "--rows-log2",
                paramLabel = "N",
                defaultValue = "20",
                description =
                        "Keep the newest 15/16 of 2^N committed rows in memory, 16 bytes each (default: ${DEFAULT-VALUE}).")
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
                names = "--network-threads",
                paramLabel = "N",
                defaultValue = "0",
                description =
                        "Threads that read and write beside the one that decides (default: ${DEFAULT-VALUE}: that one does it all).")
        private int networkThreads;

        Serve() {}

        @Override
        public Integer call() {
            ServerOptions options = options();
            OracleServer server;
            try {
                server = OracleServer.start(options, log.make(this), command.fault);
            } catch (IllegalArgumentException nonsense) {
                throw new ParameterException(spec.commandLine(), nonsense.getMessage(), nonsense);
            } catch (IOException | DamagedEntryException problem) {
                say("cannot start: " + problem.getMessage());
                return EXIT_CANNOT_START;
            }
            // One line on the standard output, for whoever has started it with port 0.
            System.out.println("listening on " + server.address().getHostString() + ":"
                    + server.address().getPort());
            System.out.flush();
            Thread ending = new Thread(() -> end(server), "end");
            Runtime.getRuntime().addShutdownHook(ending);
            return await(server);
        }

        /// Waits until the server has ended or stopped; returns the exit code.
        static int await(OracleServer server) {
            try {
                server.stopped().toCompletableFuture().join();
                return EXIT_ENDED;
            } catch (CompletionException failed) {
                say("stopped, for nothing can be promised any more: " + failed.getCause());
                return EXIT_LOG_FAILED;
            }
        }

        private ServerOptions options() {
            try {
                return new ServerOptions(
                        new InetSocketAddress(host, port),
                        rowsLog2,
                        Duration.ofMillis(sessionTimeoutMs),
                        rowsMax,
                        outstandingMax,
                        networkThreads,
                        logBytesMax);
            } catch (IllegalArgumentException nonsense) {
                throw new ParameterException(spec.commandLine(), nonsense.getMessage(), nonsense);
            }
        }

        private Log shared() {
            if (zooKeeper == null) {
                throw new ParameterException(
                        spec.commandLine(), "--log bookkeeper needs --zookeeper HOST:PORT, which knows the bookies");
            }
            SharedLogs logs = ServiceLoader.load(SharedLogs.class)
                    .findFirst()
                    .orElseThrow(() -> new ParameterException(
                            spec.commandLine(), "the jars of oracle-log-bookkeeper are not on the class path"));
            Log shared = logs.make(new SharedLogs.Place(
                    zooKeeper, path, Duration.ofMillis(zooKeeperSessionMs), ledgerBytesMax, host + ":" + port));
            say("waits for its turn");
            return shared;
        }

        private Path data() {
            if (data == null) {
                throw new ParameterException(
                        spec.commandLine(), "--log embedded needs --data DIR, the directory of the log");
            }
            return data;
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
                say("the log does not close: " + problem.getMessage());
            }
        }

        private static void say(String text) {
            System.err.println("cedrat-oracle: " + text);
        }
    }
}
