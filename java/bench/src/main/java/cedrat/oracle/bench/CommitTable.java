package cedrat.oracle.bench;

import cedrat.services.FreePorts;
import cedrat.services.HBase;
import cedrat.services.Hdfs;
import cedrat.services.ZooKeeper;
import java.io.IOException;
import java.nio.file.Path;

/// HBase over HDFS, for the commit table of Apache Omid: what is committed is in the log of a region server
/// before it is answered, as bytes are in the log of a status oracle. Started for the first who asks, it
/// serves all others: those are measured warm. For one thread.
final class CommitTable implements AutoCloseable {
    private Path folder;
    private ZooKeeper zooKeeper;
    private Hdfs hdfs;
    private HBase hbase;

    CommitTable() {}

    /// The directory that a client has on its class path.
    Path configuration() throws IOException {
        if (hbase == null) {
            folder = Logs.newDirectory();
            zooKeeper = ZooKeeper.start(folder.resolve("zookeeper"), FreePorts.next());
            hdfs = Hdfs.start(folder.resolve("hdfs"), Hdfs.Ports.free());
            hbase = HBase.start(folder.resolve("hbase"), zooKeeper, hdfs, HBase.Ports.free(1));
        }
        return hbase.configuration();
    }

    @Override
    public void close() throws IOException {
        if (hbase != null) {
            hbase.close();
        }
        if (hdfs != null) {
            hdfs.close();
        }
        if (zooKeeper != null) {
            zooKeeper.close();
        }
        if (folder != null) {
            Logs.delete(folder);
        }
    }
}
