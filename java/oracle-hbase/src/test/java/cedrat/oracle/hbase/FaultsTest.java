package cedrat.oracle.hbase;

import cedrat.oracle.client.ClientOptions;
import cedrat.oracle.client.OracleClient;
import cedrat.oracle.log.VolatileLog;
import cedrat.oracle.server.OracleServer;
import cedrat.oracle.server.ServerOptions;
import cedrat.oracle.tables.Granularity;
import cedrat.oracle.tables.Isolation;
import cedrat.oracle.tables.ListHistory;
import cedrat.oracle.tables.Table;
import cedrat.services.Command;
import cedrat.services.Service;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import org.apache.hadoop.hbase.HRegionLocation;
import org.apache.hadoop.hbase.ServerName;
import org.apache.hadoop.hbase.TableName;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/// Clients' view while regions of HBase move, split, are compacted and lose their server, and while some
/// clients are killed.
@Tag("services")
@Timeout(300)
class FaultsTest {
    /// Number of transactions of a client process before it is killed.
    private static final int ENOUGH = 10;

    /// Of clients: so long is waited for those that were killed.
    private static final Duration SESSION = Duration.ofSeconds(10);

    @TempDir
    private Path folder;

    private final HBaseStore store = new HBaseStore();
    private OracleServer server;
    private OracleClient oracle;
    private FaultLoad load;
    private int processes = 100;

    @BeforeEach
    void open() throws Exception {
        server = OracleServer.start(
                ServerOptions.DEFAULTS
                        .withListen(new InetSocketAddress("127.0.0.1", 0))
                        .withRowsLog2(FaultLoad.ROWS_LOG2)
                        .withSessionTimeout(SESSION),
                new VolatileLog());
        oracle = OracleClient.open(ClientOptions.of(server.address()));
        store.open(oracle);
        store.create("left", Granularity.ROW, true);
        store.create("right", Granularity.CELL, true);
        load = new FaultLoad(oracle, store.tables());
    }

    @AfterEach
    void close() throws Exception {
        load.end();
        store.close();
        oracle.close();
        server.close();
    }

    private static TableName name(Table table) {
        return TableName.valueOf(table.name());
    }

    private static List<HRegionLocation> regions(Table table) {
        return HBaseStore.connection()
                .getRegionLocator(name(table))
                .getAllRegionLocations()
                .join();
    }

    /// O7.
    @Test
    void regionsMoveSplitAndAreCompacted() throws Exception {
        load.start();
        load.awaitCommits(50);
        List<ServerName> servers =
                List.copyOf(HBaseStore.admin().getRegionServers().join());
        for (Table table : load.both()) {
            for (HRegionLocation region : regions(table)) {
                ServerName other = servers.get(servers.getFirst().equals(region.getServerName()) ? 1 : 0);
                HBaseStore.admin()
                        .move(region.getRegion().getEncodedNameAsBytes(), other)
                        .join();
            }
        }
        load.awaitCommits(50);
        TableName first = name(load.both().getFirst());
        int before = HBaseStore.admin().getRegions(first).join().size();
        HBaseStore.admin().split(first, FaultLoad.key(2).toArray()).join();
        while (HBaseStore.admin().getRegions(first).join().size() == before) {
            Thread.onSpinWait();
        }
        load.awaitCommits(50);
        load.both().forEach(table -> HBaseStore.compact(name(table)));
        load.awaitCommits(50);
        load.judge("regions-move-split-and-are-compacted");
    }

    /// O7.
    @Test
    void aRegionServerIsKilled() throws Exception {
        load.start();
        load.awaitCommits(50);
        Cluster.get().killRegionServer(0);
        load.awaitCommits(50);
        Cluster.get().hbase.restartRegionServer(0);
        load.awaitCommits(50);
        load.judge("a-region-server-is-killed");
    }

    /// A process of its own that reads lists and appends to them.
    private Service client(Isolation isolation) throws IOException {
        int number = processes++;
        return Command.of(
                        "client " + number,
                        folder.resolve("client-" + number),
                        List.of("-Xmx96m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"),
                        System.getProperty("java.class.path"),
                        ListProcess.class.getName(),
                        List.of(
                                "" + server.address().getPort(),
                                "" + Cluster.get().zooKeeperPort(),
                                store.namespace,
                                "" + number,
                                isolation.name()))
                .start();
    }

    /// O7.
    /// Clients are killed at any point: no other client waits for them, and none sees a partial transaction.
    @Test
    void clientsAreKilled() throws Exception {
        load.start();
        for (int round = 0; round < 2; round++) {
            List<Service> clients = new ArrayList<>();
            for (Isolation isolation : Isolation.values()) {
                clients.add(client(isolation));
            }
            for (Service client : clients) {
                client.awaitReady(() -> ListHistory.committed(client.log()) >= ENOUGH);
            }
            for (Isolation isolation : Isolation.values()) {
                Service client = clients.get(isolation.ordinal());
                client.kill();
                load.add(isolation, client.log());
            }
            load.awaitCommits(20);
        }
        load.judge("clients-are-killed");
    }
}
