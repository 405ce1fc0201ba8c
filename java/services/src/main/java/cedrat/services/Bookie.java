package cedrat.services;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;

/// A bookie, on the loopback: one of those that keep the entries of BookKeeper's ledgers.
///
/// Each entry is synced to the journal before it is acknowledged. An entry that comes alone does not wait for
/// others (`journalFlushWhenQueueEmpty`); those that come while a sync is under way share the next one. The
/// thread that reads entries from the network gives them to the journal itself (`numAddWorkerThreads=0`):
/// what it could do meanwhile is less than what waking another takes.
///
/// Started again in its folder and on its port, it is the one it was.
public final class Bookie implements AutoCloseable {
    /// Of which services the class path is.
    static final String CLASS_PATH = "bookkeeper";

    static final String LOG_LEVEL = "-Dorg.apache.logging.log4j.level=INFO";

    private static final List<String> JVM = List.of(
            "-XX:+UseSerialGC",
            LOG_LEVEL,
            "--enable-native-access=ALL-UNNAMED",
            "--sun-misc-unsafe-memory-access=allow",
            "--add-opens=java.base/java.io=ALL-UNNAMED",
            "--add-opens=java.base/java.util.zip=ALL-UNNAMED");

    private final Service service;
    private final int port;

    private Bookie(Service service, int port) {
        this.service = service;
        this.port = port;
    }

    /// Writes into a fresh ZooKeeper what bookies expect there.
    public static void format(Path folder, ZooKeeper zooKeeper) throws IOException {
        format(folder, zooKeeper.address());
    }

    /// The same for a ZooKeeper at this address.
    static void format(Path folder, String zooKeeper) throws IOException {
        Path configuration = configure(folder, 0, zooKeeper);
        List<String> jvm = new ArrayList<>(JVM);
        jvm.addAll(List.of("-Xmx64m", "-XX:TieredStopAtLevel=1"));
        Command.of(
                        "the shell of BookKeeper",
                        folder,
                        jvm,
                        Command.classPath(CLASS_PATH),
                        "org.apache.bookkeeper.bookie.BookieShell",
                        List.of("-conf", configuration.toString(), "metaformat", "-nonInteractive", "-force"))
                .run();
    }

    /// Starts one with its data in this folder. It may not serve yet: see [#awaitReady].
    ///
    /// @param zooKeeper `HOST:PORT,…`
    static Bookie start(Path folder, int port, String zooKeeper) throws IOException {
        return new Bookie(command(folder, port, zooKeeper).start(), port);
    }

    /// Returns the program of one with its data in this folder, and writes its configuration.
    static Command command(Path folder, int port, String zooKeeper) throws IOException {
        Path configuration = configure(folder, port, zooKeeper);
        List<String> jvm = new ArrayList<>(JVM);
        jvm.addAll(List.of("-Xmx160m", "-XX:MaxDirectMemorySize=160m"));
        return Command.of(
                "the bookie on port " + port,
                folder,
                jvm,
                Command.classPath(CLASS_PATH),
                "org.apache.bookkeeper.server.Main",
                List.of("--conf", configuration.toString()));
    }

    private static Path configure(Path folder, int port, String zooKeeper) throws IOException {
        Files.createDirectories(folder);
        Path configuration = folder.resolve("bookie.conf");
        Files.writeString(configuration, """
                bookiePort=%d
                advertisedAddress=127.0.0.1
                listeningInterface=lo
                allowLoopback=true
                metadataServiceUri=zk+hierarchical://%s/ledgers
                zkTimeout=10000
                autoRecoveryDaemonEnabled=false

                journalDirectory=%s
                journalSyncData=true
                journalFlushWhenQueueEmpty=true
                journalPreAllocSizeMB=4
                journalMaxSizeMB=64
                journalMaxBackups=0
                numJournalCallbackThreads=1

                ledgerDirectories=%s
                logSizeLimit=67108864
                entryLogFilePreallocationEnabled=false
                skipListSizeLimit=16777216
                gcWaitTime=60000
                diskUsageThreshold=0.99
                diskUsageWarnThreshold=0.985

                serverNumIOThreads=1
                numAddWorkerThreads=0
                numReadWorkerThreads=1
                """.formatted(
                        port, zooKeeper.replace(',', ';'), folder.resolve("journal"), folder.resolve("ledgers")));
        return configuration;
    }

    /// Waits until clients can find it.
    public void awaitReady(ZooKeeper zooKeeper) throws IOException {
        service.awaitReady(
                () -> FreePorts.isTaken(port) && zooKeeper.hasEphemeral("/ledgers/available/127.0.0.1:" + port));
    }

    /// Whether clients can find the one at this port in that ZooKeeper.
    static boolean isFound(int port, int zooKeeper) throws IOException {
        return FreePorts.isTaken(port) && ZooKeeper.hasEphemeral(zooKeeper, "/ledgers/available/127.0.0.1:" + port);
    }

    /// Its port.
    public int port() {
        return port;
    }

    /// Its process.
    public Service service() {
        return service;
    }

    /// Kills it.
    @Override
    public void close() {
        service.close();
    }
}
