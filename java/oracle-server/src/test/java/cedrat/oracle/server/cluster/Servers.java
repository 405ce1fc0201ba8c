package cedrat.oracle.server.cluster;

import cedrat.oracle.client.ClientOptions;
import cedrat.services.Bookies;
import cedrat.services.Command;
import cedrat.services.FreePorts;
import cedrat.services.Service;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;

/// The servers of one oracle over the same bookies, each a process of its own.
///
/// @param bookies what they stand on
/// @param folder has a folder for each
/// @param path the node of ZooKeeper that is the oracle's
/// @param rowsLog2 of so many rows that were committed, as a power of two, each remembers about the newest
public record Servers(Bookies bookies, Path folder, String path, int rowsLog2) {
    private static final int ZOOKEEPER_SESSION_MS = 2000;

    /// So few that snapshots are taken all the time.
    private static final int ROWS_LOG2 = 12;

    /// So short that ledgers are rolled all the time.
    private static final int LEDGER_BYTES = 8000;

    /// Servers of an oracle that remembers few rows.
    public Servers(Bookies bookies, Path folder, String path) {
        this(bookies, folder, path, ROWS_LOG2);
    }

    /// The same, that remember more or fewer rows.
    public Servers withRowsLog2(int log2) {
        return new Servers(bookies, folder, path, log2);
    }

    /// A running `cedrat-oracle serve`.
    ///
    /// @param service its process
    /// @param address where it listens when its turn has come
    public record Server(Service service, InetSocketAddress address) implements AutoCloseable {
        private static final int EXIT_LOG_FAILED = 3;

        /// Returns when it takes connections.
        public void awaitServing() throws IOException {
            service.awaitReady(() -> {
                new Socket(address.getAddress(), address.getPort()).close();
                return true;
            });
        }

        /// Whether its turn has come.
        public boolean serves() throws IOException {
            return has("listening on ");
        }

        /// Whether it has said this.
        public boolean has(String text) throws IOException {
            return Files.readString(service.log()).contains(text);
        }

        /// Returns when it has stopped because it may have been replaced.
        public void awaitStopped() throws IOException {
            int code = service.awaitEnd();
            if (code != EXIT_LOG_FAILED) {
                throw service.problem("has ended with exit code " + code);
            }
        }

        @Override
        public void close() {
            service.close();
        }
    }

    /// Options of `serve` and `log dump` that say where the log is.
    public List<String> log() {
        return List.of("--log", "bookkeeper", "--zookeeper", bookies.zooKeeper().address(), "--path", path);
    }

    /// Starts one, with one of the bugs that tests plant, or none (`NONE`), and with these variables of its
    /// environment. Whether it serves or stands by is left to it.
    public Server start(String name, String fault, Map<String, String> environment) throws IOException {
        int port = FreePorts.next();
        List<String> arguments = new ArrayList<>(List.of(fault, "serve"));
        arguments.addAll(log());
        arguments.addAll(List.of(
                "--zookeeper-session-ms",
                "" + ZOOKEEPER_SESSION_MS,
                "--ledger-bytes-max",
                "" + LEDGER_BYTES,
                "--rows-log2",
                "" + rowsLog2,
                "--session-timeout-ms",
                "60000",
                "--port",
                "" + port));
        Service service = Command.of(
                        "the server " + name,
                        folder.resolve(name),
                        List.of(
                                "-Xmx128m",
                                "-XX:+UseSerialGC",
                                "-XX:TieredStopAtLevel=1",
                                "--enable-native-access=ALL-UNNAMED"),
                        System.getProperty("surefire.test.class.path", System.getProperty("java.class.path")),
                        "cedrat.oracle.server.FaultyMain",
                        arguments)
                .start(environment);
        return new Server(service, new InetSocketAddress("127.0.0.1", port));
    }

    /// Initialises the oracle, and starts the one that is to serve; returns when it stands for election, before any
    /// other.
    public Server startFirst(String name, String fault) throws IOException {
        initialise();
        Server server = start(name, fault, Map.of());
        awaitStanding(server, 1);
        return server;
    }

    /// Starts one while another is about to serve, or serves; returns when that one takes connections, and
    /// this one waits for its turn.
    public Server startSecond(String name, Server first) throws IOException {
        Server server = start(name, "NONE", Map.of());
        first.awaitServing();
        awaitStanding(server, 2);
        return server;
    }

    private void awaitStanding(Server server, int count) throws IOException {
        server.service().awaitReady(() -> bookies.zooKeeper().ephemeralsBelow(path + "/election") == count);
    }

    private void initialise() throws IOException {
        try (Service init = startCommand("init", List.of("init"), List.of())) {
            if (init.awaitEnd() != 0) {
                throw init.problem("has not initialised the oracle");
            }
        }
    }

    /// Starts `cedrat-oracle log dump` as it is shipped: with its own records, not those of tests. What it says
    /// on its standard output and on its standard error is in its log.
    public Service startDump(String... options) throws IOException {
        return startCommand("dump", List.of("log", "dump"), List.of(options));
    }

    private Service startCommand(String name, List<String> command, List<String> options) throws IOException {
        List<String> arguments = new ArrayList<>(command);
        arguments.addAll(log());
        arguments.addAll(options);
        return Command.of(
                        "the command " + name,
                        folder.resolve(name),
                        List.of(
                                "-Xmx128m",
                                "-XX:+UseSerialGC",
                                "-XX:TieredStopAtLevel=1",
                                "--enable-native-access=ALL-UNNAMED",
                                "--sun-misc-unsafe-memory-access=allow",
                                "-Dlogback.configurationFile=logback.xml"),
                        System.getProperty("surefire.test.class.path", System.getProperty("java.class.path")),
                        "cedrat.oracle.server.Main",
                        arguments)
                .start();
    }

    /// Clients of servers at these addresses, who are patient, and leave one that is silent for so long.
    public static ClientOptions options(Duration silence, InetSocketAddress... servers) {
        return ClientOptions.of(servers)
                .withPatience(Duration.ofMinutes(4))
                .withSilence(silence)
                .withReconnect(Duration.ofMillis(5), Duration.ofMillis(100));
    }
}
