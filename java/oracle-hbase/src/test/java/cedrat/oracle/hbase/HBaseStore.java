package cedrat.oracle.hbase;

import cedrat.oracle.client.OracleClient;
import cedrat.oracle.client.OracleIdentity;
import cedrat.oracle.client.StartTimestamp;
import cedrat.oracle.tables.Granularity;
import cedrat.oracle.tables.Table;
import cedrat.oracle.tables.Tables;
import cedrat.oracle.tables.TestStore;
import java.io.IOException;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Consumer;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hbase.Cell;
import org.apache.hadoop.hbase.TableName;
import org.apache.hadoop.hbase.client.AsyncAdmin;
import org.apache.hadoop.hbase.client.AsyncConnection;
import org.apache.hadoop.hbase.client.AsyncTable;
import org.apache.hadoop.hbase.client.CompactionState;
import org.apache.hadoop.hbase.client.ConnectionFactory;
import org.apache.hadoop.hbase.client.Delete;
import org.apache.hadoop.hbase.client.Result;
import org.apache.hadoop.hbase.client.ResultScanner;
import org.apache.hadoop.hbase.client.Scan;
import org.apache.hadoop.hbase.client.TableDescriptor;

/// Tables of HBase, in a namespace of their own.
///
/// HBase makes and removes a table in the time of several tests. So most tests use again what others have
/// used before them ([#again]): its rows are deleted, up to the newest timestamp that is there. The next test
/// has an oracle of its own, which begins at 1; it is made to give timestamps until they are above that one.
final class HBaseStore implements TestStore {
    private static final int SCALE = 20;
    private static final byte[] MIDDLE = {'5'};

    /// Tables with a timestamp above this are compacted when they are used again: then there is none.
    private static final long NEWEST_MAX = 20_000;

    /// Number of timestamps in one request.
    private static final int DRAWN_TOGETHER = 1000;

    private static final AtomicInteger NUMBER = new AtomicInteger();

    /// Empty tables, and the newest timestamp that deletes have left there.
    private record Used(String namespace, long newest) {}

    /// Guarded by itself.
    private static final Deque<Used> AGAIN = new ArrayDeque<>();

    final String namespace;
    private final boolean isUsedAgain;
    private final long newest;
    private final Configuration configuration;
    private HBaseTables tables;

    /// In a fresh namespace, which stays until the cluster ends: for a few tests that change the tables.
    HBaseStore() {
        this(Cluster.get().configuration());
    }

    /// The same, for clients with this configuration.
    HBaseStore(Configuration configuration) {
        this(new Used("t" + NUMBER.incrementAndGet(), 0), false, configuration);
    }

    private HBaseStore(Used used, boolean isUsedAgain, Configuration configuration) {
        namespace = used.namespace;
        newest = used.newest;
        this.isUsedAgain = isUsedAgain;
        this.configuration = configuration;
    }

    /// For those whose tables are all alike.
    static HBaseStore again() {
        Used used;
        synchronized (AGAIN) {
            used = AGAIN.poll();
        }
        used = used == null ? new Used("again" + NUMBER.incrementAndGet(), 0) : used;
        return new HBaseStore(used, true, Cluster.get().configuration());
    }

    /// HBase operations that tests need and transactions do not.
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
        long last = 0;
        while (last < newest) {
            List<CompletableFuture<StartTimestamp>> drawn = new ArrayList<>();
            for (int count = 0; count < DRAWN_TOGETHER; count++) {
                drawn.add(oracle.beginAsync());
            }
            for (CompletableFuture<StartTimestamp> start : drawn) {
                last = Math.max(last, start.join().value());
                oracle.endAsync(start.join());
            }
        }
        if (isUsedAgain) {
            rebind(oracle.identity().orElseThrow());
        }
        tables = HBaseTables.open(configuration, oracle, namespace);
    }

    /// Gives the tables to the oracle of the next test. No row of the one before is left.
    private void rebind(OracleIdentity oracle) {
        for (TableDescriptor table : admin().listTableDescriptors(true).join()) {
            if (table.getTableName().getNamespaceAsString().equals(namespace)) {
                admin().modifyTable(Schema.bound(table, oracle), false).join();
            }
        }
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
    public long cells() {
        long[] cells = new long[1];
        for (Table table : tables.all()) {
            forEach(
                    TableName.valueOf(table.name()),
                    new Scan().setRaw(true).readAllVersions(),
                    row -> cells[0] += row.rawCells().length);
        }
        return cells[0];
    }

    @Override
    public int scale() {
        return SCALE;
    }

    @Override
    public void close() {
        if (tables == null) {
            return; // it could not be opened, which has failed the test
        }
        List<TableName> names = isUsedAgain
                ? tables.all().stream().map(Table::name).map(TableName::valueOf).toList()
                : List.of();
        tables.close();
        if (!isUsedAgain) {
            return;
        }
        long left = newest(names);
        names.forEach(name -> deleteAll(name, left));
        if (left > NEWEST_MAX) {
            names.forEach(HBaseStore::compact);
        }
        synchronized (AGAIN) {
            AGAIN.add(new Used(namespace, left > NEWEST_MAX ? newest(names) : left));
        }
    }

    /// The newest timestamp in some tables, also of what was deleted there; 0 if there is none.
    private static long newest(List<TableName> names) {
        long[] newest = new long[1];
        for (TableName name : names) {
            forEach(name, new Scan().setRaw(true).readAllVersions(), row -> {
                for (Cell cell : row.rawCells()) {
                    newest[0] = Math.max(newest[0], cell.getTimestamp());
                }
            });
        }
        return newest[0];
    }

    private static void deleteAll(TableName name, long newest) {
        List<Delete> rows = new ArrayList<>();
        forEach(name, new Scan(), row -> rows.add(new Delete(row.getRow(), newest)));
        AsyncTable<?> table = connection().getTable(name);
        table.deleteAll(rows).join();
    }

    private static void forEach(TableName name, Scan scan, Consumer<Result> each) {
        try (ResultScanner rows = connection().getTable(name).getScanner(scan)) {
            for (Result row = rows.next(); row != null; row = rows.next()) {
                each.accept(row);
            }
        } catch (IOException problem) {
            throw new AssertionError(problem);
        }
    }
}
