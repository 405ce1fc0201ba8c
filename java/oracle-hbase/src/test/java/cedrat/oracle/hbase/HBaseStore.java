package cedrat.oracle.hbase;

import cedrat.oracle.client.OracleClient;
import cedrat.oracle.tables.Granularity;
import cedrat.oracle.tables.Table;
import cedrat.oracle.tables.Tables;
import cedrat.oracle.tables.TestStore;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.hadoop.hbase.TableName;
import org.apache.hadoop.hbase.client.AsyncAdmin;
import org.apache.hadoop.hbase.client.AsyncConnection;
import org.apache.hadoop.hbase.client.CompactionState;
import org.apache.hadoop.hbase.client.ConnectionFactory;

/// Tables of HBase, in a namespace of their own.
final class HBaseStore implements TestStore {
    private static final int SCALE = 20;
    private static final byte[] MIDDLE = {'5'};
    private static final AtomicInteger NUMBER = new AtomicInteger();

    final String namespace = "t" + NUMBER.incrementAndGet();
    private HBaseTables tables;

    /// What tests do with HBase that transactions do not.
    private static final class Holder {
        static final AsyncConnection CONNECTION = ConnectionFactory.createAsyncConnection(
                        Cluster.get().configuration())
                .join();
    }

    static AsyncConnection connection() {
        return Holder.CONNECTION;
    }

    static AsyncAdmin admin() {
        return connection().getAdmin();
    }

    @Override
    public void open(OracleClient oracle) {
        tables = HBaseTables.open(Cluster.get().configuration(), oracle, namespace);
    }

    @Override
    public Tables tables() {
        return tables;
    }

    /// In two regions.
    @Override
    public void create(String name, Granularity granularity, boolean checksScans) {
        tables.create(name, granularity, checksScans, List.of("f"), List.of(MIDDLE));
    }

    @Override
    public void compact() {
        for (Table table : tables.all()) {
            compact(TableName.valueOf(table.name()));
        }
    }

    static void compact(TableName name) {
        admin().flush(name).join();
        admin().majorCompact(name).join();
        while (admin().getCompactionState(name).join() != CompactionState.NONE) {
            Thread.onSpinWait();
        }
    }

    @Override
    public int scale() {
        return SCALE;
    }

    /// Removes the tables; nobody waits for it.
    @Override
    public void close() {
        List<TableName> names = admin().listTableNamesByNamespace(namespace).join();
        tables.close();
        CompletableFuture.allOf(names.stream()
                        .map(name -> admin().disableTable(name).thenCompose(done -> admin().deleteTable(name)))
                        .toArray(CompletableFuture[]::new))
                .thenCompose(done -> admin().deleteNamespace(namespace));
    }
}
