package cedrat.oracle.server;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cedrat.oracle.log.VolatileLog;
import cedrat.oracle.protocol.CommitKeys;
import cedrat.oracle.protocol.ErrorCode;
import cedrat.oracle.protocol.FrameWriter;
import cedrat.oracle.protocol.Protocol;
import cedrat.oracle.server.cluster.RawClient;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.SplittableRandom;
import java.util.stream.LongStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/// Several requests in one frame: decided as each by itself, or refused together.
@Timeout(300)
class BatchFrameTest {
    private static final long SESSION = 5;

    private static final ServerOptions OPTIONS = ServerOptions.DEFAULTS
            .withListen(new InetSocketAddress("127.0.0.1", 0))
            .withRowsLog2(20)
            .withSessionTimeout(Duration.ofDays(1));

    /// Requests of a batch that is being made.
    private static final class Batch {
        final List<FrameWriter> commits = new ArrayList<>();
        final List<Long> ends = new ArrayList<>();
        final List<Long> aborts = new ArrayList<>();
        final List<Long> cleaned = new ArrayList<>();
        int begins;

        Batch commit(long start, long... rows) {
            return commit(start, rows, new CommitKeys());
        }

        Batch commit(long start, long[] rows, CommitKeys keys) {
            FrameWriter commit = new FrameWriter(64);
            commit.commit(0, start, rows, rows.length, rows, 0, keys);
            commits.add(commit);
            return this;
        }

        Batch end(long start) {
            ends.add(start);
            return this;
        }

        Batch abort(long start) {
            aborts.add(start);
            return this;
        }

        Batch cleaned(long start) {
            cleaned.add(start);
            return this;
        }

        Batch begin(int count) {
            begins += count;
            return this;
        }

        void sendTo(RawClient client) throws Exception {
            FrameWriter out = client.out;
            int at = out.beginBatch(client.id(), commits.size(), ends.size(), aborts.size(), cleaned.size(), begins);
            ends.forEach(out::batchStart);
            aborts.forEach(out::batchStart);
            cleaned.forEach(out::batchStart);
            commits.forEach(out::batchCommit);
            out.endBatch(at);
            client.send();
        }

        long[] answer(RawClient client) throws Exception {
            sendTo(client);
            client.receive();
            assertEquals(Protocol.BATCH, client.reply.request());
            return LongStream.range(0, client.reply.values())
                    .map(index -> client.reply.value((int) index))
                    .toArray();
        }
    }

    private static RawClient connect(OracleServer server) throws Exception {
        return new RawClient(server.address(), SESSION, Protocol.VERSION);
    }

    /// O6k.
    @Test
    void requestsAreDecidedInTheirOrder() throws Exception {
        try (OracleServer server = OracleServer.start(OPTIONS, new VolatileLog());
                RawClient client = connect(server)) {
            assertArrayEquals(new long[] {1}, new Batch().begin(6).answer(client));
            long[] answers = new Batch()
                    .begin(2)
                    .cleaned(1)
                    .abort(4)
                    .end(3)
                    .commit(1, 7, 8)
                    .commit(2, 8)
                    .commit(5)
                    .answer(client);
            long[] expected = {7, Protocol.ABORTED_CONFLICT, 5, 3, Protocol.ABORTED_RESOLVED, 8};
            assertArrayEquals(expected, answers);
            assertEquals(Protocol.UNKNOWN, client.status(8, 1), "it was reported as clean");
            assertEquals(Protocol.OPEN, client.status(8, 9));
            assertEquals(10, client.commit(9, 7), "it has begun after the commit in its batch");
            assertEquals(0, new Batch().cleaned(9).answer(client).length);
            assertEquals(Protocol.UNKNOWN, client.status(8, 9));
        }
    }

    /// Keys of tables whose scans are checked.
    @Test
    void scannedRangesOfBatchesAreChecked() throws Exception {
        try (OracleServer server = OracleServer.start(OPTIONS, new VolatileLog());
                RawClient client = connect(server)) {
            new Batch().begin(3).answer(client);
            CommitKeys writes = new CommitKeys();
            writes.write(1, "b".getBytes());
            CommitKeys scans = new CommitKeys();
            scans.scan(1, "a".getBytes(), "c".getBytes());
            CommitKeys scansOther = new CommitKeys();
            scansOther.scan(1, "c".getBytes(), "d".getBytes());
            long[] answers = new Batch()
                    .commit(1, new long[] {1}, writes)
                    .commit(2, new long[] {2}, scans)
                    .commit(3, new long[] {3}, scansOther)
                    .answer(client);
            assertArrayEquals(new long[] {4, Protocol.ABORTED_SCAN, 5}, answers);
        }
    }

    /// O3.
    @Test
    void repeatedBatchGetsTheSameOutcomes() throws Exception {
        try (OracleServer server = OracleServer.start(OPTIONS, new VolatileLog());
                RawClient client = connect(server)) {
            new Batch().begin(3).answer(client);
            Batch batch = new Batch().commit(1, 7).commit(2, 7).end(3);
            assertArrayEquals(batch.answer(client), batch.answer(client));
            assertEquals(5, client.begin(), "each was decided once");
        }
    }

    /// O6k.
    @Test
    void invalidRequestRefusesItsBatch() throws Exception {
        try (OracleServer server = OracleServer.start(OPTIONS.withRowsMax(2), new VolatileLog());
                RawClient client = connect(server)) {
            new Batch().begin(2).answer(client);
            new Batch().commit(1, 7).commit(99, 8).begin(1).sendTo(client);
            client.refused(ErrorCode.TIMESTAMP, false);
            new Batch().commit(1, 7).cleaned(99).sendTo(client);
            client.refused(ErrorCode.TIMESTAMP, false);
            new Batch().commit(1, 7).commit(2, 8, 9, 10).sendTo(client);
            client.refused(ErrorCode.TOO_MANY_ROWS, false);
            new Batch().commit(1, Protocol.ROW_NONE).begin(1).sendTo(client);
            client.refused(ErrorCode.RESERVED_ROW, false);
            assertEquals(Protocol.OPEN, client.status(2, 1), "nothing was decided");
            assertEquals(3, client.begin(), "nothing has begun");
        }
    }

    /// O6: none of the answers leaves before the log has all decisions.
    @Test
    void repliesOfBatchWaitForTheLog() throws Exception {
        HeldLog log = new HeldLog();
        try (OracleServer server = OracleServer.start(OPTIONS, log);
                RawClient client = connect(server)) {
            new Batch().begin(1).answer(client);
            log.settle(server);
            log.hold();
            long before = log.appends();
            new Batch().commit(1, 7).begin(1).sendTo(client);
            log.awaitAppends(before + 1);
            server.settle();
            assertTrue(client.nothingArrived(), "a reply that the log does not hold");
            log.go();
            client.receive();
            assertEquals(2, client.reply.value(0));
            assertEquals(3, client.reply.value(1));
        }
    }

    /// Some bytes of a batch are changed behind its length: it is decided, or refused, and others are served.
    @Test
    void changedBatchesLeaveOthersAlone() throws Exception {
        try (OracleServer server = OracleServer.start(OPTIONS.withRowsMax(100), new VolatileLog());
                RawClient witness = new RawClient(server, SESSION + 1)) {
            new Batch().begin(9).answer(witness);
            CommitKeys keys = new CommitKeys();
            keys.write(1, "b".getBytes());
            keys.write(2, new byte[40]);
            keys.scan(1, "a".getBytes(), "c".getBytes());
            keys.scan(2, "z".getBytes(), "a".getBytes());
            for (int seed = 0; seed < 400; seed++) {
                SplittableRandom random = new SplittableRandom(seed);
                try (RawClient client = connect(server)) {
                    client.send(changedBatch(client, keys, random));
                    client.out.plain(Protocol.CLOSE, 0);
                    client.send();
                    while (client.receive().request() != Protocol.CLOSE) {
                        // decided, or refused
                    }
                } catch (IOException closed) {
                    // by the server, or within the reply of a CLOSE that the changed batch was part of
                }
                long start = witness.begin();
                assertEquals(start, witness.ask(Protocol.END, start), "seed " + seed);
            }
            assertFalse(server.stopped().toCompletableFuture().isDone());
        }
    }

    private static byte[] changedBatch(RawClient client, CommitKeys keys, SplittableRandom random) {
        FrameWriter commit = new FrameWriter(64);
        int at = client.out.beginBatch(client.id(), 3, 2, 1, 2, 3);
        for (int start = 1; start <= 5; start++) {
            client.out.batchStart(1 + random.nextInt(9));
        }
        for (int count = 0; count < 3; count++) {
            long[] rows = {1 + random.nextInt(3), 9, 9};
            commit.clear();
            commit.commit(
                    0, 1 + random.nextInt(9), rows, 3, rows, random.nextInt(4), count == 0 ? new CommitKeys() : keys);
            client.out.batchCommit(commit);
        }
        client.out.endBatch(at);
        byte[] bytes = Arrays.copyOf(client.out.bytes(), client.out.length());
        client.out.clear();
        for (int changes = random.nextInt(4); changes > 0; changes--) {
            bytes[random.nextInt(Integer.BYTES, bytes.length)] = (byte) random.nextInt(256);
        }
        return bytes;
    }

    /// D6: the decisions of a batch may fill several entries of the log, between any two commits.
    @Test
    void longBatchFillsSeveralEntries() throws Exception {
        HeldLog log = new HeldLog();
        try (OracleServer server = OracleServer.start(OPTIONS, log);
                RawClient client = connect(server)) {
            int count = 20;
            int rows = 6000;
            new Batch().begin(count).answer(client);
            log.settle(server);
            int before = log.everything().size();
            Batch batch = new Batch();
            for (long start = 1; start <= count; start++) {
                batch.commit(
                        start,
                        LongStream.rangeClosed(start * rows, start * rows + rows - 1)
                                .toArray());
            }
            long[] expected = LongStream.rangeClosed(count + 1, 2 * count).toArray();
            assertArrayEquals(expected, batch.answer(client));
            log.settle(server);
            List<byte[]> entries =
                    log.everything().subList(before, log.everything().size());
            assertTrue(entries.size() > 2, entries.size() + " entries");
            int longest = entries.stream().mapToInt(entry -> entry.length).max().orElseThrow();
            assertTrue(longest <= Persister.BATCH_BYTES_MAX + 8 * rows + 32, longest + " bytes");
        }
        try (OracleServer again = OracleServer.start(OPTIONS, new HeldLog(1, log.kept()));
                RawClient client = connect(again)) {
            assertEquals(41, client.begin());
            assertEquals(21, client.status(41, 1));
            assertEquals(40, client.status(41, 20));
        }
    }
}
