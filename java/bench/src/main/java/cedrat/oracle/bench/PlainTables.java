package cedrat.oracle.bench;

import java.io.IOException;
import java.net.InetSocketAddress;
import java.util.ArrayList;
import java.util.List;
import java.util.OptionalLong;
import org.apache.hadoop.hbase.HBaseConfiguration;
import org.apache.hadoop.hbase.TableName;
import org.apache.hadoop.hbase.client.Admin;
import org.apache.hadoop.hbase.client.ColumnFamilyDescriptorBuilder;
import org.apache.hadoop.hbase.client.Connection;
import org.apache.hadoop.hbase.client.ConnectionFactory;
import org.apache.hadoop.hbase.client.Get;
import org.apache.hadoop.hbase.client.Put;
import org.apache.hadoop.hbase.client.Result;
import org.apache.hadoop.hbase.client.Table;
import org.apache.hadoop.hbase.client.TableDescriptorBuilder;
import org.apache.hadoop.hbase.util.Bytes;

/// Tables of HBase without transactions, the ceiling of those with: the same reads and writes, and updates are lost.
final class PlainTables implements TableSystem {
    private static final byte[] FAMILY_BYTES = Bytes.toBytes(FAMILY);
    private static final byte[] QUALIFIER_BYTES = Bytes.toBytes(QUALIFIER);

    private Connection connection;
    private TableName name;

    PlainTables() {}

    @Override
    public void open(InetSocketAddress server, String table, boolean create) throws IOException {
        connection = ConnectionFactory.createConnection(HBaseConfiguration.create());
        name = TableName.valueOf(table);
        if (create) {
            try (Admin admin = connection.getAdmin()) {
                admin.createTable(TableDescriptorBuilder.newBuilder(name)
                        .setColumnFamily(ColumnFamilyDescriptorBuilder.of(FAMILY))
                        .build());
            }
        }
    }

    @Override
    public void load(long first, int count, long balance) throws IOException {
        List<Put> puts = new ArrayList<>();
        for (int at = 0; at < count; at++) {
            puts.add(put(first + at, balance));
        }
        try (Table table = connection.getTable(name)) {
            table.put(puts);
        }
    }

    @Override
    public Worker worker() throws IOException {
        Table table = connection.getTable(name);
        return (from, to, amount) -> {
            Result[] found = table.get(List.of(get(from), get(to)));
            table.put(List.of(put(from, balance(found[0]) - amount), put(to, balance(found[1]) + amount)));
            return true;
        };
    }

    private static Get get(long account) {
        return new Get(TableSystem.row(account)).addColumn(FAMILY_BYTES, QUALIFIER_BYTES);
    }

    private static Put put(long account, long balance) {
        return new Put(TableSystem.row(account)).addColumn(FAMILY_BYTES, QUALIFIER_BYTES, TableSystem.value(balance));
    }

    private static long balance(Result found) {
        return TableSystem.balance(found.getValue(FAMILY_BYTES, QUALIFIER_BYTES));
    }

    @Override
    public OptionalLong total() {
        return OptionalLong.empty();
    }

    @Override
    public void close() throws IOException {
        connection.close();
    }
}
