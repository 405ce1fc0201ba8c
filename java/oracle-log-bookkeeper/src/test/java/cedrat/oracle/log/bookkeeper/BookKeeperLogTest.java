package cedrat.oracle.log.bookkeeper;

import static org.junit.jupiter.api.Assertions.assertDoesNotThrow;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cedrat.oracle.log.Log;
import cedrat.oracle.log.SharedLogs.Place;
import cedrat.oracle.log.contract.LogContract;
import cedrat.oracle.log.contract.RecordingListener;
import cedrat.services.Bookies;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.FutureTask;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.retry.RetryOneTime;
import org.apache.zookeeper.Watcher.Event.KeeperState;
import org.apache.zookeeper.ZooKeeper;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.api.parallel.Execution;
import org.junit.jupiter.api.parallel.ExecutionMode;
import org.junit.jupiter.api.parallel.ResourceAccessMode;
import org.junit.jupiter.api.parallel.ResourceLock;
import org.junit.jupiter.api.parallel.ResourceLockTarget;

/// With three bookies and a ZooKeeper, each a process of its own.
///
/// The tests wait for these most of their time. So they run side by side, each with a log of its own; but for
/// the one that kills a bookie.
@Tag("services")
@Timeout(300)
@ResourceLock(value = BookKeeperLogTest.BOOKIES, mode = ResourceAccessMode.READ, target = ResourceLockTarget.CHILDREN)
class BookKeeperLogTest extends LogContract {
    static final String BOOKIES = "bookies";

    private static final int LEDGER_BYTES = 200_000;

    @TempDir
    private static Path folder;

    private static Bookies bookies;
    private static final AtomicInteger LOGS = new AtomicInteger();

    @BeforeAll
    static void start() throws IOException {
        bookies = Bookies.start(folder, 3);
    }

    @AfterAll
    static void stop() {
        bookies.close();
    }

    private static Place place() {
        // Nothing of a test depends on the time; a session shall last, however busy the machine is.
        return new Place(
                bookies.zooKeeper().address(),
                "/cedrat/log-" + LOGS.incrementAndGet(),
                Duration.ofSeconds(60),
                LEDGER_BYTES,
                "test");
    }

    @Override
    protected Log fresh() {
        return new BookKeeperLog(place());
    }

    // ---- helpers ----------------------------------------------------------------------------------------------------

    private static byte[] numbered(long number) {
        byte[] bytes = new byte[Long.BYTES + (int) (number * 37 % 400)];
        Arrays.fill(bytes, (byte) (number * 31));
        ByteBuffer.wrap(bytes).putLong(0, number);
        return bytes;
    }

    /// Checks that numbered entries come one after the other.
    private static class Replayed implements Log.Replay {
        long first = -1;
        long next;
        int restarts;

        @Override
        public void entry(byte[] bytes, int from, int length) {
            long number = ByteBuffer.wrap(bytes, from, length).getLong();
            assertTrue(Arrays.equals(numbered(number), Arrays.copyOfRange(bytes, from, from + length)));
            if (first < 0) {
                first = number;
            } else {
                assertEquals(next, number, "L2");
            }
            next = number + 1;
        }

        @Override
        public void restart() {
            first = -1;
            restarts++;
        }
    }

    private static long append(Log log, long from, long to) {
        long last = 0;
        for (long number = from; number < to; number++) {
            byte[] bytes = numbered(number);
            last = log.append(bytes, 0, bytes.length);
            Arrays.fill(bytes, (byte) 1);
        }
        return last;
    }

    private static Replayed replayed(Place place) throws Exception {
        Replayed replayed = new Replayed();
        try (Log log = new BookKeeperLog(place)) {
            log.open(replayed, new RecordingListener());
        }
        return replayed;
    }

    private static CuratorFramework curator(Place place) {
        CuratorFramework curator = CuratorFrameworkFactory.newClient(place.zooKeeper(), new RetryOneTime(100));
        curator.start();
        return curator;
    }

    private static LedgerList list(Place place) throws Exception {
        try (CuratorFramework curator = curator(place)) {
            return LedgerList.of(curator.getData().forPath(place.path() + "/ledgers"));
        }
    }

    // ---- what it keeps ----------------------------------------------------------------------------------------------

    /// L2, over ledgers that are rolled and openings.
    @Test
    @Execution(ExecutionMode.CONCURRENT)
    void acknowledgedEntriesAreReplayedByLaterOpenings() throws Exception {
        Place place = place();
        for (int opening = 0; opening < 3; opening++) {
            Replayed replayed = new Replayed();
            RecordingListener listener = new RecordingListener();
            try (Log log = new BookKeeperLog(place)) {
                log.open(replayed, listener);
                assertEquals(opening * 3000, replayed.next);
                assertEquals((opening + 1) * 3000, append(log, opening * 3000, (opening + 1) * 3000));
            }
            assertEquals((opening + 1) * 3000, listener.newest());
        }
        assertTrue(list(place).ledgers().size() > 6, "ledgers were rolled: " + list(place));
        assertEquals(3, list(place).openings());
        Replayed replayed = replayed(place);
        assertEquals(0, replayed.first);
        assertEquals(9000, replayed.next);
    }

    /// L5: ledgers leave the list, and are deleted.
    @Test
    @Execution(ExecutionMode.CONCURRENT)
    void forgottenLedgersAreDeleted() throws Exception {
        Place place = place();
        LedgerList before;
        try (Log log = new BookKeeperLog(place)) {
            RecordingListener listener = new RecordingListener();
            log.open(new Replayed(), listener);
            listener.awaitAcknowledged(append(log, 0, 3000));
        }
        LedgerList first = list(place);
        RecordingListener listener = new RecordingListener();
        try (Log log = new BookKeeperLog(place)) {
            log.open(new Replayed(), listener);
            listener.awaitAcknowledged(append(log, 3000, 6000));
            before = list(place);
            log.forgetBefore(5001);
            while (list(place).ledgers().getFirst().equals(before.ledgers().getFirst())
                    || !list(place).doomed().isEmpty()) {
                listener.awaitAcknowledged(append(log, listener.newest(), listener.newest() + 1));
            }
        }
        LedgerList after = list(place);
        int gone = before.ledgers().indexOf(after.ledgers().getFirst());
        assertTrue(gone > 0, before + " became " + after);
        assertTrue(Collections.disjoint(first.ledgers(), after.ledgers()), first + " became " + after);
        try (Ledgers ledgers = new Ledgers(place.zooKeeper(), place.bookKeeper())) {
            for (long ledger : before.ledgers().subList(0, gone)) {
                assertTrue(Ledgers.isMissing(assertThrows(IOException.class, () -> ledgers.follow(ledger))));
            }
        }
        Replayed replayed = replayed(place);
        assertTrue(replayed.first > 3000 && replayed.first <= 5000, "from " + replayed.first);
        assertEquals(listener.newest(), replayed.next);
    }

    @Test
    @Execution(ExecutionMode.CONCURRENT)
    void theLongestEntryIsReplayed() throws Exception {
        Place place = place();
        byte[] longest = new byte[Log.ENTRY_BYTES_MAX];
        try (Log log = new BookKeeperLog(place)) {
            RecordingListener listener = new RecordingListener();
            log.open(new Replayed(), listener);
            listener.awaitAcknowledged(log.append(longest, 0, longest.length));
        }
        try (Log log = new BookKeeperLog(place)) {
            log.open((bytes, from, length) -> assertEquals(longest.length, length), new RecordingListener());
        }
    }

    // ---- what was made in vain --------------------------------------------------------------------------------------

    private static boolean isThere(Ledgers ledgers, long ledger) throws IOException {
        return ledgers.metadata(ledger).isPresent();
    }

    private static Origin origin(Place place) throws Exception {
        try (CuratorFramework curator = curator(place)) {
            ListNode node = new ListNode(curator, place.path());
            node.read();
            return node.origin();
        }
    }

    /// As if a server had died before it could list the ledger.
    private static long stray(Ledgers ledgers, Origin origin) throws Exception {
        return ledgers.create(origin).id();
    }

    /// Y1, Y2.
    @Test
    @Execution(ExecutionMode.CONCURRENT)
    void strayLedgersOfAnEarlierOpeningAreDeletedAndNoOthers() throws Exception {
        Place place = place();
        Place another = place();
        for (Place each : List.of(place, another)) {
            try (Log log = new BookKeeperLog(each)) {
                log.open(new Replayed(), new RecordingListener());
                append(log, 0, 3000);
            }
        }
        Origin now = origin(place);
        try (CuratorFramework curator = curator(place);
                Ledgers ledgers = new Ledgers(place.zooKeeper(), place.bookKeeper())) {
            long first = stray(ledgers, now);
            long second = stray(ledgers, now);
            List<Long> kept = new ArrayList<>(List.of(
                    stray(ledgers, origin(another)),
                    stray(ledgers, new Origin(another.path(), now.log(), now.opening())),
                    stray(ledgers, new Origin(now.path(), now.log() + 1, now.opening())),
                    stray(ledgers, new Origin(now.path(), now.log(), now.opening() + 1))));
            ListNode node = new ListNode(curator, place.path());
            LedgerList taken = node.take(5);
            long doomed = taken.ledgers().getFirst();
            node.change(taken.withoutFirst(1));
            kept.add(doomed);
            kept.addAll(node.list().ledgers());
            kept.addAll(list(another).ledgers());
            OrphanLedgers strays = new OrphanLedgers(ledgers, node.origin(), node.list());
            while (strays.step()) {
                // it has more
            }
            assertFalse(isThere(ledgers, first), "it was made and not listed");
            assertFalse(isThere(ledgers, second), "it was made and not listed");
            for (long ledger : kept) {
                assertTrue(isThere(ledgers, ledger), "ledger " + ledger + " is gone, of " + kept);
            }
        }
        assertEquals(3000, replayed(another).next);
    }

    private static int count(Ledgers ledgers) throws IOException {
        int count = 0;
        try (Ledgers.All all = ledgers.all()) {
            for (; all.hasNext(); count++) {
                all.next();
            }
        }
        return count;
    }

    /// An opening of the log sees to it by itself, with no more steps than it takes to look at all ledgers.
    @Test
    @Execution(ExecutionMode.CONCURRENT)
    void aStrayLedgerIsDeletedByTheNextOpening() throws Exception {
        Place place = place();
        replayed(place);
        try (Ledgers ledgers = new Ledgers(place.zooKeeper(), place.bookKeeper())) {
            long stray = stray(ledgers, origin(place));
            try (BookKeeperLog log = new BookKeeperLog(place)) {
                log.open(new Replayed(), new RecordingListener());
                for (int steps = 1 + count(ledgers) / OrphanLedgers.STEP_LEDGERS; steps > 0; steps--) {
                    log.settle();
                }
                assertFalse(isThere(ledgers, stray), "it is still there");
            }
        }
    }

    // ---- what is only read ------------------------------------------------------------------------------------------

    private static Replayed read(Place place) throws Exception {
        Replayed read = new Replayed();
        new BookKeeperLogs().read(place, read);
        return read;
    }

    /// The owner of the log is not affected: its ledgers stay open, and its list is unchanged.
    @Test
    @Execution(ExecutionMode.CONCURRENT)
    void openLogCanBeRead() throws Exception {
        Place place = place();
        RecordingListener listener = new RecordingListener();
        try (Log log = new BookKeeperLog(place)) {
            log.open(new Replayed(), listener);
            long appended = 0;
            while (list(place).ledgers().size() < 2) {
                listener.awaitAcknowledged(append(log, appended, appended += 100)); // until a ledger is full
            }
            // An entry carries the last acknowledged entry before it, as of the time when it was sent.
            listener.awaitAcknowledged(append(log, appended, ++appended));
            LedgerList before = list(place);
            for (int count = 0; count < 10; count++) {
                Replayed read = read(place);
                assertEquals(0, read.first);
                assertTrue(
                        read.next >= appended - 1 && read.next <= appended, "up to " + read.next + " of " + appended);
                listener.awaitAcknowledged(append(log, appended, ++appended));
            }
            assertEquals(before, list(place));
            assertFalse(listener.hasFailed());
        }
        assertEquals(listener.newest(), read(place).next);
        assertEquals(listener.newest(), replayed(place).next);
    }

    @Test
    @Execution(ExecutionMode.CONCURRENT)
    void aLogThatIsNotThereIsNotMade() throws Exception {
        Place place = place();
        assertThrows(IOException.class, () -> read(place));
        try (CuratorFramework curator = curator(place)) {
            assertFalse(new ListNode(curator, place.path()).exists());
        }
    }

    // ---- what goes wrong --------------------------------------------------------------------------------------------

    /// K3. Whether the closed ledger holds unacknowledged entries is chance.
    @Test
    @Execution(ExecutionMode.CONCURRENT)
    void aLedgerThatIsClosedWhileEntriesAreUnderWayIsReplaced() throws Exception {
        Place place = place();
        RecordingListener listener = new RecordingListener();
        long next = 0;
        try (Log log = new BookKeeperLog(place);
                Ledgers others = new Ledgers(place.zooKeeper(), place.bookKeeper())) {
            log.open(new Replayed(), listener);
            for (int round = 0; round < 5; round++) {
                long ledger = list(place).ledgers().getLast();
                FutureTask<Void> closing = new FutureTask<>(() -> {
                    others.recover(ledger).close();
                    return null;
                });
                Thread.ofPlatform().start(closing);
                while (!closing.isDone()) {
                    long last = append(log, next, next + 100);
                    next += 100;
                    listener.awaitAcknowledged(Math.max(1, last - 200)); // so that some are always under way
                }
                closing.get();
                listener.awaitAcknowledged(append(log, next, ++next));
            }
        }
        Replayed replayed = replayed(place);
        assertEquals(0, replayed.first);
        assertEquals(next, replayed.next);
    }

    /// A ledger that is closed under the log is followed by another, and appends succeed.
    @Test
    @Execution(ExecutionMode.CONCURRENT)
    void foreignClosedLedgerIsReplaced() throws Exception {
        Place place = place();
        RecordingListener listener = new RecordingListener();
        try (Log log = new BookKeeperLog(place);
                Ledgers others = new Ledgers(place.zooKeeper(), place.bookKeeper())) {
            log.open(new Replayed(), listener);
            for (int round = 0; round < 5; round++) {
                append(log, round * 100, round * 100 + 50);
                others.recover(list(place).ledgers().getLast()).close();
                listener.awaitAcknowledged(append(log, round * 100 + 50, round * 100 + 100));
            }
        }
        assertTrue(list(place).ledgers().size() > 5);
        assertIncreasing(listener.acknowledged());
        assertEquals(500, replayed(place).next);
    }

    /// O6, L4: once another server has the log, no append of the former owner is acknowledged.
    @Test
    @Execution(ExecutionMode.CONCURRENT)
    void deposedLeaderAcknowledgesNothing() throws Exception {
        Place place = place();
        RecordingListener listener = new RecordingListener();
        Log log = new BookKeeperLog(place);
        log.open(new Replayed(), listener);
        listener.awaitAcknowledged(append(log, 0, 100));
        try (CuratorFramework curator = curator(place);
                Ledgers ledgers = new Ledgers(place.zooKeeper(), place.bookKeeper())) {
            ListNode node = new ListNode(curator, place.path());
            Replayed replayed = new Replayed();
            try (Follower follower = new Follower(ledgers, replayed)) {
                follower.finish(node.take(5));
            }
            assertEquals(100, replayed.next);
        }
        append(log, 100, 200);
        assertInstanceOf(ReplacedException.class, listener.awaitFailed());
        log.close();
        assertEquals(100, listener.newest());
        assertEquals(100, replayed(place).next);
    }

    /// O6: the same where it was about to go on in another ledger: that one does not get into the list.
    @Test
    @Execution(ExecutionMode.CONCURRENT)
    void leaderDeposedDuringRollAcknowledgesNothing() throws Exception {
        Place place = place();
        RecordingListener listener = new RecordingListener();
        try (CuratorFramework curator = curator(place);
                Ledgers ledgers = new Ledgers(place.zooKeeper(), place.bookKeeper())) {
            ListNode node = new ListNode(curator, place.path());
            node.create();
            node.take(5);
            Appender appender = new Appender(ledgers, node, List.of(), 0, 1000, listener);
            long acknowledged = appender.append(new byte[10], 0, 10);
            listener.awaitAcknowledged(acknowledged);
            ListNode successor = new ListNode(curator, place.path());
            LedgerList taken = successor.take(6);
            // The ledger is still open, and full now: what comes next has to go to another one.
            appender.append(new byte[2000], 0, 2000);
            assertInstanceOf(ReplacedException.class, listener.awaitFailed());
            assertEquals(taken, list(place));
            appender.close();
        }
    }

    /// Of two servers one waits; when the session of the first is lost it stops, and the other has all that
    /// it has.
    @Test
    @Execution(ExecutionMode.CONCURRENT)
    void aServerThatWaitsTakesOverWhenTheSessionIsLost() throws Exception {
        Place place = place();
        RecordingListener listener = new RecordingListener();
        BookKeeperLog first = new BookKeeperLog(place);
        first.open(new Replayed(), listener);
        listener.awaitAcknowledged(append(first, 0, 1000));
        Replayed replayed = new Replayed();
        RecordingListener secondListener = new RecordingListener();
        try (Log second = new BookKeeperLog(place)) {
            CompletableFuture<Void> opening = CompletableFuture.runAsync(() -> {
                try {
                    second.open(replayed, secondListener);
                } catch (Exception problem) {
                    throw new IllegalStateException(problem);
                }
            });
            listener.awaitAcknowledged(append(first, 1000, 2000));
            assertFalse(opening.isDone());
            endSession(place, first);
            assertInstanceOf(ReplacedException.class, listener.awaitFailed());
            first.close();
            opening.join();
            assertEquals(2000, replayed.next);
            assertEquals(2100, append(second, 2000, 2100));
            secondListener.awaitAcknowledged(2100);
        }
        assertEquals(2100, replayed(place).next);
    }

    /// O5k: a standby server is slow, and the entries that it reads next are truncated meanwhile.
    @Test
    @Execution(ExecutionMode.CONCURRENT)
    void standbyBehindTruncationRestartsReplay() throws Exception {
        Place place = place();
        RecordingListener listener = new RecordingListener();
        BookKeeperLog first = new BookKeeperLog(place);
        first.open(new Replayed(), listener);
        listener.awaitAcknowledged(append(first, 0, 3000));
        LedgerList before = list(place);
        CountDownLatch reached = new CountDownLatch(1);
        CountDownLatch release = new CountDownLatch(1);
        Replayed slow = new Replayed() {
            @Override
            public void entry(byte[] bytes, int from, int length) {
                super.entry(bytes, from, length);
                reached.countDown();
                assertDoesNotThrow(() -> release.await());
            }
        };
        try (Log second = new BookKeeperLog(place)) {
            RecordingListener secondListener = new RecordingListener();
            CompletableFuture<Void> opening =
                    CompletableFuture.runAsync(() -> assertDoesNotThrow(() -> second.open(slow, secondListener)));
            reached.await();
            while (!Collections.disjoint(list(place).ledgers(), before.ledgers())
                    || !list(place).doomed().isEmpty()) {
                listener.awaitAcknowledged(append(first, listener.newest(), listener.newest() + 100));
                first.forgetBefore(listener.newest());
            }
            release.countDown();
            first.close();
            opening.join();
            assertEquals(1, slow.restarts);
            assertTrue(slow.first > 0, "from " + slow.first);
            assertEquals(listener.newest(), slow.next);
            assertEquals(slow.next - slow.first + 1, append(second, slow.next, slow.next + 1));
            secondListener.awaitAcknowledged(slow.next - slow.first + 1);
        }
    }

    /// O6p: the process of the server whose log has failed goes on, and keeps its session.
    @Test
    @Execution(ExecutionMode.CONCURRENT)
    void failedLogLeavesElection() throws Exception {
        Place place = place();
        RecordingListener listener = new RecordingListener();
        BookKeeperLog first = new BookKeeperLog(place);
        first.open(new Replayed(), listener);
        listener.awaitAcknowledged(append(first, 0, 100));
        try (CuratorFramework curator = curator(place);
                Ledgers ledgers = new Ledgers(place.zooKeeper(), place.bookKeeper());
                Follower follower = new Follower(ledgers, new Replayed())) {
            follower.finish(new ListNode(curator, place.path()).take(5));
        }
        append(first, 100, 200);
        assertInstanceOf(ReplacedException.class, listener.awaitFailed());
        assertEquals(100, replayed(place).next, "another one has its turn");
        first.close();
    }

    /// ZooKeeper forgets the session, as if it had not heard of it for long.
    private static void endSession(Place place, BookKeeperLog log) throws Exception {
        ZooKeeper session = log.zooKeeper().getZookeeperClient().getZooKeeper();
        CountDownLatch connected = new CountDownLatch(1);
        ZooKeeper twin = new ZooKeeper(
                place.zooKeeper(),
                10_000,
                event -> {
                    if (event.getState() == KeeperState.SyncConnected) {
                        connected.countDown();
                    }
                },
                session.getSessionId(),
                session.getSessionPasswd());
        connected.await();
        twin.close();
    }

    /// With one of three bookies gone, entries are acknowledged, ledgers are rolled, and the log is opened.
    @Test
    @ResourceLock(BOOKIES)
    void aBookieMayDie() throws Exception {
        Place place = place();
        RecordingListener listener = new RecordingListener();
        try (Log log = new BookKeeperLog(place)) {
            log.open(new Replayed(), listener);
            append(log, 0, 500);
            bookies.get(2).service().kill();
            listener.awaitAcknowledged(append(log, 500, 3000));
        }
        try {
            assertEquals(3000, replayed(place).next);
            try (Log log = new BookKeeperLog(place)) {
                log.open(new Replayed(), listener);
                append(log, 3000, 3500);
            }
        } finally {
            bookies.restart(2);
        }
        try (Log log = new BookKeeperLog(place)) {
            log.open(new Replayed(), listener);
            append(log, 3500, 4000);
        }
        assertEquals(4000, replayed(place).next);
    }

    private static void assertIncreasing(List<Long> numbers) {
        for (int at = 1; at < numbers.size(); at++) {
            assertTrue(numbers.get(at - 1) < numbers.get(at), numbers.get(at - 1) + " before " + numbers.get(at));
        }
    }
}
