package cedrat.services;

import java.io.IOException;
import java.nio.file.Path;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;

/// HBase, with the ZooKeeper and the HDFS that it needs. **Threads:** one at a time.
public final class HBaseCluster implements AutoCloseable {
    private final ZooKeeper zooKeeper;
    private final Hdfs hdfs;
    private final HBase hbase;

    private HBaseCluster(ZooKeeper zooKeeper, Hdfs hdfs, HBase hbase) {
        this.zooKeeper = zooKeeper;
        this.hdfs = hdfs;
        this.hbase = hbase;
    }

    /// Starts it with its data below this folder, on free ports; returns when all its region servers serve.
    /// The folder is fresh.
    public static HBaseCluster start(Path folder, int regionServers) throws IOException {
        return start(folder, regionServers, HBase.SMALL_HEAP);
    }

    /// The same with other heaps of region servers: an option of their virtual machines.
    public static HBaseCluster start(Path folder, int regionServers, String heap) throws IOException {
        Path ofZooKeeper = folder.resolve("zookeeper");
        CompletableFuture<ZooKeeper> startedBeside = CompletableFuture.supplyAsync(() -> {
            try {
                return ZooKeeper.start(ofZooKeeper, FreePorts.next());
            } catch (IOException problem) {
                throw new CompletionException(problem);
            }
        });
        Hdfs hdfs = null;
        try {
            hdfs = Hdfs.start(folder.resolve("hdfs"), Hdfs.Ports.free());
            ZooKeeper zooKeeper = startedBeside.join();
            HBase hbase = HBase.start(folder.resolve("hbase"), zooKeeper, hdfs, HBase.Ports.free(regionServers), heap);
            return new HBaseCluster(zooKeeper, hdfs, hbase);
        } catch (IOException | CompletionException problem) {
            if (hdfs != null) {
                hdfs.close();
            }
            startedBeside.thenAccept(ZooKeeper::close);
            throw problem instanceof IOException known ? known : new IOException(problem.getCause());
        }
    }

    /// The ZooKeeper, through which clients find HBase.
    public ZooKeeper zooKeeper() {
        return zooKeeper;
    }

    /// HBase's own processes.
    public HBase hbase() {
        return hbase;
    }

    /// Kills it. Its folder stays.
    @Override
    public void close() {
        hbase.close();
        hdfs.close();
        zooKeeper.close();
    }
}
