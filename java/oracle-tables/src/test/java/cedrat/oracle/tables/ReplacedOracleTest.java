package cedrat.oracle.tables;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cedrat.oracle.client.ClientClosedException;
import cedrat.oracle.client.ClientOptions;
import cedrat.oracle.client.OracleClient;
import cedrat.oracle.log.VolatileLog;
import cedrat.oracle.server.OracleServer;
import cedrat.oracle.server.ServerOptions;
import java.net.InetSocketAddress;
import java.time.Duration;
import java.util.List;
import java.util.Optional;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.function.Executable;

/// The server of running clients is replaced by one over another log.
@Timeout(300)
class ReplacedOracleTest {
    private static final Bytes ROW = Bytes.of("alice");
    private static final Column BALANCE = Column.of("account", "balance");

    private final MemoryTables tables = new MemoryTables();
    private final Table accounts = tables.create("accounts", Granularity.ROW);

    private static OracleServer start(InetSocketAddress address) throws Exception {
        return OracleServer.start(ServerOptions.DEFAULTS.withListen(address), new VolatileLog());
    }

    /// O7f: as of a program that has opened another client, over the same tables. A cleaner would remove what
    /// was committed.
    private void assertFreshClientIsRefused(InetSocketAddress address) {
        try (OracleClient fresh = OracleClient.open(ClientOptions.of(address))) {
            String identity = fresh.identity().orElseThrow().toString();
            TransactionManager manager = new TransactionManager(fresh, tables);
            Cleaner cleaner = new Cleaner(fresh, tables);
            Pruner pruner = new Pruner(fresh, tables);
            for (Executable use : List.<Executable>of(() -> read(manager), cleaner::sweep, pruner::prune)) {
                TableException refused = assertThrows(TableException.class, use);
                assertTrue(refused.getMessage().contains(identity), refused::toString);
                assertEquals(TableException.Effect.NONE, refused.effect());
            }
        }
    }

    private Optional<Bytes> read(TransactionManager manager) {
        return manager.runInTransaction(Isolation.SNAPSHOT, transaction -> transaction.get(accounts, ROW, BALANCE));
    }

    /// O6d: the other oracle would read no balance, and issue a lower timestamp to the next one.
    @Test
    void runningClientRefusesAnotherOracle() throws Exception {
        OracleServer first = start(new InetSocketAddress("127.0.0.1", 0));
        InetSocketAddress address = first.address();
        try (OracleClient oracle = OracleClient.open(
                ClientOptions.of(address).withReconnect(Duration.ofMillis(1), Duration.ofMillis(20)))) {
            TransactionManager manager = new TransactionManager(oracle, tables);
            try (first) {
                for (int update = 0; update < 10; update++) {
                    manager.runInTransaction(Isolation.SNAPSHOT, transaction -> {
                        transaction.put(accounts, ROW, BALANCE, Bytes.of(100));
                        return null;
                    });
                }
                assertEquals(Optional.of(Bytes.of(100)), read(manager));
            }
            try (OracleServer other = start(address)) {
                assertEquals(address, other.address());
                for (int attempt = 0; attempt < 2; attempt++) {
                    ClientClosedException refused = assertThrows(ClientClosedException.class, () -> read(manager));
                    assertTrue(refused.getMessage().contains("another oracle"), refused::toString);
                }
                assertFreshClientIsRefused(other.address());
            }
        }
    }
}
