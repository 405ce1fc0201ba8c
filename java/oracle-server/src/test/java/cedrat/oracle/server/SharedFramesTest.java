package cedrat.oracle.server;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cedrat.oracle.client.ClientOptions;
import cedrat.oracle.client.ClientThreads;
import cedrat.oracle.client.OracleException;
import cedrat.oracle.client.Pipeline;
import cedrat.oracle.client.RefusedException;
import cedrat.oracle.client.Replies;
import cedrat.oracle.log.Log;
import cedrat.oracle.log.VolatileLog;
import cedrat.oracle.protocol.ErrorCode;
import cedrat.oracle.protocol.FrameWriter;
import cedrat.oracle.protocol.Protocol;
import cedrat.oracle.protocol.ProtocolException;
import cedrat.oracle.protocol.RequestReader;
import cedrat.oracle.server.cluster.RawClient;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/// C7: requests that wait at the same time share a frame, and none waits for others.
@Timeout(300)
class SharedFramesTest {
    private static final ServerOptions OPTIONS = ServerOptions.DEFAULTS
            .withListen(new InetSocketAddress("127.0.0.1", 0))
            .withRowsLog2(20)
            .withSessionTimeout(Duration.ofDays(1));

    /// An answer: the tag of its request, and a number or a failure.
    record Answer(Integer tag, long value, OracleException failure) {}

    private final BlockingQueue<Answer> answers = new LinkedBlockingQueue<>();
    private final ClientThreads threads = new ClientThreads(1);
    private Pipeline<Integer> pipeline;

    private final Replies<Integer> replies = new Replies<>() {
        @Override
        public void begun(Integer tag, long start) {
            answers.add(new Answer(tag, start, null));
        }

        @Override
        public void decided(Integer tag, long start, long outcome) {
            answers.add(new Answer(tag, outcome, null));
        }

        @Override
        public void outcomes(Integer tag, long[] outcomes) {
            answers.add(new Answer(tag, outcomes[0], null));
        }

        @Override
        public void number(Integer tag, long number) {
            answers.add(new Answer(tag, number, null));
        }

        @Override
        public void failed(Integer tag, OracleException why) {
            answers.add(new Answer(tag, 0, why));
        }
    };

    private void open(InetSocketAddress address) throws Exception {
        pipeline = threads.open(
                ClientOptions.of(address).withReconnect(Duration.ofMillis(1), Duration.ofMillis(20)), replies);
        ask(() -> pipeline.identity(-1)); // from its answer on the version is known
        next();
    }

    @AfterEach
    void close() throws Exception {
        ask(() -> pipeline.close());
        threads.close();
    }

    /// Runs something on the pipeline's thread, in one round.
    private void ask(Runnable work) throws Exception {
        CompletableFuture<Void> done = new CompletableFuture<>();
        pipeline.execute(() -> {
            try {
                work.run();
                done.complete(null);
            } catch (RuntimeException | Error problem) {
                done.completeExceptionally(problem);
            }
        });
        done.get();
    }

    private Answer next() throws Exception {
        Answer answer = answers.poll(2, TimeUnit.MINUTES);
        assertTrue(answer != null, "no answer");
        return answer;
    }

    private List<Long> values(int count) throws Exception {
        List<Long> values = new ArrayList<>();
        for (int index = 0; index < count; index++) {
            Answer answer = next();
            assertEquals(index, answer.tag());
            values.add(answer.value());
        }
        return values;
    }

    private Map<Integer, Long> byTag(int count) throws Exception {
        Map<Integer, Long> values = new TreeMap<>();
        for (int index = 0; index < count; index++) {
            Answer answer = next();
            values.put(answer.tag(), answer.value());
        }
        return values;
    }

    private long frames() throws Exception {
        CompletableFuture<Long> frames = new CompletableFuture<>();
        ask(() -> frames.complete(pipeline.frames()));
        return frames.get();
    }

    private static OracleServer start(Log log) throws Exception {
        return OracleServer.start(OPTIONS, log);
    }

    @Test
    void requestsOfOneRoundShareFrame() throws Exception {
        try (OracleServer server = start(new VolatileLog())) {
            open(server.address());
            long before = frames();
            ask(() -> {
                for (int tag = 0; tag < 5; tag++) {
                    pipeline.begin(tag);
                }
            });
            assertEquals(List.of(1L, 2L, 3L, 4L, 5L), values(5));
            assertEquals(before + 1, frames());
            ask(() -> {
                pipeline.commit(0, 1, new long[] {7}, 1);
                pipeline.commit(1, 2, new long[] {7}, 1);
                pipeline.end(2, 3);
                pipeline.abort(3, 4);
                pipeline.begin(4);
                pipeline.begin(5);
            });
            assertEquals(List.of(6L, Protocol.ABORTED_CONFLICT, 3L, Protocol.ABORTED_RESOLVED, 7L, 8L), values(6));
            assertEquals(before + 2, frames());
        }
    }

    @Test
    void longRoundFillsSeveralFrames() throws Exception {
        try (OracleServer server = start(new VolatileLog())) {
            open(server.address());
            int count = 3 * Protocol.BATCH_MAX / 2;
            ask(() -> {
                for (int tag = 0; tag < count; tag++) {
                    pipeline.begin(tag);
                }
            });
            List<Long> starts = values(count);
            long[] rows = new long[50];
            ask(() -> {
                for (int tag = 0; tag < count; tag++) {
                    for (int row = 0; row < rows.length; row++) {
                        rows[row] = 1 + tag * 50L + row;
                    }
                    pipeline.commit(tag, starts.get(tag), rows, rows.length);
                }
            });
            List<Long> commits = values(count);
            for (int tag = 0; tag < count; tag++) {
                assertEquals(count + tag + 1, commits.get(tag));
            }
        }
    }

    /// A report goes with the next request, and in front of one that is no part of a batch.
    @Test
    void cleanTransactionsShareNextFrame() throws Exception {
        try (OracleServer server = start(new VolatileLog())) {
            open(server.address());
            for (long start = 1; start < 60; start += 3) {
                long begun = start;
                ask(() -> pipeline.begin(0));
                assertEquals(List.of(start), values(1));
                long before = frames();
                ask(() -> pipeline.commit(0, begun, new long[] {begun}, 1));
                assertEquals(List.of(start + 1), values(1));
                assertEquals(before + 1, frames());
                ask(() -> pipeline.cleaned(begun));
                assertEquals(before + 1, frames());
                ask(() -> pipeline.begin(0));
                assertEquals(List.of(start + 2), values(1));
                assertEquals(before + 2, frames());
                ask(() -> pipeline.abort(0, begun + 2));
                next();
                assertEquals(begun + 2, server.reading().newest());
                assertEquals(0, server.reading().halfCommitted());
                ask(() -> pipeline.cleaned(begun + 2));
                ask(() -> pipeline.status(0, begun, new long[] {begun + 2}, 1));
                assertEquals(List.of(Protocol.UNKNOWN), values(1));
            }
        }
    }

    /// The server ends before its log has the report: the next one hears it again.
    @Test
    void reportIsRepeatedAfterReconnection() throws Exception {
        HeldLog log = new HeldLog();
        OracleServer first = start(log);
        InetSocketAddress address = first.address();
        try (first) {
            open(address);
            ask(() -> pipeline.begin(0));
            assertEquals(List.of(1L), values(1));
            ask(() -> pipeline.commit(0, 1, new long[] {1}, 1));
            assertEquals(List.of(2L), values(1));
            log.settle(first);
            log.die();
            long before = log.appends();
            ask(() -> {
                pipeline.cleaned(1);
                pipeline.begin(0);
                pipeline.begin(1);
            });
            log.awaitAppends(before + 1);
            assertEquals(0, first.reading().halfCommitted());
        }
        try (OracleServer again = OracleServer.start(OPTIONS.withListen(address), new HeldLog(1, log.kept()))) {
            assertEquals(Set.of(3L, 4L), Set.copyOf(byTag(2).values()));
            ask(() -> pipeline.begin(0));
            assertEquals(List.of(5L), values(1));
            assertEquals(0, again.reading().halfCommitted());
        }
    }

    /// O6l and C1: a batch whose reply was lost is asked again, and decided once.
    @Test
    void requestsOfLostBatchAreRepeated() throws Exception {
        HeldLog log = new HeldLog();
        try (OracleServer server = start(log);
                Proxy proxy = new Proxy(server.address())) {
            open(proxy.address());
            ask(() -> {
                pipeline.begin(0);
                pipeline.begin(1);
            });
            assertEquals(List.of(1L, 2L), values(2));
            log.settle(server);
            log.hold();
            long before = log.appends();
            ask(() -> {
                pipeline.commit(0, 1, new long[] {7}, 1);
                pipeline.commit(1, 2, new long[] {8}, 1);
                pipeline.begin(2);
            });
            log.awaitAppends(before + 1);
            proxy.cut();
            log.go();
            Map<Integer, Long> values = byTag(3);
            assertEquals(3, values.get(0));
            assertEquals(4, values.get(1));
            assertTrue(values.get(2) > 5, "another begin: the first has no client");
            ask(() -> pipeline.lowWaterMark(0));
            assertTrue(next().value() > 5, "and holds nothing back");
        }
    }

    @Test
    void batchCutWithinFrameIsRepeated() throws Exception {
        batchCutWithinFrameIsRepeated(Fault.NONE);
    }

    @Test
    void plantedFaultIsFound() {
        assertThrows(AssertionError.class, () -> batchCutWithinFrameIsRepeated(Fault.RESENT_COMMITS_CONFLICT));
    }

    /// O6l and C1: the batch, or its reply, is cut behind each of some bytes. Each request has one answer, its own.
    private void batchCutWithinFrameIsRepeated(Fault fault) throws Exception {
        try (OracleServer server = OracleServer.start(OPTIONS, new VolatileLog(), fault);
                Proxy proxy = new Proxy(server.address())) {
            open(proxy.address());
            for (int bytes = 0; bytes < 130; bytes += 3) {
                ask(() -> {
                    pipeline.begin(0);
                    pipeline.begin(1);
                    pipeline.begin(2);
                });
                List<Long> starts = values(3);
                boolean isReply = bytes % 2 == 0;
                if (isReply) {
                    proxy.cutRepliesBehind(bytes / 3);
                } else {
                    proxy.cutRequestsBehind(bytes);
                }
                long row = 1 + bytes;
                ask(() -> {
                    pipeline.commit(0, starts.get(0), new long[] {row}, 1);
                    pipeline.commit(1, starts.get(1), new long[] {row}, 1);
                    pipeline.abort(2, starts.get(2));
                    pipeline.begin(3);
                    pipeline.begin(4);
                });
                Map<Integer, Long> values = byTag(5);
                assertEquals(5, values.size(), "an answer for each");
                long committed = values.get(0);
                assertTrue(committed > starts.get(2), committed + " behind " + starts);
                assertEquals(Protocol.ABORTED_CONFLICT, values.get(1));
                assertEquals(Protocol.ABORTED_RESOLVED, values.get(2));
                assertTrue(!values.get(3).equals(values.get(4)));
                long reader = Math.max(values.get(3), values.get(4));
                ask(() -> pipeline.status(0, reader, new long[] {starts.get(0)}, 1));
                assertEquals(committed, next().value());
                ask(() -> {
                    pipeline.end(0, values.get(3));
                    pipeline.end(1, values.get(4));
                });
                byTag(2);
                proxy.cutRepliesBehind(-1);
                proxy.cutRequestsBehind(-1);
            }
            assertEquals(0, pipeline.outstanding());
            assertTrue(answers.isEmpty(), "a second answer");
        }
    }

    @Test
    void refusedBatchAnswersEachRequest() throws Exception {
        try (OracleServer server = start(new VolatileLog())) {
            open(server.address());
            ask(() -> pipeline.begin(0));
            assertEquals(List.of(1L), values(1));
            ask(() -> {
                pipeline.cleaned(99);
                pipeline.commit(0, 1, new long[] {7}, 1);
                pipeline.commit(1, 77, new long[] {8}, 1);
                pipeline.commit(2, 1, new long[] {Protocol.ROW_NONE}, 1);
                pipeline.begin(3);
            });
            assertEquals(2, next().value());
            assertEquals(
                    ErrorCode.TIMESTAMP,
                    assertInstanceOf(RefusedException.class, next().failure()).code());
            assertEquals(
                    ErrorCode.RESERVED_ROW,
                    assertInstanceOf(RefusedException.class, next().failure()).code());
            assertEquals(3, next().value());
            ask(() -> pipeline.begin(0));
            assertEquals(4, next().value());
        }
    }

    /// The kinds of requests that a server of version 3 receives behind the first ping, up to the next.
    private static List<Byte> serve(ServerSocket listening) {
        RequestReader in = new RequestReader(Protocol.ROWS_MAX);
        FrameWriter out = new FrameWriter(64);
        byte[] bytes = new byte[1 << 12];
        List<Byte> kinds = new ArrayList<>();
        int from = 0;
        int end = 0;
        long timestamp = 0;
        int pings = 0;
        try (Socket socket = listening.accept()) {
            while (true) {
                int length = in.next(bytes, from, end);
                if (length == 0) {
                    int count = socket.getInputStream().read(bytes, end, bytes.length - end);
                    if (count < 0) {
                        return kinds;
                    }
                    end += count;
                    continue;
                }
                from += length;
                switch (in.kind()) {
                    case Protocol.HELLO -> out.welcome(in.id(), 3, Integer.MAX_VALUE, 10, 10, 7, 7);
                    case Protocol.ANNOUNCE -> out.values(Protocol.ANNOUNCE, in.id(), 0);
                    case Protocol.PING, Protocol.CLOSE -> out.done(in.kind(), in.id());
                    default -> out.value(in.kind(), in.id(), ++timestamp);
                }
                if (pings == 1 && in.kind() != Protocol.PING) {
                    kinds.add(in.kind());
                }
                pings += in.kind() == Protocol.PING ? 1 : 0;
                socket.getOutputStream().write(out.bytes(), 0, out.length());
                out.clear();
            }
        } catch (IOException | ProtocolException problem) {
            throw new AssertionError(problem);
        }
    }

    @Test
    void serverOfVersion3ReceivesNoBatch() throws Exception {
        try (ServerSocket listening = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
            CompletableFuture<List<Byte>> received =
                    CompletableFuture.supplyAsync(() -> serve(listening), Thread::startVirtualThread);
            open((InetSocketAddress) listening.getLocalSocketAddress());
            ask(() -> {
                pipeline.cleaned(1);
                pipeline.begin(0);
                pipeline.begin(1);
                pipeline.cleaned(2);
            });
            assertEquals(List.of(1L, 2L), values(2));
            ask(() -> pipeline.identity(0));
            next();
            ask(() -> pipeline.close());
            assertEquals(List.of(Protocol.BEGIN, Protocol.BEGIN, Protocol.CLEANED), received.get());
        }
    }

    /// Clients of earlier versions send no batch to this server.
    @Test
    void earlierVersionsUseTheirFrames() throws Exception {
        try (OracleServer server = start(new VolatileLog())) {
            open(server.address());
            for (int version = 1; version < Protocol.VERSION_BATCH; version++) {
                try (RawClient client = new RawClient(server.address(), version, version)) {
                    long start = client.begin();
                    assertEquals(start + 1, client.commit(start, 1));
                }
            }
        }
    }
}
