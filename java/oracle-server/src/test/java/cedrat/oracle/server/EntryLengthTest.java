package cedrat.oracle.server;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cedrat.oracle.log.DamagedEntryException;
import cedrat.oracle.log.EntryWriter;
import cedrat.oracle.log.Log;
import cedrat.oracle.log.OracleReplay;
import cedrat.oracle.log.SnapshotRule;
import cedrat.oracle.log.VolatileLog;
import cedrat.oracle.protocol.CommitKeys;
import cedrat.oracle.protocol.FrameWriter;
import cedrat.oracle.protocol.Protocol;
import cedrat.oracle.protocol.ReplyReader;
import cedrat.oracle.server.cluster.RawClient;
import cedrat.oracle.state.Rows;
import cedrat.oracle.state.StatusOracle;
import io.netty.channel.DefaultEventLoop;
import io.netty.channel.EventLoop;
import java.net.InetSocketAddress;
import java.time.Duration;
import java.util.List;
import java.util.stream.LongStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/// D6: no entry is longer than a log takes, whatever is decided at once.
@Timeout(300)
class EntryLengthTest {
    private static final long SESSION = 5;
    private static final int ROWS_LOG2 = 18;
    private static final int MANY = 100_000;
    private static final int PART = 10_000;

    /// Largest length of a decision on one transaction.
    private static final int DECISION_BYTES_MAX = 11;

    /// Time passes only by [OracleServer#tick].
    private static final ServerOptions OPTIONS = ServerOptions.DEFAULTS
            .withListen(new InetSocketAddress("127.0.0.1", 0))
            .withRowsLog2(ROWS_LOG2)
            .withSessionTimeout(Duration.ofDays(1));

    private static void beginMany(RawClient client) throws Exception {
        for (int begun = 0; begun < MANY; begun += PART) {
            for (int count = 0; count < PART; count++) {
                client.out.plain(Protocol.BEGIN, client.id());
            }
            client.send();
            for (int count = 0; count < PART; count++) {
                client.receive();
            }
        }
    }

    private static void silence(OracleServer server) {
        for (int tick = 0; tick <= Sessions.TICKS; tick++) {
            server.tick();
        }
    }

    private static StatusOracle replayed(List<byte[]> entries) throws DamagedEntryException {
        StatusOracle oracle = new StatusOracle(ROWS_LOG2, new EntryWriter());
        OracleReplay replay = new OracleReplay(oracle);
        for (byte[] entry : entries) {
            replay.entry(entry, 0, entry.length);
        }
        replay.end();
        return oracle;
    }

    private static int longest(List<byte[]> entries) {
        return entries.stream().mapToInt(entry -> entry.length).max().orElseThrow();
    }

    private static void assertInSeveral(List<byte[]> entries) {
        assertTrue(entries.size() > 1, entries.size() + " entries");
        assertTrue(
                longest(entries) <= Persister.BATCH_BYTES_MAX + DECISION_BYTES_MAX,
                "an entry of " + longest(entries) + " bytes");
    }

    /// O5.
    /// A server that ends between two of the entries leaves the others of the session's transactions open,
    /// as if it had ended before.
    @Test
    void aSessionExpiresWithManyTransactions() throws Exception {
        HeldLog log = new HeldLog();
        try (OracleServer server = OracleServer.start(OPTIONS, log);
                RawClient client = new RawClient(server, SESSION)) {
            beginMany(client);
            log.settle(server);
            int before = log.everything().size();
            silence(server);
            log.settle(server);
            List<byte[]> all = log.everything();
            assertInSeveral(all.subList(before, all.size()));
            for (int end = before; end < all.size(); end++) {
                StatusOracle some = replayed(all.subList(0, end));
                assertEquals(MANY, some.open() + some.halfAborted());
            }
            assertEquals(MANY, replayed(all).halfAborted());
        }
    }

    /// Behind a begin in the same batch: each entry says how far timestamps were given out.
    @Test
    void aSessionIsClosedWithManyTransactions() throws Exception {
        HeldLog log = new HeldLog();
        try (OracleServer server = OracleServer.start(OPTIONS, log);
                RawClient client = new RawClient(server, SESSION)) {
            beginMany(client);
            log.settle(server);
            int before = log.everything().size();
            client.out.plain(Protocol.BEGIN, client.id());
            client.out.plain(Protocol.CLOSE, client.id());
            client.send();
            assertEquals(MANY + 1, client.receive().value());
            assertEquals(Protocol.CLOSE, client.receive().request());
            log.settle(server);
            List<byte[]> all = log.everything();
            assertInSeveral(all.subList(before, all.size()));
            assertEquals(MANY + 1, replayed(all).halfAborted());
        }
    }

    /// The reply to one request whose decisions are in several entries comes with the last of them (O6).
    @Test
    void oneRequestCleansUpManyTransactions() throws Exception {
        HeldLog log = new HeldLog();
        try (OracleServer server = OracleServer.start(OPTIONS, log)) {
            try (RawClient client = new RawClient(server, SESSION)) {
                beginMany(client);
                silence(server);
                log.settle(server);
            }
            try (RawClient client = new RawClient(server, SESSION + 1)) {
                log.settle(server);
                int before = log.everything().size();
                log.hold();
                long[] starts = LongStream.rangeClosed(1, MANY).toArray();
                client.out.starts(Protocol.CLEANED, 0, client.id(), starts, 0, MANY);
                client.send();
                log.awaitAppends(before + 1);
                server.settle(); // all of the request is decided
                List<byte[]> entries = log.all();
                entries = entries.subList(entries.size() - (int) (log.appends() - before), entries.size());
                assertInSeveral(entries);
                log.acknowledgeUpTo(log.appends() - 1);
                server.settle();
                assertTrue(client.nothingArrived(), "a reply that the log does not hold");
                log.go();
                assertEquals(MANY, client.receive().value());
            }
        }
        assertEquals(0, replayed(log.everything()).halfAborted());
    }

    /// O5: a full batch has this number of bytes, and at most the last decision beyond them.
    @Test
    void aBatchIsFull() {
        EntryWriter entry = new EntryWriter();
        StatusOracle oracle = new StatusOracle(ROWS_LOG2, entry);
        EventLoop loop = new DefaultEventLoop();
        try {
            SnapshotRule rule = new SnapshotRule(oracle.window(), Long.MAX_VALUE);
            Persister persister = new Persister(loop, oracle, entry, new VolatileLog(), rule, cause -> {}, Fault.NONE);
            persister.begin(() -> {});
            int before = 0;
            while (!persister.isFull()) {
                before = entry.length();
                Rows rows = new Rows();
                LongStream.range(0, 1000).forEach(rows::add);
                oracle.commit(oracle.begin(1), rows, new Rows());
            }
            assertTrue(before < Persister.BATCH_BYTES_MAX, before + " bytes, and not full");
            assertTrue(entry.length() >= Persister.BATCH_BYTES_MAX, entry.length() + " bytes, and full");
        } finally {
            loop.shutdownGracefully();
        }
    }

    private static byte[] frame(FrameWriter out) {
        byte[] frame = new byte[out.length()];
        System.arraycopy(out.bytes(), 0, frame, 0, frame.length);
        return frame;
    }

    /// Commits as long as their frames may be, of rows and of short keys, behind as many others as a batch
    /// takes: entries that are longer than a frame, and that a log takes.
    @Test
    void theLongestCommitsComeBehindOthers() throws Exception {
        HeldLog log = new HeldLog();
        long[] rows = LongStream.rangeClosed(1, Protocol.ROWS_MAX).toArray();
        CommitKeys keys = new CommitKeys();
        while (keys.length() < Protocol.FRAME_BYTES_MAX - 100) {
            keys.write(7, new byte[0]);
        }
        try (OracleServer server = OracleServer.start(OPTIONS, log);
                RawClient client = new RawClient(server, SESSION)) {
            long[] starts = new long[100];
            for (int at = 0; at < starts.length; at++) {
                starts[at] = client.begin();
            }
            log.hold();
            long[] few = LongStream.rangeClosed(1L << 40, (1L << 40) + 1000).toArray();
            FrameWriter out = new FrameWriter(1 << 10);
            for (int at = 0; at < starts.length - 2; at++) {
                for (int row = 0; row < few.length; row++) {
                    few[row] += few.length; // so that none conflicts
                }
                out.commit(client.id(), starts[at], few, few.length, few, 0);
            }
            byte[] others = frame(out);
            int before = (int) log.appends();
            for (int which = 0; which < 2; which++) {
                out.clear();
                long start = starts[starts.length - 1 - which];
                if (which == 0) {
                    out.commit(client.id(), start, rows, rows.length, rows, 0);
                } else {
                    out.commit(client.id(), start, new long[] {1L << 50}, 1, rows, 0, keys);
                }
                byte[] longest = frame(out);
                assertTrue(longest.length > Protocol.FRAME_BYTES_MAX - 200, longest.length + " bytes");
                // So many of the others come first that it is the last of a batch which is almost full.
                int each = others.length / (starts.length - 2);
                int count = Persister.BATCH_BYTES_MAX / each;
                byte[] some = new byte[count * each];
                System.arraycopy(others, which * some.length, some, 0, some.length);
                client.out.plain(Protocol.PING, client.id());
                long appends = log.appends();
                client.send(); // which is on its way to the log, so that what follows gathers
                log.awaitAppends(appends + 1);
                client.send(some).send(longest);
                server.awaitDecided(count + 1);
                log.go();
                for (int reply = 0; reply < count + 2; reply++) {
                    ReplyReader answer = client.receive();
                    if (answer.request() == Protocol.COMMIT) {
                        assertTrue(answer.value() > 0, "it has committed");
                    }
                }
                log.hold();
            }
            log.go();
            log.settle(server);
            List<byte[]> entries =
                    log.everything().subList(before, log.everything().size());
            int longest = longest(entries);
            assertTrue(longest > Protocol.FRAME_BYTES_MAX + Persister.BATCH_BYTES_MAX / 2, longest + " bytes");
            assertTrue(longest <= Persister.ENTRY_BYTES_MAX, longest + " bytes");
            assertTrue(Persister.ENTRY_BYTES_MAX <= Log.ENTRY_BYTES_MAX);
        }
        replayed(log.everything());
    }
}
