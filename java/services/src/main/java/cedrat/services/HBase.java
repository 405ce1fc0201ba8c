package cedrat.services;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.regex.Pattern;

/// HBase on the loopback: a master and region servers, over HDFS.
///
/// It refuses a file system that cannot say when bytes are safe (`hbase.unsafe.stream.capability.enforce`): a
/// region server acknowledges a write when its log has it.
///
/// Started again in its folder and on its ports, it is the one it was. **Threads:** one at a time.
public final class HBase implements AutoCloseable {
    private static final String PACKAGE = "org.apache.hadoop.hbase.";

    /// Ports that it listens on.
    ///
    /// @param master the master's
    /// @param masterHttp the same, for people
    /// @param regionServers one for each region server
    public record Ports(int master, int masterHttp, List<Integer> regionServers) {
        /// Returns free ports, for this number of region servers.
        public static Ports free(int regionServers) throws IOException {
            List<Integer> ports = new ArrayList<>();
            for (int number = 0; number < regionServers; number++) {
                ports.add(FreePorts.next());
            }
            return new Ports(FreePorts.next(), FreePorts.next(), ports);
        }
    }

    /// The heap of a region server with little data.
    static final String SMALL_HEAP = "-Xmx384m";

    private final Path folder;
    private final Path configuration;
    private final Ports ports;
    private final String heap;
    private final Service master;
    private final List<Service> regionServers = new ArrayList<>();

    private HBase(Path folder, Path configuration, Ports ports, String heap) throws IOException {
        this.heap = heap;
        this.folder = folder;
        this.configuration = configuration;
        this.ports = ports;
        master = master(folder, configuration, ports).start();
    }

    /// Starts it; returns when all region servers serve.
    ///
    /// @param heap the option of their virtual machines
    static HBase start(Path folder, ZooKeeper zooKeeper, Hdfs hdfs, Ports ports, String heap) throws IOException {
        HBase hbase = new HBase(folder, configure(folder, zooKeeper.port(), hdfs.address(), ports), ports, heap);
        try {
            for (int number = 0; number < ports.regionServers.size(); number++) {
                hbase.regionServers.add(hbase.startRegionServer(number));
            }
            hbase.awaitReady();
        } catch (IOException problem) {
            hbase.close();
            throw problem;
        }
        return hbase;
    }

    /// Returns the program of the master.
    static Command master(Path folder, Path configuration, Ports ports) throws IOException {
        return HadoopProcess.command(
                        "HBase's master",
                        folder.resolve("master"),
                        configuration,
                        "-Xmx256m",
                        PACKAGE + "master.HMaster")
                .withArguments(List.of("-Dhbase.master.port=" + ports.master, "start"));
    }

    /// Returns the program of the region server of this number, from 0 on.
    static Command regionServer(Path folder, Path configuration, Ports ports, int number, String heap)
            throws IOException {
        return HadoopProcess.command(
                        "region server " + number,
                        folder.resolve("regionserver-" + number),
                        configuration,
                        heap,
                        PACKAGE + "regionserver.HRegionServer")
                .withArguments(List.of("-Dhbase.regionserver.port=" + ports.regionServers.get(number), "start"));
    }

    private Service startRegionServer(int number) throws IOException {
        return regionServer(folder, configuration, ports, number, heap).start();
    }

    private static String masterState(Ports ports) throws IOException {
        return Jmx.ask(ports.masterHttp, "Hadoop:service=HBase,name=Master,sub=Server");
    }

    /// Whether the master has begun its work.
    static boolean masterAnswers(Ports ports) throws IOException {
        return Jmx.number(masterState(ports), "masterFinishedInitializationTime") > 0;
    }

    /// Whether the master knows the region server of this number that was started at about this time. It lists
    /// one that has ended, by the time of its start, until its session in ZooKeeper ends.
    static boolean regionServerAnswers(Ports ports, int number, Instant started) throws IOException {
        long from = started.minusSeconds(1).toEpochMilli();
        return Pattern.compile("," + ports.regionServers.get(number) + ",(\\d+)")
                .matcher(Jmx.text(masterState(ports), "tag.liveRegionServers"))
                .results()
                .anyMatch(found -> Long.parseLong(found.group(1)) >= from);
    }

    /// Waits until the master has begun its work and knows all region servers that live.
    public void awaitReady() throws IOException {
        long living = regionServers.stream().filter(Service::isAlive).count();
        master.awaitReady(() -> {
            for (Service server : regionServers) {
                if (!server.isAlive() && living == regionServers.size()) {
                    throw server.problem("has ended");
                }
            }
            String state = masterState(ports);
            return Jmx.number(state, "masterFinishedInitializationTime") > 0
                    && Jmx.number(state, "numRegionServers") == living;
        });
    }

    /// Writes the configuration; returns its directory.
    static Path configure(Path folder, int zooKeeper, String hdfs, Ports ports) throws IOException {
        Path configuration = folder.resolve("conf");
        HadoopProcess.write(configuration, "core-site.xml", "fs.defaultFS", hdfs);
        HadoopProcess.write(configuration, "hdfs-site.xml", "dfs.replication", "1");
        HadoopProcess.write(
                configuration,
                "hbase-site.xml",
                "hbase.rootdir",
                hdfs + "/hbase",
                "hbase.wal.dir",
                hdfs + "/hbase-wal",
                "hbase.tmp.dir",
                folder.resolve("tmp").toString(),
                "hbase.cluster.distributed",
                "true",
                "hbase.unsafe.stream.capability.enforce",
                "true",
                "hbase.zookeeper.quorum",
                "127.0.0.1",
                "hbase.zookeeper.property.clientPort",
                "" + zooKeeper,
                // A machine that stops for a while does not lose its servers.
                "zookeeper.session.timeout",
                "60000",
                "hbase.master.hostname",
                "localhost",
                "hbase.regionserver.hostname",
                "localhost",
                "hbase.master.ipc.address",
                "127.0.0.1",
                "hbase.regionserver.ipc.address",
                "127.0.0.1",
                "hbase.master.info.bindAddress",
                "127.0.0.1",
                "hbase.master.info.port",
                "" + ports.masterHttp,
                "hbase.regionserver.info.port",
                "-1",
                // The master waits for these, and not for more: else it waits for seconds whether more come.
                "hbase.master.wait.on.regionservers.mintostart",
                "" + ports.regionServers.size(),
                "hbase.master.wait.on.regionservers.maxtostart",
                "" + ports.regionServers.size(),
                // Servers wait for each other by asking again, region servers for the master so often.
                "hbase.regionserver.msginterval",
                "300",
                // What changes several regions is sent to a region server together, if it comes within this time.
                "hbase.procedure.remote.dispatcher.delay.msec",
                "10",
                // The log of a region server that has died is free at a heartbeat of HDFS: so often is it asked.
                "hbase.lease.recovery.first.pause",
                "100",
                "hbase.lease.recovery.pause",
                "100",
                // Chunks of 2 MB for each family of each region are too much for heaps as small.
                "hbase.hregion.memstore.mslab.enabled",
                "false",
                "hbase.regionserver.handler.count",
                "10");
        // What it says of itself is as old as this, in seconds; it is asked whether it is ready.
        Files.writeString(configuration.resolve("hadoop-metrics2-hbase.properties"), "*.period=1\n");
        return configuration;
    }

    /// The directory with its configuration, which clients need as well.
    public Path configuration() {
        return configuration;
    }

    /// The master.
    public Service master() {
        return master;
    }

    /// The region server of this number, from 0 on.
    public Service regionServer(int number) {
        return regionServers.get(number);
    }

    /// Its port.
    public int regionServerPort(int number) {
        return ports.regionServers.get(number);
    }

    /// Starts a region server that has ended again, where it was; returns when the master knows it.
    public void restartRegionServer(int number) throws IOException {
        regionServers.get(number).close();
        regionServers.set(number, startRegionServer(number));
        awaitReady();
    }

    /// Its processes.
    public List<Service> services() {
        List<Service> all = new ArrayList<>(regionServers);
        all.add(master);
        return all;
    }

    /// Kills it.
    @Override
    public void close() {
        services().forEach(Service::close);
    }
}
