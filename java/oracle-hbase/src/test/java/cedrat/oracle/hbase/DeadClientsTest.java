package cedrat.oracle.hbase;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cedrat.oracle.client.ClientOptions;
import cedrat.oracle.client.OracleClient;
import cedrat.oracle.log.VolatileLog;
import cedrat.oracle.server.OracleServer;
import cedrat.oracle.server.ServerOptions;
import cedrat.oracle.tables.Bytes;
import cedrat.oracle.tables.Cleaner;
import cedrat.oracle.tables.Column;
import cedrat.oracle.tables.Contents;
import cedrat.oracle.tables.Granularity;
import cedrat.oracle.tables.HookedTables;
import cedrat.oracle.tables.Isolation;
import cedrat.oracle.tables.Table;
import cedrat.oracle.tables.TransactionManager;
import cedrat.services.Command;
import cedrat.services.Service;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/// Clients that are processes of their own, killed or stopped in the middle of a commit.
@Tag("services")
@Timeout(300)
class DeadClientsTest {
    @TempDir
    private Path folder;

    private final HBaseStore store = new HBaseStore();
    private OracleServer server;
    private OracleClient oracle;
    private TransactionManager manager;
    private Table table;

    @BeforeEach
    void open() throws Exception {
        server = OracleServer.start(
                ServerOptions.DEFAULTS
                        .withListen(new InetSocketAddress("127.0.0.1", 0))
                        .withSessionTimeout(Duration.ofSeconds(2)),
                new VolatileLog());
        oracle = OracleClient.open(ClientOptions.of(server.address()));
        store.open(oracle);
        store.create("cells", Granularity.CELL, false);
        manager = new TransactionManager(
                oracle, store.tables(), TransactionManager.Options.DEFAULTS.withCleanUp(Runnable::run));
        table = store.tables().all().getFirst();
        manager.runInTransaction(Isolation.SNAPSHOT, transaction -> {
            transaction.put(table, ClientProcess.ROW, ClientProcess.VALUE, Bytes.of("old"));
            return null;
        });
    }

    @AfterEach
    void close() throws Exception {
        store.close();
        oracle.close();
        server.close();
    }

    /// A client that has got to this point, and waits there.
    private Service clientAt(String place) throws IOException {
        Service client = Command.of(
                        "a client",
                        folder,
                        List.of("-Xmx96m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"),
                        System.getProperty("java.class.path"),
                        ClientProcess.class.getName(),
                        List.of(
                                "" + server.address().getPort(),
                                "" + Cluster.get().zooKeeperPort(),
                                store.namespace,
                                place))
                .start();
        client.awaitReady(() -> said(client, "there"));
        return client;
    }

    private static boolean said(Service client, String what) throws IOException {
        return Files.readString(client.log()).contains(what);
    }

    private String see() {
        return manager.runInTransaction(Isolation.SNAPSHOT, transaction -> transaction
                .get(table, ClientProcess.ROW, ClientProcess.VALUE)
                .orElseThrow()
                .toText());
    }

    /// Until nothing of it is left.
    private Cleaner.Sweep sweepAll() {
        Cleaner cleaner = new Cleaner(oracle, store.tables());
        Cleaner.Sweep sweep = cleaner.sweep();
        while (sweep.open() > 0) {
            assertEquals("old", see(), "as long as it may be alive");
            sweep = cleaner.sweep();
        }
        return sweep;
    }

    @Test
    void oneIsKilledBetweenPutAndCommit() throws Exception {
        clientAt(HookedTables.Point.AFTER_MUTATE.name()).kill();
        assertEquals(1, Contents.of(store.tables()).pending());
        assertEquals("old", see());
        assertEquals(1, sweepAll().aborted());
        assertEquals("old", see());
        assertEquals(new Contents(1, 1, 0, 1), Contents.of(store.tables()));
    }

    @Test
    void sweepCompletesCommitOfKilledClient() throws Exception {
        clientAt(ClientProcess.BEFORE_CLEAN_UP).kill();
        assertEquals(1, Contents.of(store.tables()).pending());
        assertEquals("new", see());
        assertEquals(1, sweepAll().committed());
        assertEquals("new", see());
        assertEquals(new Contents(1, 2, 0, 2), Contents.of(store.tables()));
    }

    /// O7.
    /// O4: the client gets an abort, which only the expiry of its session can have caused: no other client has
    /// written its cell meanwhile.
    @Test
    void clientPausedBeforePutAbortsAfterSweep() throws Exception {
        try (Service client = clientAt(HookedTables.Point.BEFORE_MUTATE.name())) {
            client.pause();
            manager.runInTransaction(Isolation.SNAPSHOT, transaction -> {
                transaction.put(table, ClientProcess.ROW, Column.of("f", "beside"), Bytes.of("it"));
                return null;
            });
            // Its session ends: nothing that is open holds the low-water mark any more.
            while (oracle.lowWaterMark().value() < newest()) {
                Thread.onSpinWait();
            }
            assertEquals(0, new Cleaner(oracle, store.tables()).sweep().rows());
            Files.createFile(folder.resolve("go"));
            client.resume();
            client.awaitReady(() -> said(client, "ended"));
            assertTrue(said(client, "ended ABORTED"), Files.readString(client.log()));
        }
        assertEquals("old", see());
        new Cleaner(oracle, store.tables()).sweep();
        assertEquals("old", see());
        assertEquals(new Contents(1, 2, 0, 2), Contents.of(store.tables()));
    }

    private long newest() {
        var start = oracle.begin();
        oracle.end(start);
        return start.value();
    }
}
