package cedrat.oracle.bench;

import cedrat.oracle.log.Log;
import cedrat.oracle.log.OpenMode;
import cedrat.oracle.log.SharedLogs;
import cedrat.oracle.log.embedded.EmbeddedLog;
import cedrat.services.Bookies;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.ServiceLoader;
import java.util.stream.Stream;

/// The logs that an oracle can have. Bookies are started for the first that needs them, and serve all others:
/// those are measured warm. For one thread.
final class Logs implements AutoCloseable {
    /// Names of the kinds of logs.
    static final List<String> KINDS = List.of("none", "embedded", "bookkeeper");

    private static final int BOOKIES = 3;
    private static final Duration SESSION = Duration.ofSeconds(4);
    private static final long LEDGER_BYTES = 64 << 20;

    /// A log of one server.
    ///
    /// @param kind what it is called
    /// @param where it is, for [#open]
    /// @param disk a directory on the disk that it is on
    record Place(String kind, String where, Path disk) {
        /// The server's arguments that say where its log is.
        List<String> arguments() {
            if (kind.equals("embedded")) {
                return List.of("--data", where);
            }
            return List.of("--zookeeper", zooKeeper(where), "--path", path(where));
        }

        /// Arguments of the command that creates the log.
        List<String> initialise() {
            List<String> all = new ArrayList<>(List.of("init", "--log", kind));
            all.addAll(arguments());
            return all;
        }

        /// Removes what is on the disk for it alone.
        void delete() throws IOException {
            if (kind.equals("embedded")) {
                Logs.delete(disk);
            }
        }
    }

    private Path services;
    private Bookies bookies;
    private int count;

    Logs() {}

    /// Whether something of it is left behind the server's end.
    static boolean keeps(String kind) {
        return !kind.equals("none");
    }

    /// A place for a fresh log.
    Place make(String kind) throws IOException {
        if (kind.equals("embedded")) {
            Path directory = newDirectory();
            return new Place(kind, directory.toString(), directory);
        }
        Bookies started = bookies();
        return new Place(kind, started.zooKeeper().address() + "/cedrat/oracle-" + ++count, services);
    }

    /// Three bookies, which are started if need be.
    Bookies bookies() throws IOException {
        if (bookies == null) {
            services = newDirectory();
            bookies = Bookies.start(services.resolve("bookies"), BOOKIES);
        }
        return bookies;
    }

    /// On a real disk: `CEDRAT_BENCH_DIR`, or the one that the program was started in.
    static Path directory() {
        String chosen = System.getenv("CEDRAT_BENCH_DIR");
        return Path.of(chosen == null ? "." : chosen).toAbsolutePath();
    }

    /// A fresh directory below that one.
    static Path newDirectory() throws IOException {
        return Files.createTempDirectory(directory(), "oracle-bench-");
    }

    /// The log that a server has left.
    static Log open(String kind, String where) {
        return switch (kind) {
            case "embedded" -> new EmbeddedLog(new EmbeddedLog.Options(Path.of(where)).withMode(OpenMode.EXISTING));
            case "bookkeeper" ->
                ServiceLoader.load(SharedLogs.class)
                        .findFirst()
                        .orElseThrow()
                        .make(
                                new SharedLogs.Place(zooKeeper(where), path(where), SESSION, LEDGER_BYTES, "bench"),
                                OpenMode.EXISTING);
            default -> throw new IllegalArgumentException("a log of kind " + kind + " leaves nothing");
        };
    }

    private static String zooKeeper(String where) {
        return where.substring(0, where.indexOf('/'));
    }

    private static String path(String where) {
        return where.substring(where.indexOf('/'));
    }

    /// Removes a directory and all in it.
    static void delete(Path directory) throws IOException {
        try (Stream<Path> all = Files.walk(directory)) {
            for (Path path : all.sorted(Comparator.reverseOrder()).toList()) {
                Files.deleteIfExists(path);
            }
        }
    }

    @Override
    public void close() throws IOException {
        if (bookies != null) {
            bookies.close();
        }
        if (services != null) {
            delete(services);
        }
    }
}
