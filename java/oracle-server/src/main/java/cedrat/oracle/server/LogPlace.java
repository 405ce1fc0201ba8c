package cedrat.oracle.server;

import cedrat.oracle.log.DamagedEntryException;
import cedrat.oracle.log.Log;
import cedrat.oracle.log.LogAbsentException;
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

/// Place of a log.
///
/// @param kind kind of the log
/// @param data directory of an embedded log; `null` for another kind
/// @param zooKeeper addresses of the ZooKeeper of a shared log; `null` for another kind
/// @param path node of ZooKeeper of a shared log
/// @param settings what does not belong to the place
record LogPlace(Kind kind, Path data, String zooKeeper, String path, LogSettings settings) implements LogAccess {
    static final String DEFAULT_PATH = "/cedrat/oracle";

    /// Kinds of logs.
    enum Kind {
        /// Keeps nothing.
        NONE,
        /// Keeps them in a directory of this machine.
        EMBEDDED,
        /// Keeps them in BookKeeper, for several servers of which one serves.
        BOOKKEEPER
    }

    /// Reads `embedded:DIR` or `bookkeeper:HOST:PORT[,...][/PATH]`.
    ///
    /// @throws IllegalArgumentException if it is neither
    static LogPlace of(String text, LogSettings settings) {
        int colon = text.indexOf(':');
        String rest = text.substring(colon + 1);
        switch (colon < 0 || rest.isEmpty() ? "" : text.substring(0, colon)) {
            case "embedded" -> {
                return new LogPlace(Kind.EMBEDDED, Path.of(rest), null, DEFAULT_PATH, settings);
            }
            case "bookkeeper" -> {
                int slash = rest.indexOf('/');
                String servers = slash < 0 ? rest : rest.substring(0, slash);
                String node = slash < 0 ? DEFAULT_PATH : rest.substring(slash);
                return new LogPlace(Kind.BOOKKEEPER, null, servers, node, settings);
            }
            default ->
                throw new IllegalArgumentException("invalid place of a log, " + text
                        + ": write embedded:DIR, or bookkeeper:HOST:PORT[,...][/PATH]");
        }
    }

    @Override
    public Log make(OpenMode mode, String user) {
        return switch (kind) {
            case NONE -> {
                if (mode != OpenMode.EXISTING) {
                    throw storesNothing();
                }
                yield new VolatileLog();
            }
            case EMBEDDED ->
                new EmbeddedLog(
                        EmbeddedLog.Options.keeping(data, settings.bytesMax()).withMode(mode));
            case BOOKKEEPER -> sharedLogs().make(shared(user, Optional.empty()), mode);
        };
    }

    /// Returns the log, which has to exist, for a server that listens at this address.
    Log makeServed(String host, int port) {
        String server = host + ":" + port;
        return kind == Kind.BOOKKEEPER
                ? sharedLogs().make(shared(server, Optional.of(settings.liveness(host))), OpenMode.EXISTING)
                : make(OpenMode.EXISTING, server);
    }

    private static IllegalArgumentException storesNothing() {
        return new IllegalArgumentException("--log none stores no log: choose --log embedded or --log bookkeeper");
    }

    @Override
    public String where() {
        return kind == Kind.EMBEDDED ? "in " + data : "at " + path + " of the ZooKeeper " + zooKeeper;
    }

    /// The same, as any process on this machine finds it.
    LogPlace absolute() {
        return kind == Kind.EMBEDDED
                ? new LogPlace(kind, data.toAbsolutePath().normalize(), zooKeeper, path, settings)
                : this;
    }

    @Override
    public void read(Log.Replay replay) throws IOException, DamagedEntryException {
        switch (kind) {
            case NONE -> throw storesNothing();
            case BOOKKEEPER -> sharedLogs().read(shared("reads", Optional.empty()), replay);
            case EMBEDDED -> {
                if (!Files.isDirectory(data)) {
                    throw new LogAbsentException("in " + data, true);
                }
                try (LogFiller log = new LogFiller(make(OpenMode.EXISTING, "reads"))) {
                    log.open(replay);
                }
            }
        }
    }

    private static SharedLogs sharedLogs() {
        return ServiceLoader.load(SharedLogs.class)
                .findFirst()
                .orElseThrow(() -> new IllegalArgumentException(
                        "--log bookkeeper needs the jars of oracle-log-bookkeeper: add them to the class path"));
    }

    private SharedLogs.Place shared(String server, Optional<InetSocketAddress> liveness) {
        return new SharedLogs.Place(
                zooKeeper,
                path,
                Duration.ofMillis(settings.zooKeeperSessionMs()),
                settings.ledgerBytesMax(),
                server,
                Optional.ofNullable(settings.zooKeeperCredentials()),
                Optional.ofNullable(settings.bookKeeperConfiguration()),
                liveness);
    }
}
