package cedrat.oracle.server;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;

import cedrat.oracle.protocol.CommitKeys;
import cedrat.oracle.protocol.Protocol;
import cedrat.oracle.server.cluster.RawClient;
import java.net.InetSocketAddress;
import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.LongStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/// The reason of each abort reaches the clients that can read it.
@Timeout(300)
class AbortReasonsTest {
    private static final long SESSION = 11;
    private static final long TABLE = 6;
    private static final int ROWS_LOG2 = 10;

    /// Time passes only by [OracleServer#tick].
    private static final ServerOptions OPTIONS = ServerOptions.DEFAULTS
            .withListen(new InetSocketAddress("127.0.0.1", 0))
            .withRowsLog2(ROWS_LOG2)
            .withSessionTimeout(Duration.ofDays(1));

    private static long commit(RawClient client, long start, long row, CommitKeys keys) throws Exception {
        client.out.commit(client.id(), start, new long[] {row}, 1, new long[0], 0, keys);
        return client.send().receive().value();
    }

    private static CommitKeys scan() {
        CommitKeys keys = new CommitKeys();
        keys.scan(TABLE, "a".getBytes(), new byte[0]);
        return keys;
    }

    private static CommitKeys write() {
        CommitKeys keys = new CommitKeys();
        keys.write(TABLE, "b".getBytes());
        return keys;
    }

    /// Aborts one transaction for each reason; returns their outcomes from the replies to their commits.
    private static Map<Long, Long> abortAll(OracleServer server, RawClient client) throws Exception {
        Map<Long, Long> outcomes = new LinkedHashMap<>();
        long conflict = client.begin();
        long scanned = client.begin();
        long resolved = client.begin();
        long old = client.begin();
        assertEquals(old + 2, commit(client, client.begin(), 1, write()));
        outcomes.put(conflict, client.commit(conflict, 1));
        outcomes.put(scanned, commit(client, scanned, 2, scan()));
        outcomes.put(resolved, client.ask(Protocol.RESOLVE, resolved));
        client.commit(
                client.begin(), LongStream.range(10, 10 + (2 << ROWS_LOG2)).toArray());
        outcomes.put(old, client.commit(old, 3));
        long expired;
        try (RawClient silent = new RawClient(server, SESSION + 1)) {
            expired = silent.begin();
            for (int tick = 0; tick <= Sessions.TICKS; tick++) {
                server.tick();
                client.lowWaterMark();
            }
        }
        outcomes.put(expired, client.commit(expired, 4));
        return outcomes;
    }

    private static long[] statuses(RawClient client, Map<Long, Long> outcomes) throws Exception {
        long[] starts = outcomes.keySet().stream().mapToLong(Long::longValue).toArray();
        client.out.status(client.id(), starts[0], starts, starts.length);
        client.send().receive();
        long[] statuses = LongStream.range(0, client.reply.values())
                .map(index -> client.reply.value((int) index))
                .toArray();
        assertArrayEquals(statuses, client.announce(starts));
        return statuses;
    }

    @Test
    void outcomesOfVersionTwoNameReason() throws Exception {
        HeldLog log = new HeldLog();
        long[] reasons = {
            Protocol.ABORTED_CONFLICT,
            Protocol.ABORTED_SCAN,
            Protocol.ABORTED_RESOLVED,
            Protocol.ABORTED_FORGOTTEN,
            Protocol.ABORTED_EXPIRED
        };
        Map<Long, Long> outcomes;
        try (OracleServer server = OracleServer.start(OPTIONS, log);
                RawClient client = new RawClient(server.address(), SESSION, 2)) {
            outcomes = abortAll(server, client);
            assertArrayEquals(
                    reasons,
                    outcomes.values().stream().mapToLong(Long::longValue).toArray());
            assertArrayEquals(reasons, statuses(client, outcomes));
            try (RawClient first = new RawClient(server.address(), SESSION + 2, 1)) {
                for (long start : outcomes.keySet()) {
                    assertEquals(outcomes.get(start), client.ask(Protocol.RESOLVE, start), "O3");
                    assertEquals(Protocol.ABORTED, first.ask(Protocol.RESOLVE, start), "version 1");
                }
                for (long outcome : statuses(first, outcomes)) {
                    assertEquals(Protocol.ABORTED, outcome, "version 1");
                }
            }
            try (RawClient later = new RawClient(server.address(), SESSION + 3, 9)) {
                assertArrayEquals(reasons, statuses(later, outcomes));
            }
        }
        // The log has the aborts and no reasons.
        try (OracleServer server = OracleServer.start(OPTIONS, new HeldLog(1, log.kept()));
                RawClient client = new RawClient(server.address(), SESSION, 2)) {
            for (long outcome : statuses(client, outcomes)) {
                assertEquals(Protocol.ABORTED, outcome);
            }
        }
    }

    @Test
    void welcomeNamesNewestCommonVersion() throws Exception {
        try (OracleServer server = OracleServer.start(OPTIONS, new HeldLog())) {
            for (int version : List.of(1, 2, 9)) {
                try (RawClient client = new RawClient(server.address(), SESSION + version, version)) {
                    assertEquals(Math.min(version, Protocol.VERSION), client.reply.version());
                }
            }
        }
    }
}
