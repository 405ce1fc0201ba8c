package cedrat.oracle.bench.omid;

import com.google.inject.AbstractModule;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import org.apache.hadoop.hbase.HBaseConfiguration;
import org.apache.omid.committable.CommitTable;
import org.apache.omid.committable.NullCommitTable;
import org.apache.omid.committable.hbase.DefaultHBaseCommitTableStorageModule;
import org.apache.omid.tools.hbase.OmidTableManager;
import org.apache.omid.tso.TSOServer;
import org.apache.omid.tso.TSOServerConfig;

/// Apache Omid's timestamp oracle as a process. It keeps its timestamps in memory, and its commits nowhere or
/// in a table of the HBase whose configuration is on the class path, as its second argument says: `none` or
/// `hbase`.
///
/// Its first argument says how it collects commits before it persists and answers them: `default` as it comes
/// (25 a batch, or after 10 ms), `tuned` as was found to be best by trying (500, or after 1 ms, the least
/// that it takes).
final class OmidServer {
    private OmidServer() {}

    public static void main(String[] arguments) throws IOException {
        TSOServerConfig config = new TSOServerConfig();
        int port = freePort();
        config.setPort(port);
        config.setNetworkIfaceName("lo");
        if (arguments[1].equals("hbase")) {
            new OmidTableManager("commit-table").executeActionsOnHBase(HBaseConfiguration.create());
            config.setCommitTableStoreModule(new DefaultHBaseCommitTableStorageModule());
        } else {
            config.setCommitTableStoreModule(new Nowhere());
        }
        if (arguments[0].equals("tuned")) {
            config.setBatchSizePerCTWriter(Integer.getInteger("omid.batch", 500));
            config.setBatchPersistTimeoutInMs(1);
        }
        TSOServer.getInitializedTsoServer(config).startAsync().awaitRunning();
        System.out.println("listening on 127.0.0.1:" + port);
    }

    /// Returns a free port: the server does not choose one itself.
    private static int freePort() throws IOException {
        try (ServerSocket socket = new ServerSocket()) {
            socket.bind(new InetSocketAddress("127.0.0.1", 0));
            return socket.getLocalPort();
        }
    }

    private static final class Nowhere extends AbstractModule {
        @Override
        protected void configure() {
            bind(CommitTable.class).to(NullCommitTable.class);
        }
    }
}
