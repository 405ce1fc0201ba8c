package cedrat.oracle.server;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cedrat.oracle.log.DamagedEntryException;
import cedrat.oracle.log.EntryWriter;
import cedrat.oracle.log.OracleReplay;
import cedrat.oracle.protocol.Protocol;
import cedrat.oracle.server.cluster.RawClient;
import cedrat.oracle.state.StatusOracle;
import java.net.InetSocketAddress;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.SplittableRandom;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/// D5 and O5: a server's log is bounded, however long the server runs and however often it starts, and what
/// is left of it is enough.
@Timeout(300)
class BoundedLogTest {
    private static final long SESSION = 11;
    private static final int ROWS_LOG2 = 8;

    /// Time passes only by [OracleServer#tick].
    private static final ServerOptions OPTIONS = ServerOptions.DEFAULTS
            .withListen(new InetSocketAddress("127.0.0.1", 0))
            .withRowsLog2(ROWS_LOG2)
            .withSessionTimeout(Duration.ofDays(1));

    private static StatusOracle replayed(List<byte[]> entries) throws DamagedEntryException {
        StatusOracle oracle = new StatusOracle(ROWS_LOG2, new EntryWriter());
        OracleReplay replay = new OracleReplay(oracle);
        for (byte[] entry : entries) {
            replay.entry(entry, 0, entry.length);
        }
        replay.end();
        return oracle;
    }

    private static void assertSame(StatusOracle one, StatusOracle other) {
        assertEquals(one.forgottenTimestamp(), other.forgottenTimestamp(), "T_max");
        assertSameTransactions(one, other);
    }

    private static void assertSameTransactions(StatusOracle one, StatusOracle other) {
        assertEquals(one.newest(), other.newest());
        assertEquals(one.position(), other.position());
        assertEquals(one.newestCommit(), other.newestCommit());
        assertEquals(one.open(), other.open());
        assertEquals(one.halfAborted(), other.halfAborted());
        assertEquals(one.halfCommitted(), other.halfCommitted());
        assertEquals(one.lowWaterMark(), other.lowWaterMark());
        for (long start = 1; start <= one.newest(); start++) {
            assertEquals(one.status(start), other.status(start), "status of " + start);
        }
    }

    /// Commits so many rows one by one, some of them in vain; now and then a transaction stays open, and most
    /// of those that have ended are cleaned up.
    private static void work(RawClient client, SplittableRandom random, int commits) throws Exception {
        List<Long> ended = new ArrayList<>();
        for (int count = 0; count < commits; count++) {
            long start = client.begin();
            long other = client.begin();
            long row = 1 + random.nextInt(1000);
            client.commit(start, row);
            ended.add(start);
            switch (random.nextInt(20)) {
                case 0 -> {} // it stays open
                case 1, 2 -> client.commit(other, row);
                default -> client.ask(Protocol.END, other);
            }
            if (random.nextInt(10) > 0) {
                client.ask(Protocol.ABORT, ended.getLast()); // too late: it has committed
                long[] starts = {ended.removeLast()};
                client.out.starts(Protocol.CLEANED, 0, client.id(), starts, 0, 1);
                client.send().receive();
            }
        }
    }

    /// O5.
    @Test
    void aSmallMapHasAShortLog() throws Exception {
        HeldLog log = new HeldLog();
        int longest = 0;
        try (OracleServer server = OracleServer.start(OPTIONS, log);
                RawClient client = new RawClient(server, SESSION)) {
            SplittableRandom random = new SplittableRandom(1);
            for (int round = 0; round < 30; round++) {
                work(client, random, 50);
                longest = Math.max(longest, log.kept().size());
            }
            server.settle();
        }
        // Each of the newest 240 rows, and an eighth more, comes with six entries at most, and with parts.
        assertTrue(longest < 270 * 7, longest + " entries were kept");
        assertTrue(log.everything().size() > 7000, log.everything().size() + " entries were written");
        assertSame(replayed(log.everything()), replayed(log.kept()));
    }

    /// O5.
    /// Though none of them runs for as long as a snapshot is in the making.
    @Test
    void repeatedRestartsKeepLogShort() throws Exception {
        List<byte[]> kept = List.of();
        List<byte[]> everything = new ArrayList<>();
        for (int opening = 0; opening < 60; opening++) {
            HeldLog log = new HeldLog(1, kept);
            try (OracleServer server = OracleServer.start(OPTIONS, log);
                    RawClient client = new RawClient(server, SESSION)) {
                work(client, new SplittableRandom(opening), 17);
            }
            everything.addAll(
                    log.everything().subList(kept.size(), log.everything().size()));
            kept = log.kept();
            assertTrue(kept.size() < 270 * 7, kept.size() + " entries are kept");
        }
        assertTrue(everything.size() > 5000, everything.size() + " entries were written");
        assertSame(replayed(everything), replayed(kept));
    }

    /// O5.
    /// Where no row is committed, bytes bound it. What was open stays open, and what has an outcome keeps it.
    @Test
    void readOnlyServerKeepsLogShort() throws Exception {
        HeldLog log = new HeldLog();
        long open;
        long committed;
        try (OracleServer server = OracleServer.start(OPTIONS.withLogBytesMax(1 << 20), log);
                RawClient client = new RawClient(server, SESSION)) {
            committed = client.begin();
            client.commit(committed, 5);
            open = client.begin();
            for (int count = 0; count < 1500; count++) {
                client.ask(Protocol.END, client.begin());
            }
            server.settle();
        }
        // A block for each of 256 entries, an eighth more, and what was in the making.
        assertTrue(log.kept().size() < 300, log.kept().size() + " entries are kept");
        assertTrue(log.everything().size() > 3000);
        StatusOracle again = replayed(log.kept());
        assertSameTransactions(replayed(log.everything()), again);
        assertEquals(again.newestCommit(), again.forgottenTimestamp(), "T_max is where the log begins");
        try (OracleServer server = OracleServer.start(OPTIONS, new HeldLog(1, log.kept()));
                RawClient client = new RawClient(server, SESSION)) {
            assertTrue(client.ask(Protocol.RESOLVE, committed) > committed);
            assertTrue(client.commit(open, 5) > open, "it may commit though the log from before is gone");
        }
    }

    /// O5: a crash may take what was not acknowledged: of that nothing is forgotten.
    @Test
    void unacknowledgedSnapshotFreesNoLog() throws Exception {
        HeldLog log = new HeldLog(1000, List.of());
        try (OracleServer server = OracleServer.start(OPTIONS, log);
                RawClient client = new RawClient(server, SESSION)) {
            work(client, new SplittableRandom(7), 200);
            long[] starts = new long[200]; // in all, more rows than are in memory; none of these is forgotten
            for (int at = 0; at < starts.length; at++) {
                starts[at] = client.begin();
            }
            log.settle(server);
            int before = log.kept().size();
            log.hold();
            for (long start : starts) {
                long appends = log.appends();
                client.out.commit(client.id(), start, new long[] {start}, 1, new long[0], 0);
                client.send();
                log.awaitAppends(appends + 1);
            }
            server.settle();
            assertEquals(before, log.kept().size(), "something was forgotten");
            assertSame(replayed(log.everything()), replayed(log.kept()));
            log.go();
            for (int count = 0; count < starts.length; count++) {
                client.receive();
            }
            log.settle(server);
            assertTrue(log.kept().size() < before - 300, log.kept().size() + " entries are kept");
        }
    }
}
