package cedrat.services;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;

/// Starts, stops and shows all that the oracle and its tables stand on, and the oracle, as processes of this machine
/// that outlive this command.
///
/// | command | what it does |
/// |---|---|
/// | `up DIR LIB LOG` | starts what does not run or does not answer |
/// | `down DIR` | stops all |
/// | `start DIR LIB NAME`, `stop DIR NAME`, `restart DIR LIB NAME` | the same for one server |
/// | `status DIR` | a line for each server; exit code 1 if one is not healthy |
///
/// `DIR` keeps the data of all. `LIB` is the folder with the jars and the library of `cedrat-oracle`. `LOG`
/// is where the oracle keeps its decisions: `embedded`, or `bookkeeper` with a second oracle that waits for
/// its turn. `DIR/log` remembers it. `DIR/oracles` has the addresses of the oracles while the cluster is up.
public final class Main {
    private static final int EXIT_FAILED = 1;
    private static final int EXIT_USAGE = 2;

    private final Path folder;
    /// The folder of `cedrat-oracle`, where it is needed.
    private final Path lib;

    private Main(String folder, String lib) {
        this.folder = Path.of(folder).toAbsolutePath();
        this.lib = Path.of(lib).toAbsolutePath();
    }

    /// Runs the command.
    public static void main(String[] arguments) {
        try {
            System.exit(run(arguments));
        } catch (IOException problem) {
            System.err.println("services: " + problem.getMessage());
            System.exit(EXIT_FAILED);
        }
    }

    private static int run(String[] arguments) throws IOException {
        String commandAndLength = arguments.length == 0 ? "" : arguments[0] + " " + arguments.length;
        switch (commandAndLength) {
            case "up 4" -> new Main(arguments[1], arguments[2]).up(LocalServers.Log.of(arguments[3]));
            case "down 2" -> new Main(arguments[1], "").down();
            case "start 4" -> {
                try (Cluster cluster = new Main(arguments[1], arguments[2]).cluster()) {
                    cluster.start(arguments[3]);
                }
            }
            case "stop 3" -> {
                try (Cluster cluster = new Main(arguments[1], "").cluster()) {
                    cluster.stop(arguments[2]);
                }
            }
            case "restart 4" -> {
                try (Cluster cluster = new Main(arguments[1], arguments[2]).cluster()) {
                    cluster.restart(arguments[3]);
                }
            }
            case "status 2" -> {
                return new Main(arguments[1], "").status() ? 0 : EXIT_FAILED;
            }
            default -> {
                System.err.println("services: `up DIR LIB LOG`, `down DIR`, `start DIR LIB NAME`, `stop DIR NAME`, "
                        + "`restart DIR LIB NAME` or `status DIR`");
                return EXIT_USAGE;
            }
        }
        return 0;
    }

    private List<List<Server>> servers() throws IOException {
        Path file = folder.resolve("log");
        if (!Files.exists(file)) {
            throw new IOException("there is no cluster in " + folder + ": make one with `./x oracle up`");
        }
        LocalServers.Log log = LocalServers.Log.of(Files.readString(file).strip());
        return new LocalServers(folder, lib, log).groups();
    }

    private Cluster cluster() throws IOException {
        return new Cluster(folder, servers(), Cluster.Patience.DEFAULT, System.out::println);
    }

    private void up(LocalServers.Log log) throws IOException {
        remember(log);
        try (Cluster cluster = cluster()) {
            Files.writeString(folder.resolve("oracles"), log.addresses());
            cluster.up();
        }
        System.out.println("--log " + log + ", oracle at " + log.addresses());
        status();
    }

    /// Tables have the timestamps of one oracle, and an oracle with another log would begin again at 1.
    private void remember(LocalServers.Log log) throws IOException {
        Path file = folder.resolve("log");
        if (Files.exists(file)) {
            String before = Files.readString(file).strip();
            if (!before.equals(log.toString())) {
                throw new IOException("the tables in " + folder + " have timestamps of an oracle with --log " + before
                        + ": choose that log, or run `./x oracle down` and remove the folder");
            }
        }
        Files.createDirectories(folder);
        Files.writeString(file, log + "\n");
    }

    private void down() throws IOException {
        if (!Files.exists(folder.resolve("log"))) {
            return;
        }
        try (Cluster cluster = cluster()) {
            // `./x oracle transfers` looks there for an oracle that runs.
            Files.deleteIfExists(folder.resolve("oracles"));
            cluster.down();
        }
    }

    /// Prints the state of each server; returns whether all are healthy.
    private boolean status() throws IOException {
        List<Cluster.State> all = Cluster.status(folder, servers());
        all.forEach(System.out::println);
        return all.stream().allMatch(Cluster.State::isHealthy);
    }
}
