package cedrat.oracle.hbase;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cedrat.oracle.client.ClientOptions;
import cedrat.oracle.client.OracleClient;
import cedrat.oracle.client.StartTimestamp;
import cedrat.oracle.log.VolatileLog;
import cedrat.oracle.server.OracleServer;
import cedrat.oracle.server.ServerOptions;
import cedrat.oracle.tables.Bytes;
import cedrat.oracle.tables.Cleaner;
import cedrat.oracle.tables.Column;
import cedrat.oracle.tables.Granularity;
import cedrat.oracle.tables.Isolation;
import cedrat.oracle.tables.TableException;
import cedrat.oracle.tables.TransactionManager;
import java.net.InetSocketAddress;
import java.util.List;
import org.apache.hadoop.hbase.TableName;
import org.apache.hadoop.hbase.client.TableDescriptor;
import org.apache.hadoop.hbase.client.TableDescriptorBuilder;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.function.Executable;

/// O7f: tables of HBase name their oracle. The other one has issued as many timestamps, so nothing else distinguishes
/// them.
@Tag("services")
@Timeout(300)
class BoundTablesTest {
    private static final Column COLUMN = Column.of("f", "balance");

    private final HBaseStore store = new HBaseStore();
    private OracleServer server;
    private OracleServer otherServer;
    private OracleClient oracle;
    private OracleClient other;
    private TableName name;

    private static OracleServer start() throws Exception {
        return OracleServer.start(
                ServerOptions.DEFAULTS.withListen(new InetSocketAddress("127.0.0.1", 0)), new VolatileLog());
    }

    @BeforeEach
    void open() throws Exception {
        server = start();
        oracle = OracleClient.open(ClientOptions.of(server.address()));
        store.open(oracle);
        store.create("rows", Granularity.ROW, false);
        name = TableName.valueOf(store.namespace, "rows");
        try (TransactionManager manager = new TransactionManager(oracle, store.tables())) {
            manager.runInTransaction(Isolation.SNAPSHOT, transaction -> {
                transaction.put(store.tables().table("rows"), Bytes.of("a"), COLUMN, Bytes.of(100));
                return null;
            });
        }
        otherServer = start();
        other = OracleClient.open(ClientOptions.of(otherServer.address()));
        for (StartTimestamp start = other.begin(); start.value() < 1000; start = other.begin()) {
            other.end(start);
        }
    }

    @AfterEach
    void close() throws Exception {
        store.close();
        oracle.close();
        other.close();
        server.close();
        otherServer.close();
    }

    private HBaseTables tables(OracleClient of) {
        return HBaseTables.open(Cluster.get().configuration(), of, store.namespace);
    }

    private static TableDescriptor descriptor(TableName name) {
        return HBaseStore.admin().getDescriptor(name).join();
    }

    private void assertRefused(Executable use) {
        String message = assertThrows(TableException.class, use).getMessage();
        for (OracleClient each : List.of(oracle, other)) {
            assertTrue(message.contains(each.identity().orElseThrow().toString()), message);
        }
    }

    @Test
    void tableOfAnotherOracleIsRefused() {
        assertEquals(oracle.identity().orElseThrow().toString(), Schema.oracle(descriptor(name)));
        try (HBaseTables tables = tables(other)) {
            assertRefused(() -> tables.table("rows"));
            assertRefused(() -> tables.create("rows", Granularity.ROW, List.of("f")));
            assertRefused(() -> new Cleaner(other, tables).sweep());
        }
        assertRefused(() -> new TransactionManager(other, store.tables()).begin(Isolation.SNAPSHOT));
        assertEquals(oracle.identity().orElseThrow().toString(), Schema.oracle(descriptor(name)), "it is not changed");
    }

    /// O7i: a table of an earlier version is refused and stays as it is.
    @Test
    void earlierLayoutIsRefused() {
        TableDescriptor earlier = TableDescriptorBuilder.newBuilder(descriptor(name))
                .removeValue(Schema.LAYOUT)
                .removeValue(Schema.ORACLE)
                .build();
        HBaseStore.admin().modifyTable(earlier, false).join();
        try (HBaseTables tables = tables(oracle)) {
            for (Executable use : List.<Executable>of(
                    () -> tables.table("rows"),
                    () -> tables.create("rows", Granularity.ROW, List.of("f")),
                    () -> new Cleaner(oracle, tables).sweep())) {
                String message = assertThrows(TableException.class, use).getMessage();
                assertTrue(message.contains("has the layout 1, "), message);
            }
            assertEquals(earlier, descriptor(name));
        }
    }

    /// A table that no program has bound.
    @Test
    void createBindsTableWithoutOracle() {
        TableDescriptor unbound = TableDescriptorBuilder.newBuilder(descriptor(name))
                .removeValue(Schema.ORACLE)
                .build();
        HBaseStore.admin().modifyTable(unbound, false).join();
        try (HBaseTables tables = tables(oracle)) {
            assertEquals(name.getNameAsString(), tables.table("rows").name());
            assertNull(Schema.oracle(descriptor(name)), "who only reads alters no table");
        }
        try (HBaseTables tables = tables(oracle)) {
            assertEquals(
                    name.getNameAsString(),
                    tables.create("rows", Granularity.ROW, List.of("f")).name());
        }
        try (HBaseTables tables = tables(other)) {
            assertRefused(() -> tables.table("rows"));
        }
    }

    /// A service that has opened a table long ago meets another one of that name.
    @Test
    void recreatedTableOfAnotherOracleIsRefused() {
        assertEquals(1, store.tables().all().size());
        assertEquals(0, new Cleaner(oracle, store.tables()).sweep().rows());
        HBaseStore.admin().disableTable(name).join();
        HBaseStore.admin().deleteTable(name).join();
        assertEquals(0, store.tables().all().size());
        try (HBaseTables tables = tables(other)) {
            tables.create("rows", Granularity.ROW, List.of("f"));
        }
        assertRefused(() -> new Cleaner(oracle, store.tables()).sweep());
        assertRefused(() -> store.tables().table("rows"));
    }
}
