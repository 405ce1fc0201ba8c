package cedrat.oracle.bench;

import cedrat.services.HBaseCluster;
import java.io.IOException;
import java.nio.file.Path;
import java.time.Duration;

/// HBase over HDFS, for tables and for the commit table of Apache Omid: what is written is in the log of a region
/// server before it is answered, as bytes are in the log of a status oracle. Started for the first who asks, it
/// serves all others: those are measured warm. For one thread.
final class SharedHBase implements AutoCloseable {
    /// The rows of all tables fit into a third of it, so that none is flushed for want of memory.
    private static final String HEAP = "-Xmx3g";

    private Path folder;
    private HBaseCluster cluster;

    SharedHBase() {}

    /// The directory that a client has on its class path.
    Path configuration() throws IOException {
        if (cluster == null) {
            folder = Logs.newDirectory();
            cluster = HBaseCluster.start(folder, 1, HEAP);
        }
        return cluster.hbase().configuration();
    }

    /// Returns the processors' time that the region server has taken.
    Duration regionServerTime() {
        return cluster.hbase().regionServer(0).time();
    }

    @Override
    public void close() throws IOException {
        if (cluster != null) {
            cluster.close();
        }
        if (folder != null) {
            Logs.delete(folder);
        }
    }
}
