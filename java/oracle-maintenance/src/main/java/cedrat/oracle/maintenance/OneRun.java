package cedrat.oracle.maintenance;

import java.io.PrintWriter;
import java.time.Duration;
import java.util.Optional;

/// A job that is done once. **Threads:** one.
final class OneRun {
    /// All tables were visited.
    static final int EXIT_DONE = 0;
    /// The oracle or the store does not answer; it may be run again.
    static final int EXIT_FAILED = 1;
    /// Something has to be mended first.
    static final int EXIT_REFUSED = 5;

    private final Store.Opener opener;
    private final long rowsPerSecond;
    private final Waiting waiting;
    private final PrintWriter out;
    private final PrintWriter err;
    private final Outages outages;

    OneRun(Store.Opener opener, long rowsPerSecond, Waiting waiting, PrintWriter out, PrintWriter err) {
        this.opener = opener;
        this.rowsPerSecond = rowsPerSecond;
        this.waiting = waiting;
        this.out = out;
        this.err = err;
        outages = new Outages(waiting, new Records() {
            @Override
            public void began(Problem problem) {
                say(problem.message());
            }

            @Override
            public void ended(Problem problem, Duration time, long failures) {}
        });
    }

    private void say(String message) {
        err.println("cedrat-oracle: " + message);
        err.flush();
    }

    private final class Lines implements Progress {
        @Override
        public void passed(Job job, String namespace, Pass pass) {
            StringBuilder line = new StringBuilder(job + " namespace " + namespace + " tables " + pass.tables()
                    + " refused " + pass.refusals().size());
            pass.figures()
                    .forEach((name, value) ->
                            line.append(' ').append(name).append(' ').append(value));
            out.println(line);
            out.flush();
            if (pass.tables() == 0 && pass.refusals().isEmpty()) {
                say("the namespace " + namespace
                        + " has no tables for transactions: name those that have some with --namespace");
            }
        }

        @Override
        public void failed(Job job, String namespace) {}
    }

    /// Does a job. With `forgets`, a sweep is followed by another one as soon as that makes the oracle forget (K3).
    int run(Job job, boolean forgets) {
        Runner runner = new Runner(job, Duration.ZERO, rowsPerSecond, opener, waiting, outages, new Lines());
        try {
            boolean isDone = runner.round();
            if (isDone && forgets && runner.workers().stream().anyMatch(OneRun::forgetsLater)) {
                isDone = waiting.await(runner.workers().stream()
                                .map(OneRun::untilForgetting)
                                .max(Duration::compareTo)
                                .orElseThrow())
                        && runner.round();
            }
            Optional<Problem> gravest = outages.gravest();
            if (gravest.isPresent() && gravest.get().kind() == Problem.Kind.REFUSAL) {
                return EXIT_REFUSED;
            }
            return isDone ? EXIT_DONE : EXIT_FAILED;
        } finally {
            runner.close();
        }
    }

    private static boolean forgetsLater(Job.Worker worker) {
        return worker.part.tables().writesLast().isPositive();
    }

    private static Duration untilForgetting(Job.Worker worker) {
        return worker instanceof Job.Sweeping sweeping ? sweeping.untilForgetting() : Duration.ZERO;
    }
}
