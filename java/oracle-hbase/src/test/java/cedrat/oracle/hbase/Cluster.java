package cedrat.oracle.hbase;

import cedrat.services.HBase;
import cedrat.services.HBaseCluster;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Comparator;
import java.util.stream.Stream;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hbase.HBaseConfiguration;
import org.apache.zookeeper.ZooKeeper;

/// HBase with two region servers, once for all tests of this program.
final class Cluster {
    private static final int SESSION_MS = 30_000;

    /// Started when it is asked for.
    private static final class Holder {
        static final Cluster ONE = start();
    }

    final HBase hbase;
    private final Configuration configuration;

    private Cluster(HBase hbase, Configuration configuration) {
        this.hbase = hbase;
        this.configuration = configuration;
    }

    static Cluster get() {
        return Holder.ONE;
    }

    static Configuration configuration(int zooKeeperPort) {
        Configuration configuration = HBaseConfiguration.create();
        configuration.set("hbase.zookeeper.quorum", "127.0.0.1");
        configuration.set("hbase.zookeeper.property.clientPort", "" + zooKeeperPort);
        return configuration;
    }

    Configuration configuration() {
        return configuration;
    }

    int zooKeeperPort() {
        return configuration.getInt("hbase.zookeeper.property.clientPort", 0);
    }

    /// Kills a region server, and has it missed at once: removes its node from ZooKeeper, as HBase's own
    /// script does for a server that has ended. Else it is missed when its session is over.
    void killRegionServer(int number) throws Exception {
        String port = "," + hbase.regionServerPort(number) + ",";
        hbase.regionServer(number).kill();
        ZooKeeper client = new ZooKeeper("127.0.0.1:" + zooKeeperPort(), SESSION_MS, event -> {});
        try {
            for (String server : client.getChildren("/hbase/rs", false)) {
                if (server.contains(port)) {
                    client.delete("/hbase/rs/" + server, -1);
                }
            }
        } finally {
            client.close();
        }
    }

    private static Cluster start() {
        try {
            Path folder = Files.createTempDirectory("cedrat-hbase");
            HBaseCluster cluster = HBaseCluster.start(folder, 2);
            Runtime.getRuntime().addShutdownHook(new Thread(() -> {
                cluster.close();
                remove(folder);
            }));
            return new Cluster(
                    cluster.hbase(), configuration(cluster.zooKeeper().port()));
        } catch (IOException problem) {
            throw new IllegalStateException(problem);
        }
    }

    private static void remove(Path folder) {
        try (Stream<Path> all = Files.walk(folder)) {
            for (Path each : all.sorted(Comparator.reverseOrder()).toList()) {
                Files.deleteIfExists(each);
            }
        } catch (IOException stays) {
            System.err.println("not removed: " + stays);
        }
    }
}
