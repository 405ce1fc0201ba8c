package cedrat.oracle.tables;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cedrat.oracle.client.ClientClosedException;
import cedrat.oracle.client.ClientOptions;
import cedrat.oracle.client.OracleClient;
import cedrat.oracle.log.Identities;
import cedrat.oracle.log.OracleReplay;
import cedrat.oracle.log.Restoration;
import cedrat.oracle.protocol.ErrorCode;
import cedrat.oracle.server.OracleServer;
import cedrat.oracle.server.ServerOptions;
import cedrat.oracle.state.NoDecisions;
import cedrat.oracle.state.StatusOracle;
import java.net.InetSocketAddress;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.Executor;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/// O6i: an oracle is restored from a backup while a client lives that knows what was committed since.
@Timeout(300)
class RestoredOracleTest {
    private static final int ROWS_LOG2 = 8;
    private static final long ABOVE = 1000;
    private static final Executor NEVER = task -> {};

    private final MemoryTables memory = new MemoryTables();
    private final Table accounts = memory.create("accounts", Granularity.ROW);
    private HookedTables.Hook hook = (point, table, row, mutation) -> {};
    private final Tables tables =
            new HookedTables(memory, (point, table, row, mutation) -> hook.reached(point, table, row, mutation));
    private final Table hooked = tables.table("accounts");
    private final List<Runnable> scheduled = new ArrayList<>();
    private final World.Later later = new World.Later();
    private long now;
    private final HeldLog log = new HeldLog();
    private OracleServer server = start(new InetSocketAddress("127.0.0.1", 0), log);
    private final InetSocketAddress address = server.address();
    private final OracleClient survivor = open();

    private static OracleServer start(InetSocketAddress address, HeldLog log) {
        try {
            return OracleServer.start(ServerOptions.DEFAULTS.withListen(address).withRowsLog2(ROWS_LOG2), log);
        } catch (Exception impossible) {
            throw new AssertionError(impossible);
        }
    }

    private OracleClient open() {
        return OracleClient.open(ClientOptions.of(address).withReconnect(Duration.ofMillis(1), Duration.ofMillis(20)));
    }

    private TransactionManager manager(OracleClient oracle, Executor cleanUp) {
        return new TransactionManager(
                oracle,
                tables,
                TransactionManager.Options.DEFAULTS.withCleanUp(cleanUp),
                new CleanUps(oracle, tables, (delay, work) -> scheduled.add(work), () -> now),
                Fault.NONE);
    }

    private static StatusOracle oracle() {
        return new StatusOracle(ROWS_LOG2, new NoDecisions());
    }

    /// Restores the oracle from a backup that has these entries, and serves it.
    private void restore(List<byte[]> backup) throws Exception {
        server.close();
        StatusOracle before = oracle();
        OracleReplay replay = new OracleReplay(before);
        for (byte[] entry : backup) {
            replay.entry(entry, 0, entry.length);
        }
        StatusOracle continued = oracle();
        Restoration.continueAbove(before, ABOVE, Identities.draw(), continued);
        List<byte[]> entries = new ArrayList<>();
        Restoration.write(
                continued, (bytes, from, length) -> entries.add(Arrays.copyOfRange(bytes, from, from + length)));
        server = start(address, new HeldLog(entries));
    }

    @AfterEach
    void close() throws Exception {
        survivor.close();
        server.close();
    }

    private void assertSurvivorIsRefused() {
        ClientClosedException refused = assertThrows(ClientClosedException.class, survivor::begin);
        assertEquals(ErrorCode.RESTORED, refused.code(), refused::toString);
        assertTrue(refused.getMessage().contains("restored from a backup"), refused::toString);
    }

    /// Asserts that a client that has lived through the restore changes nothing that a fresh one reads.
    private void assertChangesNothing(Runnable ofSurvivor) {
        try (OracleClient fresh = open()) {
            TransactionManager manager = manager(fresh, NEVER);
            assertEquals("before", World.see(manager, hooked, "a"), "the commit is lost");
            ofSurvivor.run();
            assertEquals("before", World.see(manager, hooked, "a"), "and stays so");
            assertSurvivorIsRefused();
            Cleaner.Sweep swept = new Cleaner(fresh, tables).sweep();
            assertEquals(1, swept.aborted());
            assertEquals("before", World.see(manager, hooked, "a"));
        }
    }

    /// O6j: a clean-up that has failed has the outcome from the oracle of before.
    @Test
    void repeatedCleanUpShowsNoLostCommit() throws Exception {
        TransactionManager manager = manager(survivor, Runnable::run);
        World.put(manager, hooked, "a", "before");
        List<byte[]> backup = log.kept();
        hook = (point, table, row, mutation) -> {
            if (World.isCleanUp(point, mutation)) {
                throw new TableException(TableException.Effect.NONE, "the store fails", null);
            }
        };
        World.put(manager, hooked, "a", "after");
        assertEquals(1, manager.cleanUpsPending());
        hook = (point, table, row, mutation) -> {};
        restore(backup);
        assertChangesNothing(() -> List.copyOf(scheduled).forEach(Runnable::run));
    }

    /// O6j: a clean-up has waited for a thread, meanwhile.
    @Test
    void delayedCleanUpShowsNoLostCommit() throws Exception {
        World.put(manager(survivor, Runnable::run), hooked, "a", "before");
        List<byte[]> backup = log.kept();
        World.put(manager(survivor, later), hooked, "a", "after");
        restore(backup);
        now += CleanUpQueue.OUTCOME_LASTS.toNanos() + 1;
        assertChangesNothing(() -> {
            later.runOne();
            List.copyOf(scheduled).forEach(Runnable::run);
        });
    }
}
