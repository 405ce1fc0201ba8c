package cedrat.oracle.bench;

import java.util.SplittableRandom;
import java.util.concurrent.CountDownLatch;
import java.util.function.Supplier;

/// The paper's load (ReTSO §4) over one connection: transactions that begin, do nothing, and commit 0 to 20
/// random rows, one after the other, as many side by side as are outstanding. Begin and commit count as one
/// transaction.
///
/// Every answer is checked: start timestamps ascend over a connection, an outcome is an abort or lies above
/// start, and each answer has a request. Acknowledged commits are kept ([Acknowledged]), to be
/// compared with the log.
///
/// For the thread of its connection alone.
public final class Load {
    static final int ROWS_MAX = 20;

    /// The outcome of a transaction that has aborted.
    public static final long ABORTED = -1;

    /// Not yet, or no longer, in an open transaction.
    private static final long NO_START = 0;

    /// Parameters of a load.
    ///
    /// @param outstanding transactions side by side
    /// @param outstandingWarm the same while the compiler is at work
    /// @param keySpace rows to draw from
    /// @param perSecond transactions begin so often, instead of each as soon as the one before has ended; 0
    ///     for that
    /// @param keep whether what is acknowledged is kept, and start timestamps must ascend
    record Wanted(int outstanding, int outstandingWarm, long keySpace, double perSecond, boolean keep) {
        int workers() {
            return Math.max(outstanding, outstandingWarm);
        }
    }

    private final Wanted wanted;
    private final Supplier<Phase> phase;
    private final CountDownLatch ended;
    private final Results results;
    private final SplittableRandom random;
    private Connection connection;

    private final long[] asked;
    private final long[] starts;
    private final long[][] rows;
    private final int[] counts;
    private int running;

    private long newestStart;

    /// Workers that wait for their turn, where turns come by the clock.
    private final int[] idle;

    private int idleCount;
    private long nextTurn;

    /// One of a process's loads, which share `results` and a thread; `ended` is counted down when its last
    /// transaction ends.
    Load(Wanted wanted, long seed, Supplier<Phase> phase, Results results, CountDownLatch ended) {
        this.wanted = wanted;
        this.phase = phase;
        this.results = results;
        this.ended = ended;
        random = new SplittableRandom(seed);
        running = wanted.workers();
        asked = new long[running];
        starts = new long[running];
        rows = new long[running][ROWS_MAX];
        counts = new int[running];
        idle = new int[running];
    }

    // ---- transactions ----

    void run(Connection over) {
        connection = over;
        nextTurn = System.nanoTime();
        for (int worker = 0; worker < asked.length; worker++) {
            begin(worker);
        }
    }

    private void begin(int worker) {
        Phase now = phase.get();
        if (now == Phase.ENDING) {
            stop();
        } else if (now != Phase.WARM_UP && running > wanted.outstanding()) {
            running--;
        } else if (wanted.perSecond() > 0 && now != Phase.WARM_UP) {
            idle[idleCount++] = worker;
            turn();
        } else {
            ask(worker);
        }
    }

    private void ask(int worker) {
        asked[worker] = System.nanoTime();
        connection.begin(worker);
    }

    /// Begins the transactions whose turn has come; called from time to time.
    void turn() {
        if (phase.get() == Phase.ENDING) {
            while (idleCount > 0) {
                idleCount--;
                stop();
            }
            return;
        }
        long now = System.nanoTime();
        long interval = (long) (1e9 / wanted.perSecond());
        // Missed turns are lost: a system that was late is not asked for more than the rate.
        nextTurn = Math.max(nextTurn, now - 1_000_000_000);
        while (idleCount > 0 && nextTurn <= now) {
            nextTurn += interval;
            ask(idle[--idleCount]);
        }
    }

    private void stop() {
        if (--running == 0) {
            results.frames += connection.frames();
            connection.close();
            ended.countDown();
        }
    }

    // ---- answers ----

    /// A transaction has begun.
    public void begun(int worker, long start) {
        long now = System.nanoTime();
        results.answered(now, phase.get() == Phase.MEASURING);
        if (phase.get() == Phase.MEASURING) {
            results.starts.add(now - asked[worker]);
        }
        if (starts[worker] != NO_START || start <= 0 || wanted.keep() && start <= newestStart) {
            wrong("start timestamp " + start + " after " + newestStart);
        }
        newestStart = start;
        starts[worker] = start;
        int count = random.nextInt(ROWS_MAX + 1);
        for (int at = 0; at < count; at++) {
            rows[worker][at] = 1 + Math.unsignedMultiplyHigh(random.nextLong(), wanted.keySpace());
        }
        counts[worker] = count;
        asked[worker] = now;
        connection.commit(worker, start, rows[worker], count);
    }

    /// A transaction is decided: its commit timestamp, or [#ABORTED]. Of one that has written nothing, the
    /// commit timestamp may be its start timestamp.
    public void decided(int worker, long outcome) {
        long now = System.nanoTime();
        boolean counts = phase.get() == Phase.MEASURING;
        results.answered(now, counts);
        long start = starts[worker];
        starts[worker] = NO_START;
        if (counts) {
            results.commits.add(now - asked[worker]);
            results.aborted += outcome == ABORTED ? 1 : 0;
        }
        boolean wroteNothing = this.counts[worker] == 0;
        if (start == NO_START || outcome != ABORTED && (outcome < start || outcome == start && !wroteNothing)) {
            wrong("outcome " + outcome + " of the transaction that began at " + start);
        }
        if (wanted.keep() && outcome > start) {
            results.acknowledged.add(start, outcome, rows[worker], this.counts[worker]);
        }
        results.decided++;
        if (outcome != start) {
            connection.cleaned(start);
        }
        begin(worker);
    }

    /// Something that must not happen has happened.
    public void wrong(String what) {
        results.wrong(what);
    }

    /// A transaction will not be answered.
    public void failed(int worker, String why) {
        wrong(why);
        stop();
    }
}
