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
import org.apache.hadoop.hbase.client.Put;
import org.apache.hadoop.hbase.client.Result;
import org.apache.hadoop.hbase.client.Table;
import org.apache.hadoop.hbase.client.TableDescriptorBuilder;

/// Tables of HBase without transactions, the ceiling of those with: the same reads and writes, and updates are lost.
final class PlainTables implements TableSystem {
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
            puts.add(HBaseRows.put(first + at, balance));
        }
        try (Table table = connection.getTable(name)) {
            table.put(puts);
        }
    }

    @Override
    public Worker worker() throws IOException {
        Table table = connection.getTable(name);
        return (from, to, amount) -> {
            Result[] found = table.get(List.of(HBaseRows.get(from), HBaseRows.get(to)));
            table.put(List.of(
                    HBaseRows.put(from, HBaseRows.balance(found[0]) - amount),
                    HBaseRows.put(to, HBaseRows.balance(found[1]) + amount)));
            return true;
        };
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
