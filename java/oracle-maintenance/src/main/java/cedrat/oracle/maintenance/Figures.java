package cedrat.oracle.maintenance;

import cedrat.oracle.server.OperationHttp;
import io.prometheus.metrics.model.snapshots.CounterSnapshot;
import io.prometheus.metrics.model.snapshots.GaugeSnapshot;
import io.prometheus.metrics.model.snapshots.Labels;
import io.prometheus.metrics.model.snapshots.MetricSnapshots;
import io.prometheus.metrics.model.snapshots.Unit;
import java.io.IOException;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.function.ToDoubleFunction;
import java.util.stream.Collectors;

/// Numbers of a service, for operators (docs/use/oracle-maintenance.md lists them). A name that was used once keeps its
/// meaning. **Threads:** any may call.
final class Figures implements Progress, OperationHttp.Answers {
    private static final String PREFIX = "cedrat_maintenance_";
    private static final double SECOND = 1e9;

    /// Metric of a figure of passes: the last one, or the sum of all.
    private record Metric(String name, String figure, boolean isSum, String help) {}

    private static final Map<Job, List<Metric>> METRICS = Map.of(
            Job.SWEEP,
            List.of(
                    new Metric("swept_rows", "rows", true, "Rows with markers that sweeps have visited."),
                    new Metric("committed_rows", "committed", true, "Rows whose committed versions were stamped."),
                    new Metric("aborted_rows", "aborted", true, "Rows from which aborted versions were removed."),
                    new Metric("open_rows", "open", false, "Rows that the last sweep has left to open transactions."),
                    new Metric(
                            "forgotten_transactions",
                            "forgotten",
                            true,
                            "Transactions of dead clients that the oracle has forgotten.")),
            Job.PRUNE,
            List.of(
                    new Metric("pruning_rows", "rows", true, "Rows that were read for old versions."),
                    new Metric("pruned_versions", "versions", true, "Versions that were removed."),
                    new Metric(
                            "low_water_mark",
                            "low-water-mark",
                            false,
                            "Low-water mark of the oracle at the last pruning.")));

    /// Numbers of a job for a namespace.
    private static final class Work {
        final Job job;
        final String namespace;
        /// Time of the last pass that has visited all tables; before it, the start of the service.
        long successNanos;
        boolean isDone;
        long passes;
        long failures;
        long tables;
        long refused;
        final Map<String, Long> figures = new HashMap<>();

        Work(Job job, String namespace, long nanos) {
            this.job = job;
            this.namespace = namespace;
            successNanos = nanos;
        }

        Labels labels() {
            return Labels.of("task", job.toString(), "namespace", namespace);
        }
    }

    private final Waiting waiting;
    private final Outages outages;
    private final List<Work> works = new ArrayList<>();

    Figures(Waiting waiting, Outages outages, List<Job> jobs, List<String> namespaces) {
        this.waiting = waiting;
        this.outages = outages;
        for (Job job : jobs) {
            for (String namespace : namespaces) {
                works.add(new Work(job, namespace, waiting.nanos()));
            }
        }
    }

    private Work work(Job job, String namespace) {
        return works.stream()
                .filter(work -> work.job == job && work.namespace.equals(namespace))
                .findFirst()
                .orElseThrow();
    }

    @Override
    public synchronized void passed(Job job, String namespace, Pass pass) {
        Work work = work(job, namespace);
        work.passes++;
        work.tables = pass.tables();
        work.refused = pass.refusals().size();
        work.isDone = pass.refusals().isEmpty();
        if (work.isDone) {
            work.successNanos = waiting.nanos();
        }
        for (Metric metric : METRICS.get(job)) {
            long value = pass.figures().get(metric.figure);
            work.figures.merge(metric.figure, value, metric.isSum ? Long::sum : (before, now) -> now);
        }
    }

    @Override
    public synchronized void failed(Job job, String namespace) {
        Work work = work(job, namespace);
        work.failures++;
        work.isDone = false;
    }

    private double ageSeconds(Work work) {
        return (waiting.nanos() - work.successNanos) / SECOND;
    }

    /// 200 unless a person has to mend something; with `mustServe`, only if the last pass of each job has visited all
    /// tables.
    @Override
    public synchronized OperationHttp.Answer health(boolean mustServe) {
        Optional<Problem> gravest = outages.gravest();
        boolean isOutage = gravest.isEmpty()
                || gravest.get().kind() == Problem.Kind.ORACLE
                || gravest.get().kind() == Problem.Kind.TABLES;
        boolean isWell = mustServe ? works.stream().allMatch(work -> work.isDone) : isOutage;
        String state = gravest.map(problem -> problem.kind().toString()).orElse("working");
        String why = gravest.map(Problem::description).orElse("each job is done when it is due");
        return OperationHttp.json(
                isWell,
                "{\"state\":\"" + state + "\",\"why\":\"" + OperationHttp.escaped(why) + "\",\"tasks\":["
                        + works.stream().map(this::json).collect(Collectors.joining(",")) + "]}");
    }

    private String json(Work work) {
        StringBuilder json = new StringBuilder("{\"task\":\"" + work.job + "\",\"namespace\":\""
                + OperationHttp.escaped(work.namespace) + "\",\"done\":" + work.isDone + ",\"success-age-seconds\":"
                + (long) ageSeconds(work) + ",\"passes\":" + work.passes + ",\"failures\":" + work.failures
                + ",\"tables\":" + work.tables + ",\"tables-refused\":" + work.refused);
        for (Metric metric : METRICS.get(work.job)) {
            json.append(",\"").append(metric.figure).append("\":").append(work.figures.getOrDefault(metric.figure, 0L));
        }
        return json.append('}').toString();
    }

    @Override
    public OperationHttp.Answer metrics() throws IOException {
        return OperationHttp.metrics(snapshots());
    }

    private synchronized MetricSnapshots snapshots() {
        MetricSnapshots.Builder all = MetricSnapshots.builder();
        all.metricSnapshot(counter("passes", "Passes over all tables of a namespace.", works, work -> work.passes));
        all.metricSnapshot(counter("failures", "Passes that have failed.", works, work -> work.failures));
        GaugeSnapshot.Builder ages = GaugeSnapshot.builder()
                .name(PREFIX + "success_age_seconds")
                .unit(Unit.SECONDS)
                .help("Time since the end of the last pass that has visited all tables, at first since the start.");
        works.forEach(work -> ages.dataPoint(point(work, ageSeconds(work))));
        all.metricSnapshot(ages.build());
        all.metricSnapshot(gauge("tables", "Tables that the last pass has visited.", works, work -> work.tables));
        all.metricSnapshot(gauge(
                "refused_tables", "Tables that the last pass has left out: see /health.", works, work -> work.refused));
        for (Job job : Job.values()) {
            List<Work> own = works.stream().filter(work -> work.job == job).toList();
            for (Metric metric : own.isEmpty() ? List.<Metric>of() : METRICS.get(job)) {
                ToDoubleFunction<Work> value = work -> work.figures.getOrDefault(metric.figure, 0L);
                all.metricSnapshot(
                        metric.isSum
                                ? counter(metric.name, metric.help, own, value)
                                : gauge(metric.name, metric.help, own, value));
            }
        }
        GaugeSnapshot.Builder problems = GaugeSnapshot.builder()
                .name(PREFIX + "problem")
                .help("1 for the gravest problem of the present, 0 for all else.");
        Optional<Problem.Kind> gravest = outages.gravest().map(Problem::kind);
        for (Problem.Kind kind : Problem.Kind.values()) {
            problems.dataPoint(GaugeSnapshot.GaugeDataPointSnapshot.builder()
                    .labels(Labels.of("kind", kind.toString()))
                    .value(gravest.filter(kind::equals).isPresent() ? 1 : 0)
                    .build());
        }
        all.metricSnapshot(problems.build());
        return all.build();
    }

    private static CounterSnapshot counter(String name, String help, List<Work> works, ToDoubleFunction<Work> value) {
        CounterSnapshot.Builder counter =
                CounterSnapshot.builder().name(PREFIX + name).help(help);
        works.forEach(work -> counter.dataPoint(CounterSnapshot.CounterDataPointSnapshot.builder()
                .labels(work.labels())
                .value(value.applyAsDouble(work))
                .build()));
        return counter.build();
    }

    private static GaugeSnapshot gauge(String name, String help, List<Work> works, ToDoubleFunction<Work> value) {
        GaugeSnapshot.Builder gauge =
                GaugeSnapshot.builder().name(PREFIX + name).help(help);
        works.forEach(work -> gauge.dataPoint(point(work, value.applyAsDouble(work))));
        return gauge.build();
    }

    private static GaugeSnapshot.GaugeDataPointSnapshot point(Work work, double value) {
        return GaugeSnapshot.GaugeDataPointSnapshot.builder()
                .labels(work.labels())
                .value(value)
                .build();
    }
}
