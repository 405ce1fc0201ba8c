package cedrat.oracle.server;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cedrat.oracle.client.AbortReason;
import cedrat.oracle.client.ClientClosedException;
import cedrat.oracle.client.ClientOptions;
import cedrat.oracle.client.CommitTimestamp;
import cedrat.oracle.client.OracleClient;
import cedrat.oracle.client.Outcome;
import cedrat.oracle.client.Outcome.Visibility;
import cedrat.oracle.client.RefusedException;
import cedrat.oracle.client.StartTimestamp;
import cedrat.oracle.client.UnavailableException;
import cedrat.oracle.log.VolatileLog;
import cedrat.oracle.protocol.ErrorCode;
import cedrat.oracle.protocol.FrameWriter;
import cedrat.oracle.protocol.Protocol;
import cedrat.oracle.server.cluster.History;
import cedrat.oracle.state.StatusOracle;
import java.io.IOException;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Queue;
import java.util.Set;
import java.util.SplittableRandom;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/// Clients and a server over the loopback, in one process.
@Timeout(300)
class ClientAndServerTest {
    private static final ServerOptions OPTIONS = ServerOptions.DEFAULTS
            .withListen(new InetSocketAddress("127.0.0.1", 0))
            .withRowsLog2(12)
            .withSessionTimeout(Duration.ofDays(1));

    /// Nothing of a test depends on these times; they only make it quick.
    private static OracleClient connect(InetSocketAddress address) {
        return OracleClient.open(ClientOptions.of(address)
                .withPatience(Duration.ofMinutes(2))
                .withReconnect(Duration.ofMillis(1), Duration.ofMillis(20)));
    }

    @Test
    void transactionsBeginCommitAndAbort() throws Exception {
        try (OracleServer server = OracleServer.start(OPTIONS, new VolatileLog());
                OracleClient one = connect(server.address());
                OracleClient other = connect(server.address())) {
            StartTimestamp first = one.begin();
            StartTimestamp second = other.begin();
            assertEquals(first, one.lowWaterMark());
            CommitTimestamp at = one.commit(first, 5, 6).commitTimestamp();
            assertEquals(Outcome.Kind.ABORTED, other.commit(second, 6, 7).kind());
            StartTimestamp third = other.begin();
            assertEquals(Visibility.FALSE, other.isCommitted(second, first));
            assertEquals(Visibility.TRUE, other.isCommitted(third, first));
            assertEquals(Visibility.FALSE, other.isCommitted(third, second));
            assertEquals(
                    List.of(Outcome.committed(at), Outcome.aborted(AbortReason.CONFLICT), Outcome.open()),
                    one.status(third, List.of(first, second, third)));
            assertEquals(2, one.cleaned(List.of(first, second)));
            assertEquals(Visibility.RETRY, other.isCommitted(third, first));
            assertEquals(Outcome.Kind.UNKNOWN, one.resolve(first).kind());
            assertEquals(Outcome.Kind.ABORTED, one.resolve(third).kind());
            assertEquals(Outcome.Kind.ABORTED, other.commit(third, 8).kind());

            StartTimestamp readOnly = one.begin();
            assertEquals(Outcome.committed(new CommitTimestamp(readOnly.value())), one.end(readOnly));
            StartTimestamp given = one.begin();
            assertEquals(Outcome.Kind.ABORTED, one.abort(given).kind());
            StartTimestamp serialisable = one.begin();
            StartTimestamp writer = one.begin();
            assertEquals(Outcome.Kind.COMMITTED, one.commit(writer, 100).kind());
            assertEquals(
                    Outcome.Kind.ABORTED,
                    one.commitSerialisable(serialisable, new long[] {101}, new long[] {100})
                            .kind());
        }
    }

    @Test
    void refusalsReachTheClient() throws Exception {
        try (OracleServer server = OracleServer.start(OPTIONS.withRowsMax(2), new VolatileLog());
                OracleClient client = connect(server.address())) {
            StartTimestamp start = client.begin();
            RefusedException why = assertThrows(RefusedException.class, () -> client.commit(start, Protocol.ROW_NONE));
            assertEquals(ErrorCode.RESERVED_ROW, why.code());
            why = assertThrows(RefusedException.class, () -> client.commit(start, 1, 2, 3));
            assertEquals(ErrorCode.TOO_MANY_ROWS, why.code());
            why = assertThrows(RefusedException.class, () -> client.resolve(new StartTimestamp(99)));
            assertEquals(ErrorCode.TIMESTAMP, why.code());
            why = assertThrows(RefusedException.class, () -> client.resolve(new StartTimestamp(-1)));
            assertEquals(ErrorCode.TIMESTAMP, why.code());
            why = assertThrows(RefusedException.class, () -> client.commit(start, new long[Protocol.ROWS_MAX + 1]));
            assertEquals(ErrorCode.TOO_MANY_ROWS, why.code());
            // O7n: the client knows the limit of the server, and checks it before rows are written.
            why = assertThrows(RefusedException.class, () -> client.requireCommittable(3, 0));
            assertEquals(ErrorCode.TOO_MANY_ROWS, why.code());
            why = assertThrows(RefusedException.class, () -> client.requireCommittable(1, Protocol.FRAME_BYTES_MAX));
            assertEquals(ErrorCode.TOO_LONG, why.code());
            client.requireCommittable(2, 1000);
            assertEquals(Outcome.Kind.COMMITTED, client.commit(start, 1, 2).kind());
        }
    }

    /// O3 and C1: the network is cut between the decision and its reply.
    @Test
    void commitIsResentAfterLostReply() throws Exception {
        HeldLog log = new HeldLog();
        try (OracleServer server = OracleServer.start(OPTIONS, log);
                Proxy proxy = new Proxy(server.address());
                OracleClient client = connect(proxy.address())) {
            for (int round = 0; round < 20; round++) {
                StartTimestamp start = client.begin();
                log.hold();
                long before = log.appends();
                CompletableFuture<Outcome> commit = client.commitAsync(start, 5);
                log.awaitAppends(before + 1);
                proxy.cut();
                log.go();
                CommitTimestamp at = commit.join().commitTimestamp();
                assertEquals(Outcome.committed(at), client.resolve(start));
                assertEquals(start.value() + 1, at.value(), "decided once");
            }
        }
    }

    /// C2: the transaction whose begin was answered into a cut network holds nothing back.
    @Test
    void lostBeginReplyLeavesNoOpenTransaction() throws Exception {
        HeldLog log = new HeldLog();
        try (OracleServer server = OracleServer.start(OPTIONS, log);
                Proxy proxy = new Proxy(server.address());
                OracleClient client = connect(proxy.address())) {
            StartTimestamp known = client.begin();
            log.hold();
            long before = log.appends();
            CompletableFuture<StartTimestamp> begin = client.beginAsync();
            log.awaitAppends(before + 1);
            proxy.cut();
            log.go();
            StartTimestamp start = begin.join();
            assertEquals(known.value() + 2, start.value(), "another one");
            assertEquals(known, client.lowWaterMark());
            assertEquals(Outcome.Kind.COMMITTED, client.commit(known, 1).kind());
            assertEquals(start, client.lowWaterMark());
            client.end(start);
            assertEquals(start.value() + 1, client.lowWaterMark().value() - 1);
        }
    }

    /// The server is replaced by one that has its log: open transactions commit there, and a lost reply is
    /// heard there.
    @Test
    void transactionsGoOnWithTheNextServer() throws Exception {
        HeldLog log = new HeldLog();
        HeldLog next;
        CompletableFuture<Outcome> commit;
        StartTimestamp open;
        try (OracleServer server = OracleServer.start(OPTIONS, log);
                Proxy proxy = new Proxy(server.address());
                OracleClient client = connect(proxy.address())) {
            open = client.begin();
            StartTimestamp start = client.begin();
            log.hold();
            long before = log.appends();
            commit = client.commitAsync(start, 5);
            log.awaitAppends(before + 1);
            next = new HeldLog(1, log.all());
            proxy.refuse(true);
            proxy.cut();
            log.go();
            try (OracleServer successor = OracleServer.start(OPTIONS, next)) {
                proxy.leadTo(successor.address());
                proxy.refuse(false);
                CommitTimestamp at = commit.join().commitTimestamp();
                assertEquals(Outcome.committed(at), client.resolve(start));
                for (int tick = 0; tick < 3 * Sessions.TICKS; tick++) {
                    successor.tick();
                    client.lowWaterMark();
                }
                assertTrue(client.commit(open, 6).commitTimestamp().compareTo(at) > 0);
            }
        }
    }

    /// C4: of three addresses one refuses, one takes connections and says nothing, and one serves.
    @Test
    void aClientFindsTheServerThatAnswers() throws Exception {
        try (OracleServer server = OracleServer.start(OPTIONS, new HeldLog());
                ServerSocket silent = new ServerSocket(0, 100, InetAddress.getLoopbackAddress())) {
            InetSocketAddress unreachable;
            try (ServerSocket closed = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
                unreachable = (InetSocketAddress) closed.getLocalSocketAddress();
            }
            InetSocketAddress sleeping = (InetSocketAddress) silent.getLocalSocketAddress();
            try (OracleClient client = OracleClient.open(ClientOptions.of(unreachable, sleeping, server.address())
                    .withPatience(Duration.ofMinutes(2))
                    .withSilence(Duration.ofMillis(100)))) {
                assertEquals(
                        Outcome.Kind.COMMITTED, client.commit(client.begin(), 5).kind());
            }
        }
    }

    /// C4: a server that has answered falls silent, and another has its log.
    @Test
    void clientLeavesUnresponsiveServer() throws Exception {
        InetSocketAddress next;
        try (ServerSocket reserved = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
            next = (InetSocketAddress) reserved.getLocalSocketAddress();
        }
        HeldLog log = new HeldLog();
        try (OracleServer server = OracleServer.start(OPTIONS, log);
                OracleClient client = OracleClient.open(ClientOptions.of(server.address(), next)
                        .withPatience(Duration.ofMinutes(2))
                        .withSilence(Duration.ofMillis(100))
                        .withReconnect(Duration.ofMillis(1), Duration.ofMillis(20)))) {
            StartTimestamp open = client.begin();
            log.hold();
            CompletableFuture<Outcome> commit = client.commitAsync(open, 5);
            try (OracleServer successor = OracleServer.start(OPTIONS.withListen(next), new HeldLog(1, log.kept()))) {
                assertEquals(next.getPort(), successor.address().getPort());
                assertEquals(
                        Outcome.Kind.COMMITTED,
                        commit.get(200, TimeUnit.SECONDS).kind());
            }
        }
    }

    /// A server that refuses every connection for this reason.
    private static ServerSocket refusing(ErrorCode code) throws IOException {
        ServerSocket socket = new ServerSocket(0, 10, InetAddress.getLoopbackAddress());
        FrameWriter refusal = new FrameWriter(64);
        refusal.error(0, Protocol.FLAG_CLOSING, code, "so");
        Thread.ofPlatform().daemon().start(() -> {
            while (!socket.isClosed()) {
                try (Socket client = socket.accept()) {
                    client.getInputStream().read();
                    client.getOutputStream().write(refusal.bytes(), 0, refusal.length());
                    client.shutdownOutput();
                    client.getInputStream().transferTo(OutputStream.nullOutputStream());
                } catch (IOException gone) {
                    // the client, or this
                }
            }
        });
        return socket;
    }

    /// C1: also a connection that was refused is one that was lost, where another may fare better.
    @Test
    void refusedClientReconnects() throws Exception {
        for (ErrorCode code : List.of(ErrorCode.EXPIRED, ErrorCode.HELLO, ErrorCode.TAKEN_OVER)) {
            try (OracleServer server = OracleServer.start(OPTIONS, new VolatileLog());
                    ServerSocket refusing = refusing(code);
                    OracleClient client = OracleClient.open(
                            ClientOptions.of((InetSocketAddress) refusing.getLocalSocketAddress(), server.address())
                                    .withPatience(Duration.ofMinutes(2)))) {
                assertEquals(
                        Outcome.Kind.COMMITTED, client.commit(client.begin(), 5).kind(), code.toString());
            }
        }
    }

    @Test
    void permanentlyRefusedClientCloses() throws Exception {
        try (ServerSocket refusing = refusing(ErrorCode.VERSION);
                OracleClient client =
                        OracleClient.open(ClientOptions.of((InetSocketAddress) refusing.getLocalSocketAddress()))) {
            assertThrows(ClientClosedException.class, client::begin);
        }
    }

    /// C3: the outcome stays unknown; it is never guessed.
    @Test
    void patienceEnds() throws Exception {
        HeldLog log = new HeldLog();
        try (OracleServer server = OracleServer.start(OPTIONS, log);
                Proxy proxy = new Proxy(server.address());
                OracleClient client = OracleClient.open(ClientOptions.of(proxy.address())
                        .withPatience(Duration.ofMillis(500))
                        .withReconnect(Duration.ofMillis(1), Duration.ofMillis(20)))) {
            StartTimestamp start = untilAnswered(client::begin);
            log.hold();
            long before = log.appends();
            CompletableFuture<Outcome> commit = client.commitAsync(start, 5);
            log.awaitAppends(before + 1);
            proxy.refuse(true);
            proxy.cut();
            ExecutionException failed = assertThrows(ExecutionException.class, () -> commit.get(200, TimeUnit.SECONDS));
            assertInstanceOf(UnavailableException.class, failed.getCause());
            assertThrows(UnavailableException.class, client::begin);
            log.go();
            proxy.refuse(false);
            assertEquals(
                    Outcome.Kind.COMMITTED,
                    untilAnswered(() -> client.resolve(start)).kind());
        }
    }

    private static <T> T untilAnswered(java.util.function.Supplier<T> request) {
        while (true) {
            try {
                return request.get();
            } catch (UnavailableException again) {
                // the machine is busy, or the client has not noticed yet
            }
        }
    }

    /// A client that was thrown out for its silence hears so of its transactions, and begins others.
    @Test
    void anExpiredClientGoesOn() throws Exception {
        try (OracleServer server = OracleServer.start(OPTIONS, new HeldLog());
                OracleClient client = connect(server.address())) {
            StartTimestamp start = client.begin();
            for (int tick = 0; tick <= Sessions.TICKS; tick++) {
                server.tick();
            }
            assertEquals(Outcome.Kind.ABORTED, client.commit(start, 5).kind());
            assertEquals(
                    Outcome.Kind.COMMITTED, client.commit(client.begin(), 5).kind());
        }
    }

    /// O8c.
    @Test
    void readerOfPrunedSnapshotDoesNotCommit() throws Exception {
        endForgottenReader(Fault.NONE);
        assertThrows(AssertionError.class, () -> endForgottenReader(Fault.COMMITS_PRUNED_READERS));
    }

    private static void endForgottenReader(Fault fault) throws Exception {
        while (!endPrunedReader(fault)) {
            // Its client came back before the sweep, and its new session has kept the abort.
        }
    }

    /// The session of the reader expires, its snapshot is pruned, and a sweep may make the oracle forget its abort.
    /// Returns whether it did.
    private static boolean endPrunedReader(Fault fault) throws Exception {
        try (OracleServer server = OracleServer.start(OPTIONS, new VolatileLog(), fault);
                OracleClient silent = connect(server.address());
                OracleClient other = connect(server.address())) {
            StartTimestamp reader = silent.begin();
            other.commit(other.begin(), 5);
            while (other.lowWaterMark().value() <= reader.value()) {
                server.tick();
            }
            StartTimestamp mark = other.begin();
            other.end(mark);
            boolean isForgotten = other.swept(StatusOracle.UNNAMED, mark) == 1;
            assertEquals(Outcome.Kind.ABORTED, silent.end(reader).kind());
            return isForgotten;
        }
    }

    /// A client that asks for nothing makes itself heard by itself.
    @Test
    void aClientPings() throws Exception {
        HeldLog log = new HeldLog();
        try (OracleServer server = OracleServer.start(OPTIONS.withSessionTimeout(Duration.ofSeconds(2)), log);
                OracleClient client = connect(server.address())) {
            StartTimestamp start = client.begin();
            log.awaitAppends(log.appends() + 3); // pings, or what an expiry appends
            assertEquals(Outcome.Kind.COMMITTED, client.commit(start, 5).kind());
        }
    }

    @Test
    void closingFailsPendingCallsAndAbortsTransactions() throws Exception {
        HeldLog log = new HeldLog();
        try (OracleServer server = OracleServer.start(OPTIONS, log);
                OracleClient witness = connect(server.address())) {
            OracleClient client = connect(server.address());
            StartTimestamp open = client.begin();
            StartTimestamp start = client.begin();
            log.hold();
            long before = log.appends();
            CompletableFuture<Outcome> commit = client.commitAsync(start, 5);
            log.awaitAppends(before + 1);
            Thread closing = Thread.ofPlatform().start(client::close);
            ExecutionException failed = assertThrows(ExecutionException.class, () -> commit.get(200, TimeUnit.SECONDS));
            assertInstanceOf(ClientClosedException.class, failed.getCause());
            log.go();
            closing.join();
            assertInstanceOf(
                    ClientClosedException.class,
                    assertThrows(ExecutionException.class, () -> client.beginAsync()
                                    .get())
                            .getCause());
            StartTimestamp reader = witness.begin();
            assertEquals(
                    Outcome.Kind.ABORTED,
                    witness.status(reader, List.of(open)).getFirst().kind());
            assertEquals(
                    Outcome.Kind.COMMITTED,
                    witness.status(reader, List.of(start)).getFirst().kind());
        }
    }

    // ---- histories --------------------------------------------------------------------------------------------------

    /// Rows in memory: whose versions there are of each. A version is there before its transaction commits.
    private static final class Table {
        final Map<Long, Queue<Long>> rows = new ConcurrentHashMap<>();

        Queue<Long> versions(long row) {
            return rows.computeIfAbsent(row, none -> new ConcurrentLinkedQueue<>());
        }

        /// Returns the writer of the version that a transaction sees: the newest commit before it began.
        long read(OracleClient oracle, StartTimestamp reader, long row) {
            while (true) {
                List<StartTimestamp> writers =
                        versions(row).stream().map(StartTimestamp::new).toList();
                if (writers.isEmpty()) {
                    return History.NOTHING;
                }
                long seen = History.NOTHING;
                long newest = 0;
                boolean retry = false;
                List<Outcome> outcomes = oracle.status(reader, writers);
                for (int index = 0; index < writers.size(); index++) {
                    retry |= outcomes.get(index).kind() == Outcome.Kind.UNKNOWN;
                    Outcome outcome = outcomes.get(index);
                    if (outcome.visibleTo(reader) == Visibility.TRUE
                            && outcome.commitTimestamp().value() > newest) {
                        newest = outcome.commitTimestamp().value();
                        seen = writers.get(index).value();
                    }
                }
                if (!retry) {
                    return seen;
                }
            }
        }
    }

    /// Clients read and write few rows side by side, while the network is cut now and then; what they have
    /// seen is snapshot isolation.
    @Test
    void historiesAreSnapshotIsolated() throws Exception {
        for (int networkThreads = 0; networkThreads < 2; networkThreads++) {
            HeldLog log = new HeldLog(2, List.of());
            History history = new History();
            Table table = new Table();
            try (OracleServer server = OracleServer.start(OPTIONS.withNetworkThreads(networkThreads), log);
                    Proxy proxy = new Proxy(server.address())) {
                List<Thread> threads = new ArrayList<>();
                List<Throwable> failures = new ArrayList<>();
                for (int number = 0; number < 6; number++) {
                    SplittableRandom random = new SplittableRandom(number);
                    Thread thread = new Thread(() -> run(proxy.address(), table, history, random));
                    thread.setUncaughtExceptionHandler((which, failure) -> {
                        synchronized (failures) {
                            failures.add(failure);
                        }
                    });
                    thread.start();
                    threads.add(thread);
                }
                // Cut by what has happened, not by time.
                for (int cutAt = 150; cutAt <= 600; cutAt += 150) {
                    history.await(cutAt);
                    proxy.cut();
                }
                for (Thread thread : threads) {
                    thread.join();
                }
                assertEquals(List.of(), failures);
            }
            history.check();
            assertTrue(
                    history.committed() > 200 && history.aborted() > 50,
                    history.committed() + " committed, " + history.aborted() + " aborted");
        }
    }

    private static void run(InetSocketAddress address, Table table, History history, SplittableRandom random) {
        try (OracleClient oracle = connect(address)) {
            for (int count = 0; count < 150; count++) {
                StartTimestamp start = oracle.begin();
                Map<Long, Long> reads = new HashMap<>();
                Set<Long> writes = new HashSet<>();
                for (int read = random.nextInt(3); read > 0; read--) {
                    long row = 1 + random.nextLong(12);
                    reads.put(row, table.read(oracle, start, row));
                }
                for (int write = random.nextInt(3); write > 0; write--) {
                    writes.add(1 + random.nextLong(12));
                }
                writes.forEach(row -> table.versions(row).add(start.value()));
                Outcome outcome = random.nextInt(8) == 0
                        ? oracle.abort(start)
                        : oracle.commit(
                                start,
                                writes.stream().mapToLong(Long::longValue).toArray());
                long commit = outcome.kind() == Outcome.Kind.COMMITTED
                        ? outcome.commitTimestamp().value()
                        : 0;
                if (commit == 0) {
                    writes.forEach(row -> table.versions(row).remove(start.value()));
                    oracle.cleaned(List.of(start));
                }
                history.add(new History.Transaction(start.value(), commit, writes, reads));
            }
        }
    }

    /// O4: a sweep of more transactions than the server forgets at a time.
    @Test
    void aSweepOfManyTransactions() throws Exception {
        try (OracleServer server = OracleServer.start(OPTIONS, new VolatileLog());
                OracleClient oracle = connect(server.address())) {
            int count = 9_999; // one more may be outstanding
            try (OracleClient dying = connect(server.address())) {
                for (int begun = 0; begun < count; begun++) {
                    dying.beginAsync();
                }
                dying.begin();
            }
            StartTimestamp mark = oracle.begin();
            assertEquals(count + 1, oracle.swept(0, mark));
            assertEquals(0, oracle.swept(0, mark));
            assertThrows(RefusedException.class, () -> oracle.swept(0, new StartTimestamp(mark.value() + 1)));
        }
    }

    /// O4f: also after a recovery from the log.
    @Test
    void retiredNamespaceHoldsNothingBack() throws Exception {
        HeldLog log = new HeldLog();
        StartTimestamp committed;
        try (OracleServer server = OracleServer.start(OPTIONS, log);
                OracleClient oracle = connect(server.address())) {
            oracle.use(7);
            try (OracleClient dying = connect(server.address())) {
                committed = dying.begin();
                dying.commit(committed, 1);
            }
            assertEquals(0, oracle.swept(0, oracle.begin()), "7 was not swept");
            oracle.retire(7);
            assertEquals(1, oracle.swept(0, oracle.begin()));
        }
        try (OracleServer next = OracleServer.start(OPTIONS, new HeldLog(1, log.all()));
                OracleClient oracle = connect(next.address())) {
            try (OracleClient dying = connect(next.address())) {
                dying.commit(dying.begin(), 1);
            }
            assertEquals(1, oracle.swept(0, oracle.begin()), "7 is not there again");
        }
    }

    /// O2: clients begin more than memory has room for, die, and leave it all to a sweep; the next server has
    /// it from the log.
    @Test
    void outcomesBeyondMemoryLimitAreSpilled(@TempDir Path scratch) throws Exception {
        ServerOptions tight = OPTIONS.withOutcomes(1 << 20, scratch);
        HeldLog log = new HeldLog(2, List.of());
        int count = 9_999;
        int clients = 10;
        try (OracleServer server = OracleServer.start(tight, log)) {
            for (int client = 0; client < clients; client++) {
                try (OracleClient dying = connect(server.address())) {
                    for (int begun = 1; begun < count; begun++) {
                        dying.beginAsync();
                    }
                    dying.begin();
                }
            }
            assertTrue(
                    server.reading().spilled() > count,
                    "spilled: " + server.reading().spilled());
            assertTrue(server.reading().spilledBytes() > 20L * count);
            assertTrue(
                    server.reading().outcomeBytes() < 3 << 20, server.reading().outcomeBytes() + " bytes");
            assertEquals(clients * count, server.reading().halfAborted());
        }
        try (OracleServer server = OracleServer.start(tight, new HeldLog(1, log.kept()));
                OracleClient oracle = connect(server.address())) {
            assertTrue(
                    server.reading().spilled() > count,
                    "spilled: " + server.reading().spilled());
            StartTimestamp reader = oracle.begin();
            List<StartTimestamp> some = new ArrayList<>();
            for (int number = 1; number < clients * count; number += 997) {
                some.add(new StartTimestamp(number));
            }
            oracle.status(reader, some).forEach(outcome -> assertEquals(Outcome.Kind.ABORTED, outcome.kind()));
            assertTrue(server.reading().spilledReads() > 0);
            for (int tick = 0; tick <= Sessions.TICKS; tick++) {
                server.tick();
                oracle.lowWaterMark();
            }
            assertEquals(clients * count, oracle.swept(0, oracle.begin()));
            assertEquals(0, server.reading().spilled());
            assertEquals(0, server.reading().spilledBytes());
        }
    }

    /// The checker would have noticed.
    @Test
    void nonSnapshotIsolationHistoriesAreDetected() {
        History.of(History.transaction(1, 2, 7, 0), History.transaction(3, 4, 7, 1), History.transaction(5, 0, 7, 3))
                .check();
        List<History> wrong = List.of(
                History.of(History.transaction(1, 3, 7, 0), History.transaction(2, 4, 7, 0)), // a lost update
                History.of(History.transaction(1, 2, 7, 0), History.transaction(3, 4, 7, 0)), // not the newest
                History.of(
                        History.transaction(1, 2, 7, 0),
                        History.transaction(3, 0, 7, 5),
                        History.transaction(5, 6, 7, 1)), // from the future
                History.of(History.transaction(1, 0, 7, 0), History.transaction(2, 3, 7, 1)), // of what aborted
                History.of(History.transaction(1, 2, 7, 0), History.transaction(3, 2, 8, 0))); // a timestamp twice
        for (History history : wrong) {
            assertThrows(AssertionError.class, history::check);
        }
    }
}
