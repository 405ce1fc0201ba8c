package cedrat.oracle.bench;

import cedrat.oracle.client.ClientOptions;
import cedrat.oracle.client.OracleClient;
import cedrat.oracle.hbase.HBaseTables;
import cedrat.oracle.tables.AbortedException;
import cedrat.oracle.tables.Bytes;
import cedrat.oracle.tables.Column;
import cedrat.oracle.tables.Granularity;
import cedrat.oracle.tables.Isolation;
import cedrat.oracle.tables.Row;
import cedrat.oracle.tables.Rows;
import cedrat.oracle.tables.Scan;
import cedrat.oracle.tables.Table;
import cedrat.oracle.tables.Transaction;
import cedrat.oracle.tables.TransactionManager;
import java.net.InetSocketAddress;
import java.util.List;
import java.util.OptionalLong;
import java.util.Set;
import org.apache.hadoop.hbase.HBaseConfiguration;

/// Tables of HBase with the status oracle: all options as they are by default.
final class CedratTables implements TableSystem {
    private static final Column BALANCE = Column.of(FAMILY, QUALIFIER);

    private OracleClient oracle;
    private HBaseTables tables;
    private Table table;
    private TransactionManager manager;

    CedratTables() {}

    @Override
    public void open(InetSocketAddress server, String name, boolean create) {
        oracle = OracleClient.open(ClientOptions.of(server));
        tables = HBaseTables.open(HBaseConfiguration.create(), oracle);
        table = create ? tables.create(name, Granularity.ROW, List.of(FAMILY)) : tables.table(name);
        manager = new TransactionManager(oracle, tables);
    }

    @Override
    public void load(long first, int count, long balance) {
        try (Transaction transaction = manager.begin(Isolation.SNAPSHOT)) {
            for (int at = 0; at < count; at++) {
                put(transaction, Bytes.of(TableSystem.row(first + at)), balance);
            }
            transaction.commit();
        }
    }

    private void put(Transaction transaction, Bytes row, long balance) {
        transaction.put(table, row, BALANCE, Bytes.of(TableSystem.value(balance)));
    }

    @Override
    public Worker worker() {
        return (from, to, amount) -> {
            List<Bytes> keys = List.of(Bytes.of(TableSystem.row(from)), Bytes.of(TableSystem.row(to)));
            try (Transaction transaction = manager.begin(Isolation.SNAPSHOT)) {
                List<Row> rows = transaction.get(table, keys, Set.of(BALANCE));
                put(transaction, keys.get(0), balance(rows.get(0)) - amount);
                put(transaction, keys.get(1), balance(rows.get(1)) + amount);
                transaction.commit();
                return true;
            } catch (AbortedException aborted) {
                return false;
            }
        };
    }

    private static long balance(Row row) {
        return TableSystem.balance(row.get(BALANCE).map(Bytes::toArray).orElse(null));
    }

    @Override
    public OptionalLong total() {
        long total = 0;
        try (Transaction transaction = manager.begin(Isolation.SNAPSHOT);
                Rows rows = transaction.scan(table, Scan.ALL)) {
            while (rows.hasNext()) {
                total += balance(rows.next());
            }
        }
        return OptionalLong.of(total);
    }

    @Override
    public void close() {
        manager.close();
        tables.close();
        oracle.close();
    }
}
