package cedrat.oracle.hbase;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cedrat.oracle.client.ClientOptions;
import cedrat.oracle.client.OracleClient;
import cedrat.oracle.client.Outcome;
import cedrat.oracle.log.VolatileLog;
import cedrat.oracle.server.OracleServer;
import cedrat.oracle.server.ServerOptions;
import cedrat.oracle.tables.Bytes;
import cedrat.oracle.tables.Column;
import cedrat.oracle.tables.Contents;
import cedrat.oracle.tables.Granularity;
import cedrat.oracle.tables.Isolation;
import cedrat.oracle.tables.KeyRange;
import cedrat.oracle.tables.Mutation;
import cedrat.oracle.tables.Scan;
import cedrat.oracle.tables.StoredRows;
import cedrat.oracle.tables.Table;
import cedrat.oracle.tables.TableException;
import cedrat.oracle.tables.Transaction;
import cedrat.oracle.tables.TransactionManager;
import java.net.InetSocketAddress;
import java.util.List;
import java.util.Set;
import org.apache.hadoop.hbase.TableName;
import org.apache.hadoop.hbase.client.Delete;
import org.apache.hadoop.hbase.client.Put;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/// Tables that transactions cannot use, and writes that HBase refuses.
@Tag("services")
@Timeout(300)
class ForeignTest {
    private final HBaseStore store = new HBaseStore();
    private OracleServer server;
    private OracleClient oracle;
    private Table table;

    @BeforeEach
    void open() throws Exception {
        server = OracleServer.start(
                ServerOptions.DEFAULTS.withListen(new InetSocketAddress("127.0.0.1", 0)), new VolatileLog());
        oracle = OracleClient.open(ClientOptions.of(server.address()));
        store.open(oracle);
        store.create("rows", Granularity.ROW, false);
        table = store.tables().all().getFirst();
    }

    @AfterEach
    void close() throws Exception {
        store.close();
        oracle.close();
        server.close();
    }

    private String refused() {
        try (HBaseTables again = HBaseTables.open(Cluster.get().configuration(), oracle, store.namespace)) {
            return assertThrows(TableException.class, () -> again.table("rows")).getMessage();
        }
    }

    /// O7.
    @Test
    void clockTimestampedWriteIsDetected() {
        try (HBaseTables again = HBaseTables.open(Cluster.get().configuration(), oracle, store.namespace)) {
            assertEquals(table.name(), again.table("rows").name());
        }
        byte[] row = {'a'};
        byte[] family = {'f'};
        HBaseStore.connection()
                .getTable(TableName.valueOf(table.name()))
                .put(new Put(row).addColumn(family, row, row))
                .join();
        String message = refused();
        assertTrue(message.contains("table " + table.name() + " holds the timestamp "), message);
    }

    /// O7.
    @Test
    void clockTimestampedDeleteIsDetected() {
        byte[] row = {'a'};
        HBaseStore.connection()
                .getTable(TableName.valueOf(table.name()))
                .delete(new Delete(row))
                .join();
        assertTrue(refused().contains("writes or deletes there without transactions"));
    }

    @Test
    void missingTablesAreNamed() {
        HBaseTables tables = (HBaseTables) store.tables();
        String message = assertThrows(TableException.class, () -> tables.table("nothing"))
                .getMessage();
        assertTrue(message.contains(store.namespace + ":nothing") && message.contains("create"), message);
        message = assertThrows(TableException.class, () -> tables.create("rows", Granularity.CELL, List.of("f")))
                .getMessage();
        assertTrue(message.contains("conflicts are by row"), message);
        message = assertThrows(
                        TableException.class,
                        () -> tables.create("rows", Granularity.ROW, true, List.of("f"), List.of()))
                .getMessage();
        assertTrue(message.contains("serialisable transactions may not scan it"), message);
    }

    /// Cleans up before a commit returns.
    private TransactionManager promptManager() {
        return new TransactionManager(
                oracle, store.tables(), TransactionManager.Options.DEFAULTS.withCleanUp(Runnable::run));
    }

    /// A write that HBase refuses has had no effect: the transaction is forgotten at once.
    @Test
    void refusedWriteNamesTableAndRow() {
        TransactionManager manager = promptManager();
        for (Bytes row : List.of(Bytes.of("a"), Bytes.EMPTY)) {
            Transaction transaction = manager.begin(Isolation.SNAPSHOT);
            transaction.put(table, row, Column.of("g", "x"), Bytes.of("x"));
            TableException refused = assertThrows(TableException.class, transaction::commit);
            assertEquals(TableException.Effect.NONE, refused.effect());
            assertTrue(
                    refused.getMessage().startsWith("table " + table.name() + ", row " + row + ": "),
                    refused::toString);
            assertEquals(Transaction.State.ABORTED, transaction.state());
            assertEquals(
                    Outcome.Kind.UNKNOWN, oracle.resolve(transaction.start()).kind(), "it is forgotten");
        }
    }

    /// HBase has none.
    @Test
    void rowWithEmptyKeyIsAbsent() {
        assertTrue(table.read(Bytes.EMPTY, Set.of(), Long.MAX_VALUE).versions().isEmpty());
        assertFalse(table.mutateIfMarked(
                Bytes.EMPTY, 1, new Mutation(List.of(), List.of(), List.of(), List.of(), List.of(), List.of(1L))));
        TransactionManager manager = new TransactionManager(oracle, store.tables());
        try (Transaction reader = manager.begin(Isolation.SNAPSHOT)) {
            assertTrue(reader.get(table, Bytes.EMPTY).isEmpty());
        }
    }

    /// A sweep does not read rows whose markers were replaced, in memory and in files.
    @Test
    void replacedMarkersAreNotFound() {
        TransactionManager manager = promptManager();
        for (String row : List.of("a", "b")) {
            manager.runInTransaction(Isolation.SNAPSHOT, transaction -> {
                transaction.put(table, Bytes.of(row), Column.of("f", "x"), Bytes.of("x"));
                return null;
            });
            assertFalse(table.marked(KeyRange.ALL).hasNext());
            HBaseStore.admin().flush(TableName.valueOf(table.name())).join();
            assertFalse(table.marked(KeyRange.ALL).hasNext());
        }
        Transaction open = manager.begin(Isolation.SNAPSHOT);
        table.mutate(
                Bytes.of("b"),
                new Mutation(
                        List.of(new Mutation.Version(
                                Column.of("f", "x"), open.start().value(), Bytes.of("x"))),
                        List.of(),
                        List.of(),
                        List.of(open.start().value()),
                        List.of(),
                        List.of()));
        try (StoredRows found = table.marked(KeyRange.ALL)) {
            assertEquals(Bytes.of("b"), found.next().key());
            assertFalse(found.hasNext());
        }
        open.abort();
        HBaseStore.compact(TableName.valueOf(table.name()));
        assertEquals(2, Contents.of(store.tables()).stamps());
    }

    @Test
    void anEmptyRangeHasNoRows() {
        TransactionManager manager = new TransactionManager(oracle, store.tables());
        manager.runInTransaction(Isolation.SNAPSHOT, transaction -> {
            transaction.put(table, Bytes.of("a"), Column.of("f", "x"), Bytes.of("x"));
            return null;
        });
        try (Transaction reader = manager.begin(Isolation.SNAPSHOT)) {
            KeyRange empty = new KeyRange(Bytes.of("a"), Bytes.of("a"));
            assertFalse(reader.scan(table, Scan.ALL.withRange(empty)).hasNext());
            assertFalse(table.marked(empty).hasNext());
            assertTrue(reader.scan(table, Scan.ALL).hasNext());
        }
    }
}
