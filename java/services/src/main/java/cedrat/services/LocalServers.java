package cedrat.services;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/// The servers of `./x oracle up`: their ports, programs and data.
///
/// @param folder keeps the data of all
/// @param lib the folder with the jars and the library of `cedrat-oracle`
/// @param log where the oracles keep their decisions
record LocalServers(Path folder, Path lib, Log log) {
    private static final int ZOOKEEPER = 7281;
    private static final List<Integer> BOOKIES = List.of(7283, 7284, 7285);
    private static final Hdfs.Ports HDFS = new Hdfs.Ports(7290, 7291, 7292, 7293, 7294);
    private static final HBase.Ports HBASE = new HBase.Ports(7300, 7301, List.of(7302, 7303));
    private static final String ORACLE_PATH = "/cedrat/oracle";

    /// Port of an oracle's metrics less that of its clients.
    private static final int METRICS = 2;

    /// Port at which the service that cleans and prunes the tables answers operators.
    private static final int MAINTENANCE = 7274;

    /// Exit code of `cedrat-oracle init` where there is a log already.
    private static final int EXIT_EXISTS = 4;

    /// Where oracles may keep their decisions.
    enum Log {
        EMBEDDED(List.of(7270)),
        BOOKKEEPER(List.of(7270, 7271));

        final List<Integer> oracles;

        Log(List<Integer> oracles) {
            this.oracles = oracles;
        }

        /// Returns the addresses of the oracles.
        String addresses() {
            return oracles.stream().map(LocalServers::loopback).collect(Collectors.joining(","));
        }

        @Override
        public String toString() {
            return name().toLowerCase(Locale.ROOT);
        }

        /// @throws IOException if there is none of this name
        static Log of(String name) throws IOException {
            return Arrays.stream(values())
                    .filter(log -> log.toString().equals(name))
                    .findFirst()
                    .orElseThrow(() ->
                            new IOException("invalid log " + name + ": choose one of " + Arrays.toString(values())));
        }
    }

    private static String loopback(int port) {
        return "127.0.0.1:" + port;
    }

    /// Returns them in the order of their start. Those of a group wait for each other.
    List<List<Server>> groups() {
        List<List<Server>> groups = new ArrayList<>();
        groups.add(List.of(new Server(
                "zookeeper",
                loopback(ZOOKEEPER),
                () -> ZooKeeper.command(folder.resolve("zookeeper"), ZOOKEEPER),
                started -> ZooKeeper.answers(ZOOKEEPER))));
        groups.add(BOOKIES.stream().map(this::bookie).toList());
        Path hdfs = folder.resolve("hdfs");
        groups.add(List.of(
                new Server(
                        "namenode",
                        loopback(HDFS.nameNode()),
                        () -> Hdfs.nameNode(hdfs, HDFS),
                        started -> Hdfs.answers(HDFS)),
                new Server(
                        "datanode",
                        loopback(HDFS.dataNode()),
                        () -> Hdfs.dataNode(hdfs, HDFS),
                        started -> Hdfs.dataNodeAnswers(HDFS))));
        groups.add(hbase());
        groups.addAll(log.oracles.stream().map(port -> List.of(oracle(port))).toList());
        groups.add(List.of(new Server(
                "maintenance", loopback(MAINTENANCE), this::maintenance, started -> Jmx.get(MAINTENANCE, "/ready")
                        .startsWith("HTTP/1.1 200 "))));
        return groups;
    }

    private Server bookie(int port) {
        return new Server(
                "bookie-" + port,
                loopback(port),
                () -> {
                    Path format = folder.resolve("format");
                    if (!Files.exists(format)) {
                        Bookie.format(format, loopback(ZOOKEEPER));
                    }
                    return Bookie.command(folder.resolve("bookie-" + port), port, loopback(ZOOKEEPER));
                },
                started -> Bookie.isFound(port, ZOOKEEPER));
    }

    private List<Server> hbase() {
        Path own = folder.resolve("hbase");
        List<Server> hbase = new ArrayList<>();
        hbase.add(new Server(
                "master",
                loopback(HBASE.master()),
                () -> HBase.master(own, configureHBase(own), HBASE),
                started -> HBase.masterAnswers(HBASE)));
        for (int each = 0; each < HBASE.regionServers().size(); each++) {
            int number = each;
            hbase.add(new Server(
                    "regionserver-" + number,
                    loopback(HBASE.regionServers().get(number)),
                    () -> HBase.regionServer(own, configureHBase(own), HBASE, number, HBase.SMALL_HEAP),
                    started -> HBase.regionServerAnswers(HBASE, number, started)));
        }
        return hbase;
    }

    private static Path configureHBase(Path own) throws IOException {
        return HBase.configure(own, ZOOKEEPER, Hdfs.address(HDFS), HBASE);
    }

    private Server oracle(int port) {
        return new Server("oracle-" + port, loopback(port), () -> oracleCommand(port), started -> oracleAnswers(port));
    }

    /// Whether it serves, or waits for its turn where the one that serves sees it.
    private boolean oracleAnswers(int port) throws IOException {
        String health = Jmx.get(port + METRICS, "/health");
        String state = Jmx.text(health, "state");
        return state.equals("serving")
                || state.equals("standby")
                        && ZooKeeper.connectedBelow(ZOOKEEPER, ORACLE_PATH + "/election") >= log.oracles.size();
    }

    private Command maintenance() throws IOException {
        Path own = folder.resolve("maintenance");
        List<String> arguments = new ArrayList<>(List.of(
                "maintain",
                "--oracle",
                log.addresses(),
                "--hbase",
                loopback(ZOOKEEPER),
                "--metrics",
                loopback(MAINTENANCE)));
        arguments.addAll(security().cleaner());
        return oracleCommand(
                "the service that cleans and prunes tables", own, copy(lib, own.resolve("lib")), arguments);
    }

    private Command oracleCommand(int port) throws IOException {
        Path own = folder.resolve(log == Log.EMBEDDED ? "oracle" : "oracle-" + port);
        // A build replaces the files in `lib`, and a server that runs goes on with those that it has.
        Path libOfOwn = copy(lib, own.resolve("lib"));
        initialise(libOfOwn);
        List<String> arguments =
                new ArrayList<>(List.of("serve", "--port", "" + port, "--metrics", loopback(port + METRICS)));
        arguments.addAll(place());
        arguments.addAll(security().server());
        return oracleCommand("the oracle on port " + port, own, libOfOwn, arguments);
    }

    /// Creates the oracle, once: a log that is lost later is not replaced by an empty one.
    private void initialise(Path libOfOwn) throws IOException {
        Path initialised = folder.resolve("initialised");
        if (Files.exists(initialised)) {
            return;
        }
        List<String> arguments = new ArrayList<>(List.of("init"));
        arguments.addAll(place());
        Command init = oracleCommand("cedrat-oracle init", folder.resolve("oracle-init"), libOfOwn, arguments);
        try (Service service = init.start()) {
            int code = service.awaitEnd();
            if (code != 0 && code != EXIT_EXISTS) { // of an earlier version, which left no file
                throw service.problem("has ended with exit code " + code);
            }
        }
        Files.createFile(initialised);
    }

    private LocalSecurity security() {
        return new LocalSecurity(folder.resolve("security"));
    }

    private List<String> place() throws IOException {
        if (log == Log.EMBEDDED) {
            return List.of(
                    "--log", "embedded", "--data", folder.resolve("oracle/data").toString());
        }
        List<String> place = new ArrayList<>(
                List.of("--log", "bookkeeper", "--zookeeper", loopback(ZOOKEEPER), "--path", ORACLE_PATH));
        place.addAll(security().zooKeeper());
        return place;
    }

    private static Command oracleCommand(String name, Path own, Path lib, List<String> arguments) {
        return Command.of(
                name,
                own,
                List.of(
                        "-Xmx512m",
                        "-XX:+UseSerialGC",
                        "--enable-native-access=ALL-UNNAMED",
                        "--sun-misc-unsafe-memory-access=allow",
                        "-Dcedrat.library=" + lib.resolve("libcedrat.so")),
                lib + "/*",
                "cedrat.oracle.server.Main",
                arguments);
    }

    /// Replaces the files in a folder by copies of those in another one.
    private static Path copy(Path from, Path to) throws IOException {
        empty(to);
        try (Stream<Path> files = Files.list(from)) {
            for (Path file : files.toList()) {
                Files.copy(file, to.resolve(file.getFileName()), StandardCopyOption.REPLACE_EXISTING);
            }
        } catch (UncheckedIOException problem) {
            throw problem.getCause();
        }
        return to;
    }

    /// Makes a folder, or deletes the files in it.
    static Path empty(Path folder) throws IOException {
        Files.createDirectories(folder);
        try (Stream<Path> files = Files.list(folder)) {
            for (Path file : files.toList()) {
                Files.delete(file);
            }
        }
        return folder;
    }
}
