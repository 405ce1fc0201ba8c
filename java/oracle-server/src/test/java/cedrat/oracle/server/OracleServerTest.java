package cedrat.oracle.server;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cedrat.oracle.log.DamagedEntryException;
import cedrat.oracle.log.EntryReader;
import cedrat.oracle.log.Log;
import cedrat.oracle.log.SnapshotReader;
import cedrat.oracle.log.VolatileLog;
import cedrat.oracle.protocol.ErrorCode;
import cedrat.oracle.protocol.Protocol;
import cedrat.oracle.protocol.ProtocolException;
import cedrat.oracle.protocol.ReplyReader;
import cedrat.oracle.server.cluster.RawClient;
import cedrat.oracle.state.Decisions;
import cedrat.oracle.state.NoDecisions;
import cedrat.oracle.state.Rows;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.SplittableRandom;
import java.util.TreeMap;
import java.util.concurrent.CompletionException;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/// The server, frame by frame, on a log that the test controls.
@Timeout(300)
class OracleServerTest {
    private static final long SESSION = 11;

    /// Time passes only by [OracleServer#tick] and [OracleServer#helloTick].
    private static final ServerOptions OPTIONS = ServerOptions.DEFAULTS
            .withListen(new InetSocketAddress("127.0.0.1", 0))
            .withRowsLog2(10)
            .withSessionTimeout(Duration.ofDays(1))
            .withHelloTimeout(Duration.ofDays(1));

    private static final String FROM_BEFORE = "D1: an answer by an append from before";

    private static OracleServer start(Log log) throws IOException, DamagedEntryException {
        return OracleServer.start(OPTIONS, log);
    }

    // ---- O6 ---------------------------------------------------------------------------------------------------------

    /// One request of each kind, also such that are refused; none of them closes the connection.
    private static List<Runnable> requests(RawClient client, long start) {
        long[] starts = {start};
        long[] rows = {1, 2};
        return List.of(
                () -> client.out.plain(Protocol.BEGIN, client.id()),
                () -> client.out.status(client.id(), start, starts, 1),
                () -> client.out.commit(client.id(), start, rows, 2, rows, 1),
                () -> client.out.commit(client.id(), start, rows, 2, rows, 0),
                () -> client.out.start(Protocol.RESOLVE, client.id(), start),
                () -> client.out.start(Protocol.ABORT, client.id(), start),
                () -> client.out.start(Protocol.END, client.id(), start),
                () -> client.out.starts(Protocol.CLEANED, 0, client.id(), starts, 0, 1),
                () -> client.out.starts(Protocol.ANNOUNCE, 1, client.id(), starts, 0, 1),
                () -> client.out.plain(Protocol.LOW_WATER, client.id()),
                () -> client.out.swept(client.id(), 0, start, 1),
                () -> client.out.plain(Protocol.PING, client.id()),
                () -> client.out.plain((byte) 99, client.id()),
                () -> client.out.start(Protocol.RESOLVE, client.id(), 1_000_000),
                () -> client.out.commit(client.id(), start, new long[] {0}, 1, rows, 0));
    }

    private static void everyReplyWaitsForTheLog(ServerOptions options, Fault fault)
            throws IOException, DamagedEntryException, ProtocolException, InterruptedException {
        HeldLog log = new HeldLog();
        try (OracleServer server = OracleServer.start(options, log, fault);
                RawClient client = new RawClient(server, SESSION)) {
            long start = client.begin();
            server.settle(); // its append lies behind us, even if a fault has answered before it
            for (Runnable request : requests(client, start)) {
                server.settle(); // with a planted fault, an answer may come before its append
                log.hold();
                long before = log.appends();
                request.run();
                client.send();
                log.awaitAppends(before + 1);
                server.settle();
                assertTrue(client.nothingArrived(), "D1: an answer without the log");
                log.go();
                client.receive();
            }
        }
    }

    /// An append that was under way when the request arrived does not count: whether the log has room for
    /// another one beside it, or the request waits for its turn.
    private static void anAppendFromBeforeAnswersNothing(ServerOptions options, int appendsMax, Fault fault)
            throws IOException, DamagedEntryException, ProtocolException, InterruptedException {
        HeldLog log = new HeldLog(appendsMax, List.of());
        try (OracleServer server = OracleServer.start(options, log, fault);
                RawClient client = new RawClient(server, SESSION);
                RawClient other = new RawClient(server, SESSION + 1)) {
            long start = client.begin();
            for (Runnable request : requests(client, start)) {
                log.hold();
                long before = log.appends();
                other.out.plain(Protocol.PING, other.id());
                other.send();
                log.awaitAppends(before + 1);
                request.run();
                client.send();
                if (appendsMax > 1) {
                    log.awaitAppends(before + 2);
                } else {
                    server.awaitDecided(1);
                }
                log.acknowledgeUpTo(before + 1);
                other.receive();
                log.awaitAppends(before + 2);
                server.settle();
                assertTrue(client.nothingArrived(), FROM_BEFORE);
                log.go();
                client.receive();
            }
        }
    }

    /// O6.
    @Test
    void everyReplyWaitsForTheLog() throws Exception {
        everyReplyWaitsForTheLog(OPTIONS, Fault.NONE);
        everyReplyWaitsForTheLog(OPTIONS.withNetworkThreads(2), Fault.NONE);
    }

    /// O6.
    @Test
    void anAppendFromBeforeAnswersNothing() throws Exception {
        for (int appendsMax = 1; appendsMax <= 3; appendsMax++) {
            anAppendFromBeforeAnswersNothing(OPTIONS, appendsMax, Fault.NONE);
            anAppendFromBeforeAnswersNothing(OPTIONS.withNetworkThreads(2), appendsMax, Fault.NONE);
        }
    }

    @Test
    void plantedFaultsAreFound() throws Exception {
        for (Fault fault : List.of(Fault.REPLIES_BEFORE_THE_LOG, Fault.STARTS_BEFORE_THE_LOG)) {
            assertThrows(AssertionError.class, () -> everyReplyWaitsForTheLog(OPTIONS, fault), fault.name());
        }
        // Of a request that comes while nothing is under way it makes no difference.
        everyReplyWaitsForTheLog(OPTIONS, Fault.APPENDS_FROM_BEFORE_ANSWER);
        for (int appendsMax = 1; appendsMax <= 2; appendsMax++) {
            int max = appendsMax;
            AssertionError found = assertThrows(
                    AssertionError.class,
                    () -> anAppendFromBeforeAnswersNothing(OPTIONS, max, Fault.APPENDS_FROM_BEFORE_ANSWER));
            assertTrue(found.getMessage().startsWith(FROM_BEFORE), found.getMessage());
        }
    }

    /// O6: a server that was replaced while it slept: its log acknowledges nothing, and then says so.
    @Test
    void aZombieAnswersNothingAndStops() throws Exception {
        HeldLog log = new HeldLog();
        try (OracleServer server = start(log);
                RawClient client = new RawClient(server, SESSION);
                RawClient other = new RawClient(server, SESSION + 1)) {
            long start = client.begin();
            log.die();
            long before = log.appends();
            client.out.plain(Protocol.BEGIN, 1);
            client.out.commit(2, start, new long[] {1}, 1, new long[0], 0);
            client.out.plain(Protocol.PING, 3);
            client.send();
            log.awaitAppends(before + 1);
            other.out.plain(Protocol.BEGIN, 1);
            other.send();
            server.awaitDecided(1);
            server.settle();
            assertTrue(client.nothingArrived() && other.nothingArrived());
            IOException broken = new IOException("fenced");
            log.fail(broken);
            client.awaitClosed();
            other.awaitClosed();
            CompletionException why = assertThrows(
                    CompletionException.class,
                    () -> server.stopped().toCompletableFuture().join());
            assertSame(broken, why.getCause());
            assertEquals(Main.EXIT_LOG_FAILED, Main.Serve.await(server));
        }
    }

    @Test
    void closingAnswersWhatWasDecided() throws Exception {
        HeldLog log = new HeldLog();
        OracleServer server = start(log);
        try (RawClient client = new RawClient(server, SESSION)) {
            log.hold();
            long before = log.appends();
            client.out.plain(Protocol.BEGIN, 1);
            client.send();
            log.awaitAppends(before + 1);
            client.out.plain(Protocol.BEGIN, 2);
            client.send();
            server.awaitDecided(1);
            server.close();
            assertEquals(1, client.receive().value());
            assertEquals(2, client.receive().value());
            client.awaitClosed();
            server.stopped().toCompletableFuture().join();
            assertEquals(Main.EXIT_ENDED, Main.Serve.await(server));
        }
    }

    // ---- the log and the answers ------------------------------------------------------------------------------------

    private static Map<Long, Long> commits(List<byte[]> entries) throws DamagedEntryException {
        Map<Long, Long> commits = new TreeMap<>();
        Decisions decisions = new NoDecisions() {
            @Override
            public void committed(long start, long commit, Rows rows) {
                assertEquals(null, commits.put(start, commit), "committed twice");
            }

            @Override
            public void aborted(long start) {
                assertFalse(commits.containsKey(start));
            }
        };
        EntryReader reader = new EntryReader();
        for (byte[] entry : entries) {
            if (SnapshotReader.isPart(entry, 0, entry.length)) {
                continue;
            }
            reader.open(entry, 0, entry.length);
            reader.tell(decisions);
        }
        return commits;
    }

    /// Several clients with many requests outstanding, in any order and some twice; the log acknowledges now
    /// and then, and at last no more. What was answered is what a later opening finds.
    @Test
    void logHasExactlyTheAnsweredCommits() throws Exception {
        for (int seed = 1; seed <= 20; seed++) {
            answeredAndKept(new SplittableRandom(seed), OPTIONS.withNetworkThreads(seed % 3));
        }
    }

    private static void answeredAndKept(SplittableRandom random, ServerOptions options) throws Exception {
        HeldLog log = new HeldLog(random.nextInt(1, 4), List.of());
        Map<Long, Long> answered = new TreeMap<>();
        Map<Long, Long> kept;
        try (OracleServer server = OracleServer.start(options, log)) {
            List<RawClient> clients = new ArrayList<>();
            List<List<Long>> starts = new ArrayList<>();
            for (int number = 0; number < 3; number++) {
                RawClient client = new RawClient(server, SESSION + number);
                clients.add(client);
                List<Long> own = new ArrayList<>();
                for (int count = 0; count < 40; count++) {
                    own.add(client.begin());
                }
                starts.add(own);
            }
            log.hold();
            for (int round = 0; round < 20; round++) {
                for (int number = 0; number < 3; number++) {
                    RawClient client = clients.get(number);
                    for (int count = random.nextInt(4); count > 0; count--) {
                        List<Long> own = starts.get(number);
                        long start = own.get(random.nextInt(own.size()));
                        client.out.commit(start, start, new long[] {1 + random.nextInt(60)}, 1, new long[0], 0);
                    }
                    client.send();
                }
                if (random.nextInt(3) == 0) {
                    log.acknowledgeUpTo(log.appends());
                }
            }
            log.die();
            kept = commits(log.kept());
            while (answered.size() < kept.size()) {
                for (RawClient client : clients) {
                    while (!client.nothingArrived()) {
                        client.receive();
                        assertEquals(Protocol.COMMIT, client.reply.request());
                        long outcome = client.reply.value();
                        if (outcome > 0) {
                            Long before = answered.put(client.reply.id(), outcome);
                            assertTrue(before == null || before == outcome, "O3: the same transaction, twice");
                        }
                    }
                }
                Thread.onSpinWait();
            }
            server.settle();
            for (RawClient client : clients) {
                client.close();
            }
        }
        assertEquals(kept, answered);

        // And a server that opens the log, with or without what was never acknowledged, answers the same.
        for (List<byte[]> entries : List.of(log.kept(), log.all())) {
            try (OracleServer server = start(new HeldLog(1, entries));
                    RawClient client = new RawClient(server, SESSION)) {
                for (Map.Entry<Long, Long> commit : answered.entrySet()) {
                    assertEquals(commit.getValue(), client.ask(Protocol.RESOLVE, commit.getKey()));
                    assertEquals(commit.getValue(), client.commit(commit.getKey(), 77), "O3");
                }
            }
        }
    }

    @Test
    void lostReplyIsRepeatedOnRequest() throws Exception {
        HeldLog log = new HeldLog();
        try (OracleServer server = start(log)) {
            RawClient first = new RawClient(server, SESSION);
            long start = first.begin();
            log.hold();
            long before = log.appends();
            first.out.commit(1, start, new long[] {5}, 1, new long[0], 0);
            first.send();
            log.awaitAppends(before + 1);
            first.close();
            log.go();
            try (RawClient again = new RawClient(server, SESSION)) {
                long commit = again.announce(start)[0];
                assertTrue(commit > start);
                assertEquals(commit, again.commit(start, 5));
            }
            assertEquals(1, commits(log.kept()).size());
        }
    }

    // ---- sessions ---------------------------------------------------------------------------------------------------

    /// C2: a transaction whose begin was answered into a lost connection is unknown to its client.
    @Test
    void unannouncedTransactionAborts() throws Exception {
        HeldLog log = new HeldLog();
        try (OracleServer server = start(log);
                RawClient other = new RawClient(server, SESSION + 1)) {
            long others = other.begin();
            RawClient first = new RawClient(server, SESSION);
            long known = first.begin();
            long lost = first.begin();
            first.close();
            try (RawClient again = new RawClient(server, SESSION)) {
                assertArrayEquals(new long[] {Protocol.OPEN}, again.announce(known));
                long reader = again.begin();
                assertEquals(Protocol.ABORTED, again.status(reader, lost));
                assertEquals(Protocol.OPEN, again.status(reader, known));
                assertEquals(Protocol.OPEN, again.status(reader, others));
                assertArrayEquals(
                        new long[] {Protocol.OPEN}, again.announce(others), "of another session: not adopted");
                again.out.plain(Protocol.CLOSE, 1);
                again.send().receive();
                again.awaitClosed();
            }
            assertEquals(Protocol.OPEN, other.status(others, others));
            assertEquals(Protocol.ABORTED, other.status(others, known));
            assertEquals(others, other.lowWaterMark());
        }
    }

    @Test
    void aSilentSessionExpires() throws Exception {
        HeldLog log = new HeldLog();
        try (OracleServer server = start(log);
                RawClient talks = new RawClient(server, SESSION);
                RawClient silent = new RawClient(server, SESSION + 1)) {
            RawClient gone = new RawClient(server, SESSION + 2);
            long ofTalking = talks.begin();
            long ofSilent = silent.begin();
            long ofGone = gone.begin();
            gone.close();
            for (int tick = 0; tick < Sessions.TICKS; tick++) {
                server.tick();
                assertEquals(ofTalking, talks.lowWaterMark());
            }
            assertEquals(Protocol.OPEN, talks.status(ofTalking, ofSilent));
            assertEquals(Protocol.OPEN, talks.status(ofTalking, ofGone));
            server.tick();
            silent.refused(ErrorCode.EXPIRED, true);
            silent.awaitClosed();
            assertEquals(Protocol.ABORTED, talks.status(ofTalking, ofSilent));
            assertEquals(Protocol.ABORTED, talks.status(ofTalking, ofGone));
            assertEquals(Protocol.OPEN, talks.status(ofTalking, ofTalking));
            try (RawClient again = new RawClient(server, SESSION + 1)) {
                assertEquals(Protocol.ABORTED, again.commit(ofSilent, 3));
            }
        }
    }

    /// A connection that never says hello is closed, also one that has begun to.
    @Test
    void connectionWithoutHelloIsNotAwaited() throws Exception {
        for (int threads = 0; threads < 2; threads++) {
            try (OracleServer server = OracleServer.start(OPTIONS.withNetworkThreads(threads), new HeldLog());
                    RawClient mute = new RawClient(server);
                    RawClient half = new RawClient(server);
                    RawClient late = new RawClient(server)) {
                half.send(new byte[] {36, 0, 0});
                late.out.hello(1, 1, 1, SESSION);
                late.send().receive();
                server.settle();
                for (int tick = 0; tick < Sessions.TICKS; tick++) {
                    server.helloTick();
                    late.begin();
                }
                server.settle();
                assertTrue(mute.nothingArrived() && half.nothingArrived());
                server.helloTick();
                mute.refused(ErrorCode.HELLO, true);
                mute.awaitClosed();
                half.refused(ErrorCode.HELLO, true);
                half.awaitClosed();
                server.helloTick();
                late.begin();
            }
        }
    }

    /// O4: what a dead client leaves is forgotten after a sweep that was begun behind it; what a client comes
    /// back for is not.
    @Test
    void aSweepForgetsTheDead() throws Exception {
        HeldLog log = new HeldLog();
        try (OracleServer server = start(log);
                RawClient sweeper = new RawClient(server, SESSION)) {
            long known;
            long dead;
            try (RawClient client = new RawClient(server, SESSION + 1);
                    RawClient dying = new RawClient(server, SESSION + 2)) {
                known = client.begin();
                dead = dying.begin();
                assertEquals(Protocol.ABORTED, sweeper.ask(Protocol.RESOLVE, known));
            }
            RawClient back = new RawClient(server, SESSION + 1);
            assertArrayEquals(new long[] {Protocol.ABORTED}, back.announce(known));
            long early = sweeper.begin();
            for (int tick = 0; tick <= Sessions.TICKS; tick++) {
                server.tick();
                sweeper.begin();
                back.lowWaterMark();
            }
            assertEquals(0, sweeper.swept(early), "it was begun before the session was over");
            assertEquals(Protocol.ABORTED, sweeper.status(early, dead));
            assertEquals(1, sweeper.swept(sweeper.begin()));
            assertEquals(Protocol.UNKNOWN, sweeper.status(early, dead));
            assertEquals(Protocol.ABORTED, sweeper.status(early, known), "its client is alive");
            back.out.plain(Protocol.CLOSE, 1);
            back.send().receive();
            back.close();
            sweeper.out.swept(7, 0, sweeper.begin() + 1, 1);
            sweeper.send().refused(ErrorCode.TIMESTAMP, false);
        }
        // Decided transactions, too, belong to a client that may reconnect to the next server.
        try (OracleServer server = start(new HeldLog(1, log.kept()));
                RawClient sweeper = new RawClient(server, SESSION)) {
            long mark = sweeper.begin();
            assertEquals(0, sweeper.swept(mark));
            for (int tick = 0; tick <= Sessions.TICKS; tick++) {
                server.tick();
                sweeper.lowWaterMark();
            }
            assertEquals(0, sweeper.swept(mark));
            assertTrue(sweeper.swept(sweeper.begin()) > 0);
        }
    }

    @Test
    void aNewerConnectionTakesTheSessionOver() throws Exception {
        HeldLog log = new HeldLog();
        try (OracleServer server = start(log);
                RawClient first = new RawClient(server, SESSION)) {
            long start = first.begin();
            try (RawClient second = new RawClient(server, SESSION)) {
                first.refused(ErrorCode.TAKEN_OVER, true);
                first.awaitClosed();
                assertArrayEquals(new long[] {Protocol.OPEN}, second.announce(start));
                for (int tick = 0; tick < 3 * Sessions.TICKS; tick++) {
                    server.tick();
                    assertEquals(start, second.lowWaterMark());
                }
                assertTrue(second.commit(start, 1) > start);
            }
        }
    }

    /// O5: fail-over itself aborts no open transaction; but those that no client announces have no owner.
    @Test
    void openTransactionsSurviveTheServer() throws Exception {
        HeldLog log = new HeldLog();
        long announced;
        long forgotten;
        try (OracleServer server = start(log);
                RawClient client = new RawClient(server, SESSION)) {
            announced = client.begin();
            forgotten = client.begin();
        }
        try (OracleServer server = start(new HeldLog(1, log.kept()));
                RawClient client = new RawClient(server, SESSION)) {
            long start = client.begin();
            assertTrue(start > forgotten, "O5");
            assertArrayEquals(new long[] {Protocol.OPEN}, client.announce(announced));
            for (int tick = 0; tick < Sessions.TICKS; tick++) {
                server.tick();
                assertEquals(Protocol.OPEN, client.status(start, forgotten));
            }
            server.tick();
            assertEquals(Protocol.ABORTED, client.status(start, forgotten));
            assertTrue(client.commit(announced, 1) > start);
        }
    }

    // ---- limits and nonsense ----------------------------------------------------------------------------------------

    @Test
    void outstandingDecisionsAreLimited() throws Exception {
        HeldLog log = new HeldLog();
        int max = 4;
        try (OracleServer server = OracleServer.start(OPTIONS.withOutstandingMax(max), log);
                RawClient client = new RawClient(server, SESSION)) {
            log.hold();
            long before = log.appends();
            int all = 100;
            for (int count = 1; count <= all; count++) {
                client.out.plain(Protocol.PING, count);
            }
            client.send();
            log.awaitAppends(before + 1);
            server.settle();
            assertEquals(max, server.outstanding(), "D3");
            assertTrue(client.nothingArrived());
            int answered = 0;
            while (answered < all) {
                log.acknowledgeUpTo(log.appends());
                server.settle();
                assertTrue(server.outstanding() <= max, "D3");
                while (!client.nothingArrived()) {
                    assertEquals(++answered, client.receive().id(), "this server keeps the order");
                }
            }
        }
    }

    @Test
    void fragmentedSmallAndLargeFramesAreRead() throws Exception {
        try (OracleServer server = start(new VolatileLog());
                RawClient client = new RawClient(server, SESSION)) {
            long start = client.begin();
            long[] rows = new long[Protocol.ROWS_MAX];
            for (int at = 0; at < rows.length; at++) {
                rows[at] = at + 1;
            }
            // The window of 2^10 rows is smaller than the transaction; it may commit nevertheless.
            client.out.commit(1, start, rows, rows.length, rows, 0);
            for (int count = 2; count < 20_000; count++) {
                client.out.plain(Protocol.PING, count);
            }
            client.send();
            assertEquals(start + 1, client.receive().value());
            for (int count = 2; count < 20_000; count++) {
                assertEquals(count, client.receive().id());
            }
        }
    }

    /// More requests than are opened at a time come together, some of which are refused: each is answered in
    /// its turn, by the rows that it has and no other's.
    @Test
    void concurrentRequestsAreAnsweredInOrder() throws Exception {
        long[] none = {};
        try (OracleServer server = start(new VolatileLog());
                RawClient client = new RawClient(server, SESSION)) {
            long[] starts = new long[100];
            for (int at = 0; at < starts.length; at++) {
                starts[at] = client.begin();
            }
            for (int at = 0; at < starts.length; at++) {
                // Of ten that write the same row the first commits.
                client.out.commit(at, starts[at], new long[] {1000 + at / 10, 2000 + at}, 2, none, 0);
                if (at % 7 == 0) {
                    client.out.plain((byte) 99, 1000 + at);
                }
                if (at % 9 == 0) {
                    client.out.commit(3000 + at, starts[at], new long[] {0}, 1, none, 0);
                }
            }
            client.send();
            for (int at = 0; at < starts.length; at++) {
                ReplyReader reply = client.receive();
                assertEquals(at, reply.id());
                assertEquals(at % 10 == 0, reply.value() > starts[at], "transaction " + at);
                if (at % 7 == 0) {
                    client.refused(ErrorCode.UNSUPPORTED, false);
                }
                if (at % 9 == 0) {
                    client.refused(ErrorCode.RESERVED_ROW, false);
                }
            }
        }
    }

    @Test
    void nonsenseIsRefused() throws Exception {
        try (OracleServer server = start(new HeldLog())) {
            try (RawClient client = new RawClient(server)) {
                client.out.plain(Protocol.BEGIN, 1);
                client.send().refused(ErrorCode.HELLO, true);
                client.awaitClosed();
            }
            try (RawClient client = new RawClient(server)) {
                client.out.hello(1, Protocol.VERSION + 1, Protocol.VERSION + 2, SESSION);
                client.send().refused(ErrorCode.VERSION, true);
                assertTrue(client.reply.errorText().contains("5 to 6"));
                client.awaitClosed();
            }
            try (RawClient client = new RawClient(server)) {
                client.send("GET / HTTP/1.1\r\nHost: oracle\r\n\r\n".getBytes()).refused(ErrorCode.TOO_LONG, true);
                client.awaitClosed();
            }
            try (RawClient client = new RawClient(server, SESSION)) {
                client.out.hello(1, 1, 1, SESSION);
                client.send().refused(ErrorCode.HELLO, true);
                client.awaitClosed();
            }
            try (RawClient client = new RawClient(server, SESSION)) {
                long start = client.begin();
                client.out.commit(1, start, new long[] {Protocol.ROW_HIGHEST}, 1, new long[0], 0);
                client.send().refused(ErrorCode.RESERVED_ROW, false);
                client.out.start(Protocol.END, 1, start + 1);
                client.send().refused(ErrorCode.TIMESTAMP, false);
                client.out.status(1, start, new long[] {start, start + 1}, 2);
                client.send().refused(ErrorCode.TIMESTAMP, false);
                assertTrue(client.commit(start, 4) > start, "what is refused is not done");
            }
        }
    }

    /// Random bytes behind a hello, or instead of it: the server goes on serving others.
    @Test
    void randomBytesCloseOnlyTheirConnection() throws Exception {
        try (OracleServer server = start(new HeldLog());
                RawClient witness = new RawClient(server, SESSION)) {
            for (int seed = 1; seed <= 300; seed++) {
                SplittableRandom random = new SplittableRandom(seed);
                try (RawClient client =
                        random.nextBoolean() ? new RawClient(server, SESSION + seed) : new RawClient(server)) {
                    byte[] bytes = new byte[random.nextInt(1, 2000)];
                    random.nextBytes(bytes);
                    for (int at = 0; at + 16 < bytes.length; at += 16 + 8 * random.nextInt(3)) {
                        if (random.nextBoolean()) {
                            client.out.start((byte) random.nextInt(15), at, 1 + random.nextInt(3));
                        } else {
                            client.out.plain((byte) random.nextInt(15), at);
                        }
                    }
                    client.send();
                    client.send(bytes);
                } catch (IOException closed) {
                    // by the server, while the rest was being sent
                }
                long start = witness.begin();
                assertEquals(start, witness.ask(Protocol.END, start));
            }
            assertFalse(server.stopped().toCompletableFuture().isDone());
        }
    }

    @Test
    void aServerThatCannotStartSaysSo() throws Exception {
        try (OracleServer server = start(new HeldLog())) {
            assertThrows(
                    IOException.class, () -> OracleServer.start(OPTIONS.withListen(server.address()), new HeldLog()));
            assertEquals(
                    Main.EXIT_CANNOT_START,
                    Main.run(
                            "serve",
                            "--log",
                            "none",
                            "--port",
                            "" + server.address().getPort()));
        }
        assertThrows(DamagedEntryException.class, () -> start(new HeldLog(1, List.of(new byte[3]))));
        assertEquals(Main.EXIT_USAGE, Main.run("serve"));
        assertEquals(Main.EXIT_USAGE, Main.run("serve", "--log", "none", "--metrics", "9090"));
        assertEquals(Main.EXIT_USAGE, Main.run("serve", "--log", "none", "--metrics", "localhost:99999"));
        assertEquals(Main.EXIT_USAGE, Main.run("serve", "--log", "none", "--rows-log2", "99"));
        assertEquals(Main.EXIT_USAGE, Main.run());
    }
}
