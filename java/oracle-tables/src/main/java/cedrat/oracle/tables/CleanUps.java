package cedrat.oracle.tables;

import cedrat.oracle.client.ClientClosedException;
import cedrat.oracle.client.OracleClient;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.function.LongSupplier;

/// Clean-ups that wait to be tried again. The oracle keeps the outcome of a transaction of a client that lives until
/// the client reports that its rows are clean (O4g): so what has failed once is tried until it succeeds.
///
/// The queue is bounded: of what finds no room, the rows are left to a [Cleaner], and the outcome to the end of the
/// client's session. While some wait, all that are due are tried after growing delays, until too many have failed; when
/// the client is closed, none is.
///
/// **Threads:** any may call.
final class CleanUps {
    /// Maximum number of transactions, and of their rows.
    static final int TRANSACTIONS_MAX = 10_000;
    static final int ROWS_MAX = 100_000;

    static final Duration DELAY_MIN = Duration.ofMillis(100);
    static final Duration DELAY_MAX = Duration.ofSeconds(30);

    /// After so many failures the store, or the oracle, is left alone for a while.
    private static final int FAILURES_MAX = 4;

    /// Runs something after a delay.
    interface Timer {
        /// On threads of the background.
        Timer BACKGROUND = (delay, work) -> CompletableFuture.delayedExecutor(
                        delay.toNanos(), TimeUnit.NANOSECONDS, later -> Calls.thread(later)
                                .start())
                .execute(work);

        void schedule(Duration delay, Runnable work);
    }

    private final OracleClient oracle;
    private final Tables tables;
    private final Timer timer;
    private final LongSupplier clock;
    private final Calls calls = new Calls();

    // What follows is guarded by this object's monitor.
    private final ArrayDeque<CleanUp> waiting = new ArrayDeque<>();
    /// Number of clean-ups that wait or are being tried, and of their rows.
    private int transactions;
    private int rows;
    private boolean isScheduled;
    private boolean isClosed;
    private Duration delay = DELAY_MIN;

    CleanUps(OracleClient oracle, Tables tables, Timer timer, LongSupplier clock) {
        this.oracle = oracle;
        this.tables = tables;
        this.timer = timer;
        this.clock = clock;
    }

    long nowNanos() {
        return clock.getAsLong();
    }

    /// Makes the calls of clean-ups, and of the transactions that they come after.
    Calls calls() {
        return calls;
    }

    /// Returns the number of transactions that wait.
    synchronized int count() {
        return transactions;
    }

    /// Adds one; returns `false` if there is no room.
    synchronized boolean add(CleanUp cleanUp) {
        if (isClosed) {
            return true; // the session is over: a sweep makes the oracle forget what is left
        }
        boolean isFull = transactions >= TRANSACTIONS_MAX || rows + cleanUp.rows() > ROWS_MAX && transactions > 0;
        if (isFull) {
            return false;
        }
        transactions++;
        rows += cleanUp.rows();
        waiting.add(cleanUp);
        schedule();
        return true;
    }

    private void schedule() {
        if (!isScheduled && transactions > 0) {
            isScheduled = true;
            timer.schedule(delay, this::run);
        }
    }

    private void run() {
        boolean isProgress = false;
        try {
            isProgress = tryAll();
        } finally {
            synchronized (this) {
                Duration doubled = delay.multipliedBy(2);
                delay = isProgress ? DELAY_MIN : doubled.compareTo(DELAY_MAX) < 0 ? doubled : DELAY_MAX;
                isScheduled = false;
                schedule();
            }
        }
    }

    /// Tries each one once that waits and is due. Returns whether one has succeeded, and none has failed.
    private boolean tryAll() {
        int failures = 0;
        int successes = 0;
        long writesLast = tables.writesLast().toNanos();
        for (int left = size(); left > 0 && failures < FAILURES_MAX; left--) {
            CleanUp next = poll();
            boolean isDone = false;
            try {
                if (next.isDue(nowNanos(), writesLast)) {
                    next.attempt(oracle, calls, tables.callsMax());
                    isDone = true;
                    successes++;
                }
            } catch (ClientClosedException ended) {
                close();
                return false;
            } catch (RuntimeException later) {
                failures++;
            } finally {
                put(next, isDone);
            }
        }
        return successes > 0 && failures == 0;
    }

    private synchronized int size() {
        return waiting.size();
    }

    private synchronized CleanUp poll() {
        return waiting.remove();
    }

    private synchronized void put(CleanUp tried, boolean isDone) {
        if (isDone && !isClosed) {
            transactions--;
            rows -= tried.rows();
        } else if (!isClosed) {
            waiting.add(tried);
        }
    }

    private synchronized void close() {
        isClosed = true;
        waiting.clear();
        transactions = 0;
        rows = 0;
    }
}
