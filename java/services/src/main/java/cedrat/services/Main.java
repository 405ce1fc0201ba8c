package cedrat.services;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.Optional;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.stream.Collectors;

/// Starts and stops all that the oracle and its tables stand on, and the oracle, as processes of this machine
/// that outlive this command: `up DIR LIB LOG` and `down DIR`.
///
/// `DIR` keeps the data of all. `LIB` is the folder with the jars and the library of `cedrat-oracle`. `LOG`
/// is where the oracle keeps its decisions: `embedded`, or `bookkeeper` with a second oracle that waits for
/// its turn. The file `DIR/processes` names what runs; it is written before `up` returns, whether it has
/// succeeded or not. `DIR/oracles` has the addresses of the oracles.
public final class Main {
    private static final int ZOOKEEPER = 7281;
    private static final List<Integer> BOOKIES = List.of(7283, 7284, 7285);
    private static final Hdfs.Ports HDFS = new Hdfs.Ports(7290, 7291, 7292, 7293, 7294);
    private static final HBase.Ports HBASE = new HBase.Ports(7300, 7301, List.of(7302, 7303));
    private static final String ORACLE_PATH = "/cedrat/oracle";

    /// Where oracles may keep their decisions.
    private enum Log {
        EMBEDDED(List.of(7270)),
        BOOKKEEPER(List.of(7270, 7271));

        final List<Integer> oracles;

        Log(List<Integer> oracles) {
            this.oracles = oracles;
        }

        String addresses() {
            return oracles.stream().map(port -> "127.0.0.1:" + port).collect(Collectors.joining(","));
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

    private static final long STOP_PATIENCE_S = 30;

    /// Exit code of `cedrat-oracle init` where there is a log already.
    private static final int EXIT_EXISTS = 4;

    private final Path folder;
    private final List<Service> started = new ArrayList<>();

    private Main(Path folder) {
        this.folder = folder;
    }

    /// Runs the command.
    public static void main(String[] arguments) {
        try {
            if (arguments.length == 4 && arguments[0].equals("up")) {
                new Main(Path.of(arguments[1]).toAbsolutePath())
                        .up(Path.of(arguments[2]).toAbsolutePath(), Log.of(arguments[3]));
            } else if (arguments.length == 2 && arguments[0].equals("down")) {
                new Main(Path.of(arguments[1]).toAbsolutePath()).down();
            } else {
                System.err.println("services: `up DIR LIB LOG` or `down DIR`");
                System.exit(2);
            }
        } catch (IOException problem) {
            System.err.println("services: " + problem.getMessage());
            System.exit(1);
        }
    }

    private record Running(ProcessHandle process, String name) {}

    /// Returns the running services, in the order of their start.
    private List<Running> running() throws IOException {
        List<Running> running = new ArrayList<>();
        Path file = folder.resolve("processes");
        if (Files.exists(file)) {
            for (String line : Files.readAllLines(file)) {
                String[] words = line.split(" ", 3);
                ProcessHandle.of(Long.parseLong(words[0]))
                        // Another process may have its number by now.
                        .filter(process -> since(process).equals(words[1]))
                        .filter(ProcessHandle::isAlive)
                        .ifPresent(process -> running.add(new Running(process, words[2])));
            }
        }
        return running;
    }

    private static String since(ProcessHandle process) {
        Optional<Instant> start = process.info().startInstant();
        return start.map(Instant::toString).orElse("?");
    }

    private void up(Path lib, Log log) throws IOException {
        checkIsOf(log);
        int count = 1 + BOOKIES.size() + 2 + 1 + HBASE.regionServers().size() + log.oracles.size();
        if (running().size() != count) {
            down();
            Files.writeString(folder.resolve("oracles"), log.addresses());
            try {
                start(lib, log);
            } catch (IOException problem) {
                remember();
                down();
                throw problem;
            }
            remember();
            started.forEach(Service::outlive);
        }
        tell(log);
    }

    /// Tables have the timestamps of one oracle, and an oracle with another log would begin again at 1.
    private void checkIsOf(Log log) throws IOException {
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

    private void start(Path lib, Log log) throws IOException {
        ZooKeeper zooKeeper = started(ZooKeeper.start(folder.resolve("zookeeper"), ZOOKEEPER));
        Path format = folder.resolve("format");
        if (!Files.exists(format)) {
            Bookie.format(format, zooKeeper);
        }
        List<Bookie> bookies = new ArrayList<>();
        for (int port : BOOKIES) {
            Bookie bookie = Bookie.start(folder.resolve("bookie-" + port), port, zooKeeper);
            started.add(bookie.service());
            bookies.add(bookie);
        }
        Hdfs hdfs = Hdfs.start(folder.resolve("hdfs"), HDFS);
        started.addAll(hdfs.services());
        HBase hbase = HBase.start(folder.resolve("hbase"), zooKeeper, hdfs, HBASE);
        started.addAll(hbase.services());
        for (Bookie bookie : bookies) {
            bookie.awaitReady(zooKeeper);
        }
        initialise(lib, log, zooKeeper);
        for (int port : log.oracles) {
            boolean isFirst = port == log.oracles.getFirst();
            Service oracle = oracle(lib, log, port, zooKeeper);
            oracle.awaitReady(() -> isFirst
                    ? FreePorts.isTaken(port)
                    : zooKeeper.ephemeralsBelow(ORACLE_PATH + "/election") == log.oracles.size());
        }
    }

    /// Creates the oracle, once: a log that is lost later is not replaced by an empty one.
    private void initialise(Path lib, Log log, ZooKeeper zooKeeper) throws IOException {
        Path initialised = folder.resolve("initialised");
        if (Files.exists(initialised)) {
            return;
        }
        List<String> arguments = new ArrayList<>(List.of("init"));
        arguments.addAll(place(log, zooKeeper));
        try (Service init = command(lib, "cedrat-oracle init", folder.resolve("oracle-init"), arguments)) {
            int code = init.awaitEnd();
            if (code != 0 && code != EXIT_EXISTS) { // of an earlier version, which left no file
                throw init.problem("has ended with exit code " + code);
            }
        }
        Files.createFile(initialised);
    }

    private List<String> place(Log log, ZooKeeper zooKeeper) {
        return log == Log.EMBEDDED
                ? List.of(
                        "--log",
                        "embedded",
                        "--data",
                        folder.resolve("oracle/data").toString())
                : List.of("--log", "bookkeeper", "--zookeeper", zooKeeper.address(), "--path", ORACLE_PATH);
    }

    private Service oracle(Path lib, Log log, int port, ZooKeeper zooKeeper) throws IOException {
        Path own = folder.resolve(log == Log.EMBEDDED ? "oracle" : "oracle-" + port);
        List<String> arguments = new ArrayList<>(List.of("serve", "--port", "" + port));
        arguments.addAll(place(log, zooKeeper));
        Service oracle = command(lib, "the oracle on port " + port, own, arguments);
        started.add(oracle);
        return oracle;
    }

    private static Service command(Path lib, String name, Path own, List<String> arguments) throws IOException {
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
                        arguments)
                .start();
    }

    private ZooKeeper started(ZooKeeper zooKeeper) {
        started.add(zooKeeper.service());
        return zooKeeper;
    }

    private void remember() throws IOException {
        List<String> lines = new ArrayList<>();
        for (Service service : started) {
            ProcessHandle.of(service.pid())
                    .ifPresent(process -> lines.add(process.pid() + " " + since(process) + " " + service));
        }
        Files.createDirectories(folder);
        Files.write(folder.resolve("processes"), lines);
    }

    private static void tell(Log log) {
        System.out.printf(
                "oracle       %s (--log %s)%n"
                        + "ZooKeeper    127.0.0.1:%d%n"
                        + "bookies      127.0.0.1:%s%n"
                        + "HDFS         hdfs://127.0.0.1:%d, pages at http://127.0.0.1:%d%n"
                        + "HBase        its quorum is the ZooKeeper; master 127.0.0.1:%d, region servers 127.0.0.1:%s%n",
                log.addresses(),
                log,
                ZOOKEEPER,
                BOOKIES,
                HDFS.nameNode(),
                HDFS.nameNodeHttp(),
                HBASE.master(),
                HBASE.regionServers());
    }

    /// Stops the last first. A service that does not stop in half a minute is killed.
    private void down() throws IOException {
        for (Running service : running().reversed()) {
            ProcessHandle process = service.process;
            System.out.println("stopping " + service.name);
            process.destroy();
            if (!hasEnded(process, STOP_PATIENCE_S)) {
                process.destroyForcibly();
                if (!hasEnded(process, STOP_PATIENCE_S)) {
                    throw new IOException("cannot end " + service.name + ": kill the process " + process.pid());
                }
            }
        }
        Files.deleteIfExists(folder.resolve("processes"));
        // `./x oracle transfers` looks there for an oracle that runs.
        Files.deleteIfExists(folder.resolve("oracles"));
    }

    private static boolean hasEnded(ProcessHandle process, long seconds) throws IOException {
        try {
            process.onExit().get(seconds, TimeUnit.SECONDS);
            return true;
        } catch (TimeoutException stillThere) {
            return false;
        } catch (ExecutionException impossible) {
            throw new IOException(impossible);
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
            throw new IOException("the thread was interrupted while it waited for processes to end", interrupted);
        }
    }
}
