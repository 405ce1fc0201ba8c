package cedrat.oracle.maintenance;

import java.time.Duration;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashSet;
import java.util.List;
import java.util.Optional;
import java.util.Set;

/// Problems that last. Each has one record when it begins and one when it ends, however often it is met in between.
/// **Threads:** any may call.
final class Outages {
    private static final class Outage {
        final Problem problem;
        final long since;
        final Set<String> affected = new HashSet<>();
        long failures;

        Outage(Problem problem, long since) {
            this.problem = problem;
            this.since = since;
        }
    }

    private final Waiting waiting;
    private final Records records;
    private final List<Outage> outages = new ArrayList<>();

    Outages(Waiting waiting, Records records) {
        this.waiting = waiting;
        this.records = records;
    }

    /// A problem has kept a work from its end. The work may still have earlier ones.
    synchronized void failed(String work, Problem problem) {
        Outage outage = outages.stream()
                .filter(each -> each.problem.isLike(problem))
                .findFirst()
                .orElseGet(() -> begin(problem));
        outage.affected.add(work);
        outage.failures++;
    }

    /// A work has come to its end, with these problems left.
    synchronized void ended(String work, List<Problem> left) {
        left.forEach(problem -> failed(work, problem));
        for (Outage outage : List.copyOf(outages)) {
            boolean isLeft = left.stream().anyMatch(outage.problem::isLike);
            if (!isLeft && outage.affected.remove(work) && outage.affected.isEmpty()) {
                outages.remove(outage);
                records.ended(outage.problem, Duration.ofNanos(waiting.nanos() - outage.since), outage.failures);
            }
        }
    }

    /// Returns the gravest of the present problems.
    synchronized Optional<Problem> gravest() {
        return outages.stream().map(outage -> outage.problem).max(Comparator.comparing(Problem::kind));
    }

    private Outage begin(Problem problem) {
        Outage outage = new Outage(problem, waiting.nanos());
        outages.add(outage);
        records.began(problem);
        return outage;
    }
}
