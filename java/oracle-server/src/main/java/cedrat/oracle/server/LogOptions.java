package cedrat.oracle.server;

import cedrat.oracle.log.DamagedEntryException;
import cedrat.oracle.log.Log;
import cedrat.oracle.log.OpenMode;
import cedrat.oracle.log.SharedLogs;
import cedrat.oracle.log.VolatileLog;
import cedrat.oracle.log.embedded.EmbeddedLog;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Optional;
import java.util.ServiceLoader;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.Spec;

/// Options that say where decisions are kept, the same for all commands.
final class LogOptions {
    /// Kinds of logs.
    enum Kind {
        /// Keeps nothing.
        NONE,
        /// Keeps them in a directory of this machine.
        EMBEDDED,
        /// Keeps them in BookKeeper, for several servers of which one serves.
        BOOKKEEPER
    }

    @Spec(Spec.Target.MIXEE)
    private CommandSpec spec;

    @Option(
            names = "--log",
            paramLabel = "KIND",
            required = true,
            description =
                    "Where decisions are kept: ${COMPLETION-CANDIDATES}. With embedded, in the directory that --data names. With bookkeeper, in ledgers that --zookeeper leads to: of all servers with the same --zookeeper and --path one serves, and the others wait for their turn. With none, nothing survives the end of the server, and timestamps begin at 1 again.")
    private Kind kind;

    @Option(
            names = "--data",
            paramLabel = "DIR",
            description =
                    "With --log embedded: the directory of the log, on a local disk. One server at a time can have it.")
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
            names = "--liveness-port",
            paramLabel = "N",
            defaultValue = "0",
            description =
                    "With --log bookkeeper: the port, of the same address, by which the servers that stand by notice the end of this process before its session expires; 0 for any (default: ${DEFAULT-VALUE}).")
    private int livenessPort;

    @Option(
            names = "--zookeeper-credentials",
            paramLabel = "FILE",
            description =
                    "With --log bookkeeper: a file with NAME:PASSWORD, with which alone the nodes that servers make in ZooKeeper can be accessed (default: everyone can).")
    private Path zooKeeperCredentials;

    @Option(
            names = "--bookkeeper-configuration",
            paramLabel = "FILE",
            description =
                    "With --log bookkeeper: properties of BookKeeper's client, for example of TLS and authentication.")
    private Path bookKeeperConfiguration;

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
    private long bytesMax;

    LogOptions() {}

    long bytesMax() {
        return bytesMax;
    }

    /// Whether several servers share it, of which one serves.
    boolean isShared() {
        return kind == Kind.BOOKKEEPER;
    }

    /// Returns a log that has to exist, and is to be opened by a server that listens at this address.
    Log make(String host, int port) {
        return switch (kind) {
            case NONE -> new VolatileLog();
            case EMBEDDED -> embedded(OpenMode.EXISTING);
            case BOOKKEEPER -> shared(host, port);
        };
    }

    /// Returns a log that is to be created.
    Log makeNew() {
        return switch (kind) {
            case NONE -> throw storesNothing();
            case EMBEDDED -> embedded(OpenMode.CREATE_NEW);
            case BOOKKEEPER -> sharedLogs().make(place("initialises", Optional.empty()), OpenMode.CREATE_NEW);
        };
    }

    /// The place of the log, for people.
    String where() {
        return kind == Kind.EMBEDDED ? "in " + data : "at " + path + " of the ZooKeeper " + zooKeeper;
    }

    private ParameterException storesNothing() {
        return new ParameterException(
                spec.commandLine(), "--log none stores no log: choose --log embedded or --log bookkeeper");
    }

    /// Replays what a log keeps that is there already; none is made. One in BookKeeper stays with the server
    /// that has it.
    void read(Log.Replay replay) throws IOException, DamagedEntryException {
        switch (kind) {
            case NONE -> throw storesNothing();
            case BOOKKEEPER -> sharedLogs().read(place("reads", Optional.empty()), replay);
            case EMBEDDED -> {
                if (!Files.isDirectory(data())) {
                    throw new ParameterException(
                            spec.commandLine(),
                            "there is no directory " + data + ": name the directory of the log with --data");
                }
                try (Log log = embedded(OpenMode.EXISTING)) {
                    log.open(replay, new Deaf());
                }
            }
        }
    }

    /// Nothing is appended, so nothing is acknowledged.
    private static final class Deaf implements Log.Listener {
        @Override
        public void acknowledged(long number) {}

        @Override
        public void failed(Exception cause) {}
    }

    private Log embedded(OpenMode mode) {
        return new EmbeddedLog(EmbeddedLog.Options.keeping(data(), bytesMax).withMode(mode));
    }

    private Log shared(String host, int port) {
        Log shared = sharedLogs().make(place(host + ":" + port, Optional.of(liveness(host))), OpenMode.EXISTING);
        System.err.println("cedrat-oracle: standing by, while another server may have the log");
        return shared;
    }

    private SharedLogs sharedLogs() {
        return ServiceLoader.load(SharedLogs.class)
                .findFirst()
                .orElseThrow(() -> new ParameterException(
                        spec.commandLine(),
                        "--log bookkeeper needs the jars of oracle-log-bookkeeper: add them to the class path"));
    }

    private InetSocketAddress liveness(String host) {
        try {
            return InetSocketAddress.createUnresolved(host, livenessPort);
        } catch (IllegalArgumentException invalid) {
            throw new ParameterException(
                    spec.commandLine(), "invalid --liveness-port " + livenessPort + ": choose 0 to 65535", invalid);
        }
    }

    private SharedLogs.Place place(String server, Optional<InetSocketAddress> liveness) {
        if (zooKeeper == null) {
            throw new ParameterException(
                    spec.commandLine(), "--log bookkeeper needs --zookeeper HOST:PORT, the ZooKeeper of the bookies");
        }
        Duration session = Duration.ofMillis(zooKeeperSessionMs);
        try {
            return new SharedLogs.Place(
                    zooKeeper,
                    path,
                    session,
                    ledgerBytesMax,
                    server,
                    Optional.ofNullable(zooKeeperCredentials),
                    Optional.ofNullable(bookKeeperConfiguration),
                    liveness);
        } catch (IllegalArgumentException nonsense) {
            throw new ParameterException(spec.commandLine(), nonsense.getMessage(), nonsense);
        }
    }

    private Path data() {
        if (data == null) {
            throw new ParameterException(
                    spec.commandLine(), "--log embedded needs --data DIR, the directory of the log");
        }
        return data;
    }
}
