package cedrat.oracle.bench.omid;

import cedrat.oracle.bench.HBaseRows;
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
import org.apache.hadoop.hbase.client.Put;
import org.apache.hadoop.hbase.client.Result;
import org.apache.hadoop.hbase.client.ResultScanner;
import org.apache.hadoop.hbase.client.Scan;
import org.apache.hadoop.hbase.client.TableDescriptorBuilder;
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
                        .setColumnFamily(ColumnFamilyDescriptorBuilder.newBuilder(HBaseRows.FAMILY)
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
            puts.add(HBaseRows.put(first + at, balance));
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
                Result[] found = accounts.get(transaction, List.of(HBaseRows.get(from), HBaseRows.get(to)));
                accounts.put(
                        transaction,
                        List.of(
                                HBaseRows.put(from, HBaseRows.balance(found[0]) - amount),
                                HBaseRows.put(to, HBaseRows.balance(found[1]) + amount)));
                manager.commit(transaction);
                return true;
            } catch (RollbackException aborted) {
                return false;
            }
        };
    }

    @Override
    public OptionalLong total() throws IOException, TransactionException {
        long total = 0;
        Transaction transaction = manager.begin();
        try (TTable accounts = new TTable(connection, table);
                ResultScanner rows = accounts.getScanner(transaction, new Scan().addFamily(HBaseRows.FAMILY))) {
            for (Result row = rows.next(); row != null; row = rows.next()) {
                total += HBaseRows.balance(row);
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
