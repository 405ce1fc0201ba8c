package cedrat.oracle.tables;

import cedrat.oracle.client.OracleClient;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Executor;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import java.util.function.LongSupplier;

/// First clean-ups of transactions that have ended. Those of some milliseconds go to the store together, so that the
/// commit timestamps of many transactions take one request for each server of the store.
///
/// - U1  A commit timestamp is written without a look at the marker (O7k): it is true whenever it arrives, it may come
///   twice, and where a pruner has removed the version it is an orphan that the next pruning removes.
/// - U2  Versions of an aborted transaction are erased only where the marker is, in the same step (O7a).
/// - U3  What fails, or may still arrive, is left to a queue of repetitions. These may be late by any time, and check
///   the marker always: a table may have been dropped meanwhile, and created for another oracle (O7l).
///
/// **Threads:** any may call.
final class CleanUpQueue {
    /// For so long after it was received, an outcome is used without asking whether the oracle was restored since: less
    /// than it takes to stop the servers of an oracle, restore a backup and begin again.
    static final Duration OUTCOME_LASTS = Duration.ofSeconds(1);

    /// Number of rows that one thread takes together, unless one transaction has more.
    private static final int ROWS_MAX = 2048;

    /// Time for which threads of the queue wait for more clean-ups, so that these share a request, unless many wait. A
    /// reader that meets a row meanwhile asks the oracle.
    private static final Duration GATHERING = Duration.ofMillis(10);

    /// Number of clean-ups that are not kept waiting.
    private static final int GATHERED_MAX = 256;

    private static final int THREADS_MAX = 16;

    /// Number of clean-ups that wait for a thread before a further one helps: the fewer threads, the more transactions
    /// share a request.
    private static final int WAITING_MAX = 512;

    private static final int IDLE_SECONDS = 10;

    private final OracleClient oracle;
    private final Tables tables;
    private final Calls calls;
    private final Executor executor;
    /// Whether the executor is one of the queue: only its threads gather.
    private final boolean isOwn;
    private final LongSupplier clock;
    private final Consumer<CleanUp> repetitions;
    private final Fault fault;

    // What follows is guarded by this object's monitor.
    private final ArrayDeque<CleanUp> waiting = new ArrayDeque<>();
    /// Time from which on the first of them waits.
    private long waitingSince;
    /// Number of threads that want the queue empty.
    private int draining;
    /// Number of batches that threads have taken, and not ended.
    private int running;

    /// A queue.
    ///
    /// @param executor runs the clean-ups; empty for threads of the queue
    /// @param repetitions receives what is left to be done
    CleanUpQueue(
            OracleClient oracle,
            Tables tables,
            CleanUps cleanUps,
            Optional<Executor> executor,
            Consumer<CleanUp> repetitions,
            Fault fault) {
        this.oracle = oracle;
        this.tables = tables;
        this.calls = cleanUps.calls();
        this.clock = cleanUps::nowNanos;
        this.executor = executor.orElseGet(CleanUpQueue::background);
        isOwn = executor.isEmpty();
        this.repetitions = repetitions;
        this.fault = fault;
    }

    /// Returns threads that end by themselves. If clean-ups cannot keep up, those that commit help.
    private static Executor background() {
        ThreadPoolExecutor threads = new ThreadPoolExecutor(
                1,
                THREADS_MAX,
                IDLE_SECONDS,
                TimeUnit.SECONDS,
                new LinkedBlockingQueue<>(WAITING_MAX),
                Calls::thread,
                new ThreadPoolExecutor.CallerRunsPolicy());
        threads.allowCoreThreadTimeOut(true);
        return threads;
    }

    /// Adds a clean-up whose outcome was received just now.
    void add(CleanUp cleanUp) {
        synchronized (this) {
            if (waiting.isEmpty()) {
                waitingSince = System.nanoTime();
            }
            waiting.add(cleanUp);
            if (waiting.size() == GATHERED_MAX) {
                notifyAll();
            }
        }
        try {
            executor.execute(isOwn ? this::gather : this::run);
        } catch (RejectedExecutionException refused) {
            List<CleanUp> left = take();
            if (!left.isEmpty()) {
                end(left, Set.of());
            }
        }
    }

    /// Cleans up what waits, on this thread, and then waits for what others do.
    void drain() throws InterruptedException {
        synchronized (this) {
            draining++;
            notifyAll();
        }
        try {
            while (run()) {
                // until nothing waits
            }
            synchronized (this) {
                while (running > 0) {
                    wait();
                }
            }
        } finally {
            synchronized (this) {
                draining--;
            }
        }
    }

    /// Waits for others to share a request with, and cleans up.
    private void gather() {
        synchronized (this) {
            try {
                long left = toGather();
                while (left > 0) {
                    TimeUnit.NANOSECONDS.timedWait(this, left);
                    left = toGather();
                }
            } catch (InterruptedException now) {
                Thread.currentThread().interrupt();
            }
        }
        run();
    }

    /// Returns the time for which others may still be awaited; not positive if there is none.
    private synchronized long toGather() {
        boolean isNow = waiting.isEmpty() || waiting.size() >= GATHERED_MAX || draining > 0;
        return isNow ? 0 : waitingSince + GATHERING.toNanos() - System.nanoTime();
    }

    /// Cleans up some of what waits; returns `false` if nothing does.
    private boolean run() {
        List<CleanUp> batch = take();
        if (batch.isEmpty()) {
            return false;
        }
        Set<CleanUp> done = new HashSet<>();
        try {
            clean(batch, done);
        } catch (RuntimeException failed) {
            // What is not done is tried again: no transaction loses its outcome by that.
        } finally {
            end(batch, done);
        }
        return true;
    }

    private synchronized List<CleanUp> take() {
        List<CleanUp> batch = new ArrayList<>();
        int rows = 0;
        while (!waiting.isEmpty()
                && (batch.isEmpty() || rows + waiting.element().rows() <= ROWS_MAX)) {
            CleanUp next = waiting.remove();
            rows += next.rows();
            batch.add(next);
        }
        running += batch.isEmpty() ? 0 : 1;
        waitingSince = System.nanoTime();
        return batch;
    }

    private void end(List<CleanUp> batch, Set<CleanUp> done) {
        try {
            batch.stream().filter(each -> !done.contains(each)).forEach(repetitions);
        } finally {
            synchronized (this) {
                running--;
                notifyAll();
            }
        }
    }

    private void clean(List<CleanUp> batch, Set<CleanUp> done) {
        long now = clock.getAsLong();
        if (batch.stream().anyMatch(each -> each.age(now) > OUTCOME_LASTS.toNanos())) {
            oracle.confirm(); // O6j
        }
        Set<CleanUp> failed = ConcurrentHashMap.newKeySet();
        calls.forEach(jobs(batch), tables.callsMax(), job -> job.run(failed));
        for (CleanUp each : batch) {
            boolean isClean = !failed.contains(each) && !each.isInDoubt() || fault == Fault.CLEANED_IN_FLIGHT;
            if (isClean) {
                oracle.cleanedLater(each.start());
                done.add(each);
            }
        }
    }

    private List<Job> jobs(List<CleanUp> batch) {
        List<Job> jobs = new ArrayList<>();
        Map<Table, Map<Bytes, StampedRow>> stamped = new LinkedHashMap<>();
        for (CleanUp each : batch) {
            if (each.stamp().isEmpty()) {
                jobs.add(new Job(List.of(each)) {
                    @Override
                    Collection<CleanUp> call() {
                        return each.cleanMarked(calls, tables.callsMax()).isEmpty() ? List.of() : owners;
                    }
                });
                continue;
            }
            for (CleanUp.MarkedRow row : each.marked()) {
                stamped.computeIfAbsent(row.table, table -> new LinkedHashMap<>())
                        .computeIfAbsent(row.row, StampedRow::new)
                        .add(each);
            }
        }
        stamped.forEach((table, rows) -> Calls.groups(List.copyOf(rows.values()), row -> table)
                .forEach(group -> jobs.add(new StampJob(table, group))));
        return jobs;
    }

    /// A row with the commit timestamps of all transactions of a batch that have written it.
    private static final class StampedRow {
        final Bytes row;
        final List<CleanUp> owners = new ArrayList<>();

        StampedRow(Bytes row) {
            this.row = row;
        }

        void add(CleanUp owner) {
            owners.add(owner);
        }

        Mutation mutation() {
            List<Mutation.Stamp> stamps = new ArrayList<>();
            owners.forEach(owner -> owner.stamp().ifPresent(stamps::add));
            return Mutations.stamps(stamps);
        }
    }

    /// One call of the store for some transactions.
    private abstract static class Job {
        final Collection<CleanUp> owners;

        Job(Collection<CleanUp> owners) {
            this.owners = owners;
        }

        /// Makes the call, and returns the transactions of which something has failed.
        abstract Collection<CleanUp> call();

        void run(Set<CleanUp> failed) {
            Collection<CleanUp> unclean = owners; // also after an error
            try {
                unclean = call();
            } finally {
                failed.addAll(unclean);
            }
        }
    }

    private static final class StampJob extends Job {
        private final Table table;
        private final List<StampedRow> rows;

        StampJob(Table table, List<StampedRow> rows) {
            super(owners(rows));
            this.table = table;
            this.rows = rows;
        }

        private static Collection<CleanUp> owners(List<StampedRow> rows) {
            Set<CleanUp> all = new HashSet<>();
            rows.forEach(row -> all.addAll(row.owners));
            return all;
        }

        @Override
        Collection<CleanUp> call() {
            Map<Bytes, Mutation> changes = new LinkedHashMap<>();
            rows.forEach(row -> changes.put(row.row, row.mutation()));
            Set<Bytes> failures = table.mutate(changes).keySet();
            Set<CleanUp> unclean = new HashSet<>();
            rows.stream().filter(row -> failures.contains(row.row)).forEach(row -> unclean.addAll(row.owners));
            return unclean;
        }
    }
}
