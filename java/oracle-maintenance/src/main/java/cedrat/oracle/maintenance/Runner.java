package cedrat.oracle.maintenance;

import cedrat.oracle.client.ClientClosedException;
import cedrat.oracle.client.OracleIdentity;
import cedrat.oracle.tables.TableException;
import java.time.Duration;
import java.util.List;
import java.util.Objects;

/// Does one job again and again, until it is stopped. It goes on after every failure.
///
/// It has a store of its own. A pass that is cut off, also by the end of the process, is repeated: cleaners and pruners
/// may be held up, killed and repeated at any point, and any number may run at a time (K2, P1). **Threads:** one.
final class Runner implements Runnable {
    /// Longest pause after a failure.
    static final Duration BACK_OFF_MAX = Duration.ofMinutes(1);

    private static final Duration BACK_OFF_MIN = Duration.ofSeconds(1);
    /// After so many failed rounds in a row the store is opened anew. A sweep then waits for a new mark (K3), which
    /// does not matter after an outage of some minutes.
    private static final int REOPEN_AFTER = 8;

    private final Job job;
    private final Duration every;
    private final long rowsPerSecond;
    private final Store.Opener opener;
    private final Waiting waiting;
    private final Outages outages;
    private final Progress progress;
    /// `null` before an oracle has answered, or if it has none.
    private OracleIdentity first;
    /// `null` while it is closed.
    private Store store;
    private List<Job.Worker> workers = List.of();

    /// @param every pause after a round without a failure
    /// @param rowsPerSecond 0 for no limit
    Runner(
            Job job,
            Duration every,
            long rowsPerSecond,
            Store.Opener opener,
            Waiting waiting,
            Outages outages,
            Progress progress) {
        this.job = job;
        this.every = every;
        this.rowsPerSecond = rowsPerSecond;
        this.opener = opener;
        this.waiting = waiting;
        this.outages = outages;
        this.progress = progress;
    }

    @Override
    public void run() {
        try {
            int failures = 0;
            while (!waiting.isStopped()) {
                failures = round() ? 0 : failures + 1;
                if (failures > 0 && failures % REOPEN_AFTER == 0) {
                    close();
                }
                waiting.await(failures == 0 ? every : backOff(failures));
            }
        } catch (Waiting.StoppedException stopped) {
            // a pass was cut off
        } finally {
            close();
        }
    }

    static Duration backOff(int failures) {
        Duration doubled = BACK_OFF_MIN.multipliedBy(1L << Math.min(failures - 1, 16));
        return doubled.compareTo(BACK_OFF_MAX) < 0 ? doubled : BACK_OFF_MAX;
    }

    /// Goes once over all namespaces. Returns whether all of their tables were visited.
    ///
    /// @throws Waiting.StoppedException at the stop
    boolean round() {
        if (store == null && !open()) {
            return false;
        }
        boolean isWhole = true;
        for (Job.Worker worker : workers) {
            Problem failure = pass(worker);
            isWhole &= failure == null;
            if (failure != null && failure.failure() instanceof ClientClosedException) {
                close();
            }
            if (failure != null && failure.kind() == Problem.Kind.ORACLE || store == null) {
                break; // it is the same oracle for the others
            }
        }
        return isWhole;
    }

    /// Returns one of the problems that have kept it from visiting all tables; `null` if it has.
    private Problem pass(Job.Worker worker) {
        String namespace = worker.part.name();
        String work = work(namespace);
        try {
            checkOracle(namespace);
            Pass pass = worker.pass();
            List<Problem> left = pass.refusals().stream()
                    .map(refusal -> Problem.of(refusal, opener))
                    .toList();
            outages.ended(work, left);
            progress.passed(job, namespace, pass);
            return left.isEmpty() ? null : left.getFirst();
        } catch (Waiting.StoppedException stopped) {
            throw stopped;
        } catch (RuntimeException failure) {
            Problem problem = Problem.of(failure, opener);
            outages.failed(work, problem);
            progress.failed(job, namespace);
            return problem;
        }
    }

    /// Goes on only with the first oracle, also after the store was opened anew: tables of earlier versions
    /// name none, and another oracle knows none of their transactions.
    private void checkOracle(String namespace) {
        OracleIdentity now = store.oracle().identity().orElse(null);
        if (first == null) {
            first = now;
        }
        if (!Objects.equals(first, now)) {
            throw TableException.ofOtherOracle("the tables of namespace " + namespace, first.toString(), now);
        }
    }

    private boolean open() {
        try {
            Store opened = opener.open();
            RowRate pace = new RowRate(rowsPerSecond, waiting);
            store = opened;
            workers = opened.parts().stream()
                    .map(part -> job.worker(opened, part, pace))
                    .toList();
            return true;
        } catch (RuntimeException failure) {
            Problem problem = Problem.of(failure, opener);
            for (String namespace : opener.namespaces()) {
                outages.failed(work(namespace), problem);
                progress.failed(job, namespace);
            }
            return false;
        }
    }

    private String work(String namespace) {
        return job + " of " + namespace;
    }

    List<Job.Worker> workers() {
        return workers;
    }

    /// Closes the store; the next round opens it anew.
    void close() {
        if (store != null) {
            Store closing = store;
            store = null;
            workers = List.of();
            closing.close();
        }
    }
}
