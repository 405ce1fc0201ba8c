package cedrat.services;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

/// Starts and stops all that the oracle and its tables stand on, and the oracle, as processes of this machine
/// that outlive this command: `up DIR LIB` and `down DIR`.
///
/// `DIR` keeps the data of all. `LIB` is the folder with the jars and the library of `cedrat-oracle`. The
/// file `DIR/processes` names what runs; it is written before `up` returns, whether it has succeeded or not.
public final class Main {
    private static final int ZOOKEEPER = 7281;
    private static final List<Integer> BOOKIES = List.of(7283, 7284, 7285);
    private static final Hdfs.Ports HDFS = new Hdfs.Ports(7290, 7291, 7292, 7293, 7294);
    private static final HBase.Ports HBASE = new HBase.Ports(7300, 7301, List.of(7302, 7303));
    private static final int ORACLE = 7270;

    private static final long STOP_PATIENCE_S = 30;

    private final Path folder;
    private final List<Service> started = new ArrayList<>();

    private Main(Path folder) {
        this.folder = folder;
    }

    /// Runs the command.
    public static void main(String[] arguments) {
        try {
            if (arguments.length == 3 && arguments[0].equals("up")) {
                new Main(Path.of(arguments[1]).toAbsolutePath())
                        .up(Path.of(arguments[2]).toAbsolutePath());
            } else if (arguments.length == 2 && arguments[0].equals("down")) {
                new Main(Path.of(arguments[1]).toAbsolutePath()).down();
            } else {
                System.err.println("services: `up DIR LIB` or `down DIR`");
                System.exit(2);
            }
        } catch (IOException problem) {
            System.err.println("services: " + problem.getMessage());
            System.exit(1);
        }
    }

    /// What was started, and runs, in the order in which it was started.
    private List<ProcessHandle> running() throws IOException {
        List<ProcessHandle> running = new ArrayList<>();
        Path file = folder.resolve("processes");
        if (Files.exists(file)) {
            for (String line : Files.readAllLines(file)) {
                String[] words = line.split(" ", 3);
                ProcessHandle.of(Long.parseLong(words[0]))
                        // Another process may have its number by now.
                        .filter(process -> since(process).equals(words[1]))
                        .filter(ProcessHandle::isAlive)
                        .ifPresent(running::add);
            }
        }
        return running;
    }

    private static String since(ProcessHandle process) {
        Optional<Instant> start = process.info().startInstant();
        return start.map(Instant::toString).orElse("?");
    }

    private void up(Path lib) throws IOException {
        int count = 1 + BOOKIES.size() + 2 + 1 + HBASE.regionServers().size() + 1;
        if (running().size() != count) {
            down();
            try {
                start(lib);
            } catch (IOException problem) {
                remember();
                down();
                throw problem;
            }
            remember();
            started.forEach(Service::outlive);
        }
        tell();
    }

    private void start(Path lib) throws IOException {
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
        Service oracle = Command.of(
                        "the oracle",
                        folder.resolve("oracle"),
                        List.of(
                                "-Xmx512m",
                                "-XX:+UseSerialGC",
                                "--enable-native-access=ALL-UNNAMED",
                                "--sun-misc-unsafe-memory-access=allow",
                                "-Dcedrat.library=" + lib.resolve("libcedrat.so")),
                        lib + "/*",
                        "cedrat.oracle.server.Main",
                        List.of(
                                "serve",
                                "--port",
                                "" + ORACLE,
                                "--log",
                                "embedded",
                                "--data",
                                folder.resolve("oracle/data").toString()))
                .start();
        started.add(oracle);
        oracle.awaitReady(() -> FreePorts.isTaken(ORACLE));
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

    private static void tell() {
        System.out.printf(
                "oracle       127.0.0.1:%d (the embedded log)%n"
                        + "ZooKeeper    127.0.0.1:%d%n"
                        + "bookies      127.0.0.1:%s%n"
                        + "HDFS         hdfs://127.0.0.1:%d, pages at http://127.0.0.1:%d%n"
                        + "HBase        its quorum is the ZooKeeper; master 127.0.0.1:%d, region servers 127.0.0.1:%s%n",
                ORACLE,
                ZOOKEEPER,
                BOOKIES,
                HDFS.nameNode(),
                HDFS.nameNodeHttp(),
                HBASE.master(),
                HBASE.regionServers());
    }

    /// Stops the last first; who does not stop in half a minute is killed.
    private void down() throws IOException {
        for (ProcessHandle process : running().reversed()) {
            process.destroy();
            if (!hasEnded(process, STOP_PATIENCE_S)) {
                process.destroyForcibly();
                if (!hasEnded(process, STOP_PATIENCE_S)) {
                    throw new IOException("process " + process.pid() + " does not end; see `cat "
                            + folder.resolve("processes") + "` for which it is, and end it by hand");
                }
            }
        }
        Files.deleteIfExists(folder.resolve("processes"));
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
            throw new IOException("was not waited for", interrupted);
        }
    }
}
