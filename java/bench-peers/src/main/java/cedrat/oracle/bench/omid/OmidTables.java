package cedrat.oracle.bench.omid;

import cedrat.oracle.bench.TableSystem;
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
import org.apache.hadoop.hbase.client.ResultScanner;
import org.apache.hadoop.hbase.client.Scan;
import org.apache.hadoop.hbase.client.TableDescriptorBuilder;
import org.apache.hadoop.hbase.util.Bytes;
import org.apache.omid.transaction.HBaseOmidClientConfiguration;
import org.apache.omid.transaction.HBaseTransactionManager;
import org.apache.omid.transaction.RollbackException;
import org.apache.omid.transaction.TTable;
import org.apache.omid.transaction.Transaction;
import org.apache.omid.transaction.TransactionException;
import org.apache.omid.transaction.TransactionManager;
import org.apache.omid.tso.client.OmidClientConfiguration.PostCommitMode;

/// Tables of HBase with Apache Omid. With the system property `omid.post-commit` set to `async`, a client writes the
/// commit timestamps beside the cells after its commit has returned.
public final class OmidTables implements TableSystem {
    private static final byte[] FAMILY_BYTES = Bytes.toBytes(FAMILY);
    private static final byte[] QUALIFIER_BYTES = Bytes.toBytes(QUALIFIER);

    private Connection connection;
    private TransactionManager manager;
    private String table;

    /// A client that has not connected.
    public OmidTables() {}

    @Override
    public void open(InetSocketAddress server, String name, boolean create) throws IOException {
        try {
            HBaseOmidClientConfiguration configuration = new HBaseOmidClientConfiguration();
            configuration.setConnectionString(server.getHostString() + ":" + server.getPort());
            configuration.setHBaseConfiguration(HBaseConfiguration.create());
            if (System.getProperty("omid.post-commit", "").equals("async")) {
                configuration.setPostCommitMode(PostCommitMode.ASYNC);
            }
            manager = HBaseTransactionManager.newInstance(configuration);
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
            throw new IOException(interrupted);
        }
        connection = ConnectionFactory.createConnection(HBaseConfiguration.create());
        table = name;
        if (create) {
            try (Admin admin = connection.getAdmin()) {
                admin.createTable(TableDescriptorBuilder.newBuilder(TableName.valueOf(name))
                        .setColumnFamily(ColumnFamilyDescriptorBuilder.newBuilder(FAMILY_BYTES)
                                .setMaxVersions(Integer.MAX_VALUE)
                                .build())
                        .build());
            }
        }
    }

    @Override
    public void load(long first, int count, long balance) throws IOException, TransactionException {
        List<Put> puts = new ArrayList<>();
        for (int at = 0; at < count; at++) {
            puts.add(put(first + at, balance));
        }
        try (TTable accounts = new TTable(connection, table)) {
            Transaction transaction = manager.begin();
            accounts.put(transaction, puts);
            manager.commit(transaction);
        } catch (RollbackException aborted) {
            throw new IOException(aborted);
        }
    }

    @Override
    public Worker worker() throws IOException {
        TTable accounts = new TTable(connection, table);
        return (from, to, amount) -> {
            Transaction transaction = manager.begin();
            try {
                Result[] found = accounts.get(transaction, List.of(get(from), get(to)));
                accounts.put(
                        transaction,
                        List.of(put(from, balance(found[0]) - amount), put(to, balance(found[1]) + amount)));
                manager.commit(transaction);
                return true;
            } catch (RollbackException aborted) {
                return false;
            }
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
    public OptionalLong total() throws IOException, TransactionException {
        long total = 0;
        Transaction transaction = manager.begin();
        try (TTable accounts = new TTable(connection, table);
                ResultScanner rows = accounts.getScanner(transaction, new Scan().addFamily(FAMILY_BYTES))) {
            for (Result row = rows.next(); row != null; row = rows.next()) {
                total += balance(row);
            }
        }
        manager.rollback(transaction);
        return OptionalLong.of(total);
    }

    @Override
    public void close() throws IOException {
        manager.close();
        connection.close();
    }
}
