package cedrat.oracle.hbase;

import cedrat.oracle.tables.NemesisWorld;
import cedrat.oracle.tables.Table;
import cedrat.oracle.tables.TestStore;
import java.util.ArrayList;
import java.util.List;
import java.util.random.RandomGenerator;
import org.apache.hadoop.hbase.HRegionLocation;
import org.apache.hadoop.hbase.ServerName;
import org.apache.hadoop.hbase.TableName;
import org.apache.hadoop.hbase.client.TableDescriptor;
import org.apache.hadoop.hbase.client.TableDescriptorBuilder;

/// Faults of HBase below some stores: regions that move, split and are compacted, tables that are altered, a region
/// server that is suspended, or killed and started again, and a network that is cut in either direction.
final class HBaseFaults implements NemesisWorld.OtherFaults {
    private static final int SERVERS = 2;

    private final List<TestStore> stores;
    private final HBaseNetwork network;
    private boolean isCut;
    private int cuts;
    /// Number of the region server that is suspended; below 0 if none is.
    private int suspended = -1;
    /// Number of the one that was killed; below 0 if none was.
    private int killed = -1;

    private int count;

    /// @param network the network between HBase and the clients of the stores
    HBaseFaults(List<TestStore> stores, HBaseNetwork network) {
        this.stores = stores;
        this.network = network;
    }

    @Override
    public String toString() {
        return count + " faults of HBase, " + cuts + " of its network";
    }

    /// Most faults are of the network.
    @Override
    public int perCent() {
        return 12;
    }

    @Override
    public void inject(RandomGenerator random) throws Exception {
        count++;
        int drawn = random.nextInt(18);
        if (suspended >= 0 || killed >= 0 || isCut) {
            heal();
            return;
        }
        TableName table = table(random);
        switch (drawn) {
            case 0 -> move(table, random);
            case 1 -> split(table, random);
            case 2 -> HBaseStore.compact(table);
            case 3 -> alter(table, random);
            case 4 -> {
                suspended = random.nextInt(SERVERS);
                Cluster.get().hbase.regionServer(suspended).pause();
            }
            case 5 -> {
                killed = random.nextInt(SERVERS);
                Cluster.get().killRegionServer(killed);
            }
            default -> {
                isCut = true;
                cuts++;
                network.cut(random);
            }
        }
    }

    private TableName table(RandomGenerator random) {
        List<TableName> names = new ArrayList<>();
        for (TestStore store : stores) {
            for (Table table : store.tables().all()) {
                names.add(TableName.valueOf(table.name()));
            }
        }
        return names.get(random.nextInt(names.size()));
    }

    private static void move(TableName table, RandomGenerator random) {
        List<ServerName> servers =
                List.copyOf(HBaseStore.admin().getRegionServers().join());
        List<HRegionLocation> regions = HBaseStore.connection()
                .getRegionLocator(table)
                .getAllRegionLocations()
                .join();
        HBaseStore.admin()
                .move(
                        regions.get(random.nextInt(regions.size())).getRegion().getEncodedNameAsBytes(),
                        servers.get(random.nextInt(servers.size())))
                .join();
    }

    /// A region that is split already, or has no such key, stays as it is.
    private static void split(TableName table, RandomGenerator random) {
        byte[] key = "%06d".formatted(random.nextInt(1, 40)).getBytes(java.nio.charset.StandardCharsets.US_ASCII);
        HBaseStore.admin().split(table, key).exceptionally(refused -> null).join();
    }

    private static void alter(TableName table, RandomGenerator random) {
        TableDescriptor before = HBaseStore.admin().getDescriptor(table).join();
        HBaseStore.admin()
                .modifyTable(TableDescriptorBuilder.newBuilder(before)
                        .setValue("ALTERED", "" + random.nextInt())
                        .build())
                .join();
    }

    @Override
    public void heal() throws Exception {
        network.heal();
        isCut = false;
        if (suspended >= 0) {
            Cluster.get().hbase.regionServer(suspended).resume();
            suspended = -1;
        }
        if (killed >= 0) {
            Cluster.get().hbase.restartRegionServer(killed);
            killed = -1;
        }
    }
}
