package cedrat.oracle.log.bookkeeper;

import cedrat.oracle.log.DamagedEntryException;
import cedrat.oracle.log.Log;
import cedrat.oracle.log.LogAbsentException;
import cedrat.oracle.log.LogExistsException;
import cedrat.oracle.log.OpenMode;
import cedrat.oracle.log.SharedLogs.Place;
import java.io.IOException;
import java.security.SecureRandom;
import java.util.Objects;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.leader.LeaderLatch;
import org.apache.curator.framework.recipes.leader.LeaderLatchListener;
import org.apache.curator.framework.state.SessionConnectionStateErrorPolicy;
import org.apache.curator.retry.RetryNTimes;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/// A log in Apache BookKeeper, for several servers of which one owns it.
///
/// ```text
/// Fresh ──open──▶ Standing by ──its turn──▶ Open ──close──▶ Closed
///                                             │                ▲
///                                             └─failure─▶ Failed ──close
/// ```
///
/// Standing by: the server follows the log, and replays the acknowledged entries, until the owner ends or
/// loses its ZooKeeper session, or its process is gone ([LeaderWatch]). Then (L4) it takes the log in four
/// steps. It changes the list of ledgers, so that the former owner cannot change it any more. It recovers the
/// ledgers that are not closed, so that the former owner cannot append to them any more. It replays their
/// content, and lists a fresh ledger.
///
/// So safety depends neither on a clock nor on what the former owner has noticed: it may have been suspended
/// all the while, and finds when it resumes that none of its appends is acknowledged. The loss of its session
/// makes a server stop at once, but does not protect the log.
///
/// An acknowledged entry is on the disks of at least two bookies.
public final class BookKeeperLog implements Log {
    private static final int CONNECT_S = 30;
    private static final int RETRIES = 30;
    private static final int RETRY_MS = 100;

    /// So often does one that stands by look for what is new.
    private static final int FOLLOW_MS = 50;

    /// So often in a row may it fail to.
    private static final int FOLLOW_FAILURES_MAX = 200;

    private static final String ELECTION = "/election";

    private static final SecureRandom RANDOM = new SecureRandom();

    private enum State {
        FRESH,
        OPEN,
        CLOSED
    }

    private static final Logger RECORDS = LoggerFactory.getLogger(BookKeeperLog.class);

    private final Place place;
    private final OpenMode mode;
    private State state = State.FRESH;
    private CuratorFramework zooKeeper;
    private LeaderLatch turn;
    /// `null` if the place has no address for it.
    private LivenessSocket liveness;
    private volatile LeaderWatch watch;
    private Ledgers ledgers;
    private Appender appender;

    /// A fresh one, whose log is created if it is missing.
    public BookKeeperLog(Place place) {
        this(place, OpenMode.CREATE);
    }

    /// A fresh one.
    public BookKeeperLog(Place place, OpenMode mode) {
        this.place = Objects.requireNonNull(place);
        this.mode = Objects.requireNonNull(mode);
    }

    @Override
    public void open(Replay replay, Listener listener) throws IOException, DamagedEntryException {
        Objects.requireNonNull(replay);
        Objects.requireNonNull(listener);
        if (state != State.FRESH) {
            throw new IllegalStateException("cannot open a log twice: make another instance");
        }
        state = State.CLOSED; // of no use, unless all goes well
        try {
            zooKeeper = connect(place);
            ListNode node = new ListNode(zooKeeper, place.path());
            ledgers = new Ledgers(place.zooKeeper(), place.bookKeeper());
            prepare(node);
            stand();
            try (Follower follower = new Follower(ledgers, replay)) {
                standBy(node, follower);
                watch.close();
                finish(follower, node.take(RANDOM.nextLong()));
                checkEntries(follower.replayed(), node);
                OrphanLedgers strays = new OrphanLedgers(ledgers, node.origin(), node.list());
                appender = new Appender(
                        ledgers,
                        node,
                        follower.parts(),
                        follower.replayed(),
                        place.ledgerBytesMax(),
                        new Leaving(listener));
                appender.delete(strays);
            }
            turn.addListener(new LeaderLatchListener() {
                @Override
                public void isLeader() {
                    // It is, all the time.
                }

                @Override
                public void notLeader() {
                    appender.fail(new ReplacedException(
                            "this server has lost its session with ZooKeeper, and another server may have taken over",
                            null));
                }
            });
            if (!turn.hasLeadership()) {
                throw new ReplacedException(
                        "this server has lost its session with ZooKeeper while it took over the log", null);
            }
            state = State.OPEN;
        } finally {
            if (state != State.OPEN) {
                letGo();
            }
        }
    }

    /// Leaves the election when the log has failed: nothing is appended any more, and the process may live for
    /// long (O6p).
    private final class Leaving implements Listener {
        private final Listener listener;

        Leaving(Listener listener) {
            this.listener = listener;
        }

        @Override
        public void acknowledged(long number) {
            listener.acknowledged(number);
        }

        /// On a thread of its own: the election may call the appender, whose lock this thread has.
        @Override
        public void failed(Exception cause) {
            Thread.ofPlatform().daemon().name("leave-election").start(() -> {
                try {
                    leaveElection();
                } catch (IOException problem) {
                    RECORDS.atWarn().setCause(problem).log("cannot leave the election, which ends with the process");
                }
            });
            listener.failed(cause);
        }
    }

    private synchronized void leaveElection() throws IOException {
        if (turn != null && turn.getState() == LeaderLatch.State.STARTED) {
            turn.close(LeaderLatch.CloseMode.SILENT);
        }
    }

    private static CuratorFramework connect(Place place) throws IOException {
        CuratorFrameworkFactory.Builder builder = CuratorFrameworkFactory.builder()
                .connectString(place.zooKeeper())
                .sessionTimeoutMs((int) place.sessionTimeout().toMillis())
                .connectionTimeoutMs((int) place.sessionTimeout().toMillis())
                .retryPolicy(new RetryNTimes(RETRIES, RETRY_MS))
                // A connection that is lost and comes back within the session's time is nothing to stop for.
                .connectionStateErrorPolicy(new SessionConnectionStateErrorPolicy());
        if (place.credentials().isPresent()) {
            builder.authorization("digest", Credentials.read(place.credentials().get()))
                    .aclProvider(Credentials.owned(place.path() + ELECTION));
        }
        CuratorFramework zooKeeper = builder.build();
        zooKeeper.start();
        boolean isConnected = false;
        try {
            if (!zooKeeper.blockUntilConnected(CONNECT_S, TimeUnit.SECONDS)) {
                throw new IOException("cannot reach ZooKeeper at " + place.zooKeeper() + " within " + CONNECT_S
                        + " s: check that it runs");
            }
            isConnected = true;
            return zooKeeper;
        } catch (InterruptedException interrupted) {
            throw interrupted(interrupted);
        } finally {
            if (!isConnected) {
                zooKeeper.close();
            }
        }
    }

    /// Creates the list, or refuses a log that does not fit the mode, before this server can have an effect on others.
    private void prepare(ListNode node) throws IOException {
        boolean exists = node.exists();
        if (mode == OpenMode.EXISTING && !exists) {
            throw new LogAbsentException(node.where(), true);
        }
        if (mode == OpenMode.CREATE_NEW && exists) {
            if (hasEntries(node.read())) {
                throw new LogExistsException(node.where());
            }
            if (node.hasServers(place.path() + ELECTION)) {
                throw new IOException("cannot create the log " + node.where()
                        + ", because another process has it open: end that process first");
            }
        }
        if (mode != OpenMode.EXISTING) {
            node.create();
        }
    }

    /// Whether a ledger has an entry that is known to be acknowledged. The only one of a log may not be known to be.
    private boolean hasEntries(LedgerList list) throws IOException {
        for (long ledger : list.ledgers()) {
            try (LedgerReader reader = ledgers.follow(ledger)) {
                if (reader.askLast() >= 0) {
                    return true;
                }
            }
        }
        return false;
    }

    private void checkEntries(long replayed, ListNode node) throws IOException {
        if (mode == OpenMode.EXISTING && replayed == 0) {
            throw new LogAbsentException(node.where(), false);
        }
        if (mode == OpenMode.CREATE_NEW && replayed > 0) {
            throw new LogExistsException(node.where());
        }
    }

    private void stand() throws IOException {
        String id = place.server();
        if (place.liveness().isPresent()) {
            liveness = new LivenessSocket(place.liveness().get());
            id = LeaderWatch.id(id, liveness);
        }
        String election = place.path() + ELECTION;
        turn = new LeaderLatch(zooKeeper, election, id);
        try {
            turn.start();
            watch = new LeaderWatch(zooKeeper, election, id);
        } catch (Exception problem) {
            throw new IOException(
                    "cannot join the election at " + place.path() + " of ZooKeeper: " + problem.getMessage(), problem);
        }
    }

    /// Replays the entries of a log that are known to be acknowledged, without taking it: no ledger is closed,
    /// and the list is not changed. If a server still appends, entries are missing at the end. If the last server
    /// has died, the last acknowledged ones may be missing too, because an acknowledgement is recorded in the
    /// entries that follow.
    static void read(Place place, Replay replay) throws IOException, DamagedEntryException {
        try (CuratorFramework zooKeeper = connect(place);
                Ledgers ledgers = new Ledgers(place.zooKeeper(), place.bookKeeper());
                Follower follower = new Follower(ledgers, replay)) {
            ListNode node = new ListNode(zooKeeper, place.path());
            if (!node.exists()) {
                throw new IOException("there is no log at " + place.path() + " of the ZooKeeper " + place.zooKeeper());
            }
            follower.follow(node.read());
        } catch (BehindException gone) {
            throw new IOException(
                    "the log was truncated beyond the next entry while it was read: read the log again", gone);
        }
    }

    private void standBy(ListNode node, Follower follower) throws IOException, DamagedEntryException {
        int failures = 0;
        try {
            do {
                try {
                    follower.follow(node.read());
                    failures = 0;
                } catch (LogAbsentException gone) {
                    throw gone;
                } catch (BehindException behind) {
                    if (++failures > FOLLOW_FAILURES_MAX) {
                        throw new IOException(
                                "cannot follow the log, which is truncated faster than this server reads: start this"
                                        + " server again when the leader has less load",
                                behind);
                    }
                    restart(follower);
                } catch (IOException problem) {
                    // The one that serves may be about to change just this.
                    if (++failures > FOLLOW_FAILURES_MAX) {
                        throw problem;
                    }
                }
            } while (!turn.await(FOLLOW_MS, TimeUnit.MILLISECONDS));
        } catch (InterruptedException interrupted) {
            throw interrupted(interrupted);
        }
    }

    /// Replays the rest. The list may have been truncated after its last read and before the log was taken.
    private static void finish(Follower follower, LedgerList taken) throws IOException, DamagedEntryException {
        try {
            follower.finish(taken);
        } catch (BehindException behind) {
            restart(follower);
            follower.finish(taken);
        }
    }

    private static void restart(Follower follower) throws IOException {
        RECORDS.atInfo()
                .addKeyValue("replayed", follower.replayed())
                .log("the log was truncated beyond the next entry to replay: the replay restarts");
        follower.restart();
    }

    private static IOException interrupted(InterruptedException interrupted) {
        Thread.currentThread().interrupt();
        return new IOException("the thread was interrupted while the server was standing by", interrupted);
    }

    /// While one is written, the entries of the next one gather; a third one on the way hides the network.
    @Override
    public Kind kind() {
        return Kind.BOOKKEEPER;
    }

    @Override
    public int appendsMax() {
        return 3;
    }

    @Override
    public long append(byte[] bytes, int from, int length) {
        checkOpen();
        Objects.checkFromIndexSize(from, length, bytes.length);
        Log.checkLength(length);
        return appender.append(bytes, from, length);
    }

    /// Room comes back by whole ledgers.
    @Override
    public void forgetBefore(long number) {
        checkOpen();
        appender.forgetBefore(number);
    }

    /// For tests, which break it.
    CuratorFramework zooKeeper() {
        return zooKeeper;
    }

    /// For tests, which close it as the end of the process does.
    LivenessSocket liveness() {
        return liveness;
    }

    /// For tests, which wait for its connections.
    LeaderWatch watch() {
        return watch;
    }

    /// For tests: waits until what is done behind its back was done so far.
    void settle() throws InterruptedException, ExecutionException {
        appender.settle();
    }

    private void checkOpen() {
        if (state != State.OPEN) {
            throw new IllegalStateException("the log is not open");
        }
    }

    @Override
    public void close() throws IOException {
        boolean wasOpen = state == State.OPEN;
        state = State.CLOSED;
        if (wasOpen) {
            try {
                appender.close();
            } finally {
                letGo();
            }
        }
    }

    private void letGo() throws IOException {
        try {
            if (watch != null) {
                watch.close();
            }
            leaveElection();
        } finally {
            if (liveness != null) {
                liveness.close();
            }
            try {
                if (ledgers != null) {
                    ledgers.close();
                }
            } finally {
                if (zooKeeper != null) {
                    zooKeeper.close();
                }
            }
        }
    }
}
