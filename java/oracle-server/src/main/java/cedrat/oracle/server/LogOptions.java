package cedrat.oracle.server;

import cedrat.oracle.log.DamagedEntryException;
import cedrat.oracle.log.Log;
import cedrat.oracle.log.OpenMode;
import java.io.IOException;
import java.nio.file.Path;
import java.util.function.Function;
import java.util.function.Supplier;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.Spec;

/// Options that say where decisions are kept, the same for all commands.
final class LogOptions {
    @Spec(Spec.Target.MIXEE)
    private CommandSpec spec;

    @Option(
            names = "--log",
            paramLabel = "KIND",
            required = true,
            description =
                    "Where decisions are kept: ${COMPLETION-CANDIDATES}. With embedded, in the directory that --data names. With bookkeeper, in ledgers that --zookeeper leads to: of all servers with the same --zookeeper and --path one serves, and the others wait for their turn. With none, nothing survives the end of the server, and timestamps begin at 1 again.")
    private LogPlace.Kind kind;

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
            defaultValue = LogPlace.DEFAULT_PATH,
            description =
                    "With --log bookkeeper: the node of ZooKeeper below which this oracle's servers meet (default: ${DEFAULT-VALUE}).")
    private String path;

    @Mixin
    private LogSettings settings;

    LogOptions() {}

    long bytesMax() {
        return settings.bytesMax();
    }

    /// Whether several servers share it, of which one serves.
    boolean isShared() {
        return kind == LogPlace.Kind.BOOKKEEPER;
    }

    /// Returns the place of the log.
    LogPlace place() {
        if (kind == LogPlace.Kind.EMBEDDED && data == null) {
            throw new ParameterException(
                    spec.commandLine(), "--log embedded needs --data DIR, the directory of the log");
        }
        if (kind == LogPlace.Kind.BOOKKEEPER && zooKeeper == null) {
            throw new ParameterException(
                    spec.commandLine(), "--log bookkeeper needs --zookeeper HOST:PORT, the ZooKeeper of the bookies");
        }
        return new LogPlace(kind, data, zooKeeper, path, settings);
    }

    /// Returns a log that has to exist, for a server that listens at this address.
    Log makeServed(String host, int port) {
        return existing(place -> place.makeServed(host, port));
    }

    private Log existing(Function<LogPlace, Log> maker) {
        Log log = checked(() -> maker.apply(place()));
        if (isShared()) {
            System.err.println("cedrat-oracle: standing by, while another server may have the log");
        }
        return log;
    }

    /// Returns a log that is to be created.
    Log makeNew() {
        return checked(() -> place().make(OpenMode.CREATE_NEW, "initialises"));
    }

    /// Returns a stored log, which has to exist, for a command.
    Log makeStored(String command) {
        if (kind == LogPlace.Kind.NONE) {
            makeNew();
        }
        return existing(place -> place.make(OpenMode.EXISTING, command));
    }

    /// Replays what the log keeps, which is not changed. One in BookKeeper stays with the server that has it.
    void read(Log.Replay replay) throws IOException, DamagedEntryException {
        try {
            place().read(replay);
        } catch (IllegalArgumentException invalid) {
            throw new ParameterException(spec.commandLine(), invalid.getMessage(), invalid);
        }
    }

    private <T> T checked(Supplier<T> made) {
        try {
            return made.get();
        } catch (IllegalArgumentException invalid) {
            throw new ParameterException(spec.commandLine(), invalid.getMessage(), invalid);
        }
    }
}
