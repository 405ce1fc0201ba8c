package cedrat.oracle.server;

import cedrat.oracle.state.AbortReason;
import cedrat.oracle.state.Namespace;
import io.prometheus.metrics.model.snapshots.ClassicHistogramBuckets;
import io.prometheus.metrics.model.snapshots.CounterSnapshot;
import io.prometheus.metrics.model.snapshots.GaugeSnapshot;
import io.prometheus.metrics.model.snapshots.HistogramSnapshot;
import io.prometheus.metrics.model.snapshots.Labels;
import io.prometheus.metrics.model.snapshots.MetricSnapshots;
import io.prometheus.metrics.model.snapshots.Unit;
import java.util.HexFormat;
import java.util.Locale;

/// A server's numbers, under the names that Prometheus knows them by (docs/use/oracle-metrics.md lists them).
/// A name that was used once keeps its meaning.
final class Metrics {
    private static final String PREFIX = "cedrat_oracle_";

    private final MetricSnapshots.Builder all = MetricSnapshots.builder();

    private Metrics() {}

    /// Metrics of a server that waits, or has stopped: only its state.
    static MetricSnapshots of(Health.State state) {
        Metrics metrics = new Metrics();
        metrics.state(state);
        return metrics.all.build();
    }

    /// Metrics of a server that serves. `connections` are those that are open now; `connectionsRefused` were too many;
    /// `authenticationsFailed` are exchanges, not handshakes of TLS.
    static MetricSnapshots of(
            Health.State state,
            Reading reading,
            long connections,
            long connectionsRefused,
            long authenticationsFailed) {
        Metrics metrics = new Metrics();
        metrics.state(state);
        metrics.transactions(reading);
        metrics.memory(reading);
        metrics.log(reading);
        metrics.namespaces(reading);
        metrics.gauge("sessions", "Clients, over all their connections.", reading.sessions());
        metrics.gauge("connections", "Open connections.", connections);
        metrics.counter(
                "connections_refused", "Connections that were refused because too many were open.", connectionsRefused);
        metrics.counter(
                "authentications_failed", "Authentications by tokens and Kerberos that failed.", authenticationsFailed);
        metrics.limits(reading);
        return metrics.all.build();
    }

    private void limits(Reading reading) {
        CounterSnapshot.Builder limits = CounterSnapshot.builder()
                .name(PREFIX + "limited")
                .help("How often a limit of a client refused a connection, or made requests wait, by the limit.");
        for (Limits.Kind kind : Limits.Kind.values()) {
            limits.dataPoint(CounterSnapshot.CounterDataPointSnapshot.builder()
                    .labels(Labels.of("limit", text(kind)))
                    .value(reading.limited()[kind.ordinal()])
                    .build());
        }
        all.metricSnapshot(limits.build());
    }

    private void state(Health.State now) {
        GaugeSnapshot.Builder gauge =
                GaugeSnapshot.builder().name(PREFIX + "state").help("1 for what the server is doing, 0 for all else.");
        for (Health.State state : Health.State.values()) {
            gauge.dataPoint(GaugeSnapshot.GaugeDataPointSnapshot.builder()
                    .labels(Labels.of("state", text(state)))
                    .value(state == now ? 1 : 0)
                    .build());
        }
        all.metricSnapshot(gauge.build());
    }

    private void transactions(Reading reading) {
        counter("starts", "Transactions that have begun.", reading.begun());
        counter("commits", "Transactions that have committed what they wrote.", reading.committed());
        counter("reads", "Transactions that have ended without having written.", reading.ended());
        CounterSnapshot.Builder aborts = CounterSnapshot.builder()
                .name(PREFIX + "aborts")
                .help("Transactions that have aborted, by the reason.");
        for (AbortReason reason : AbortReason.values()) {
            aborts.dataPoint(CounterSnapshot.CounterDataPointSnapshot.builder()
                    .labels(Labels.of("reason", text(reason)))
                    .value(reading.aborts()[reason.ordinal()])
                    .build());
        }
        all.metricSnapshot(aborts.build());
        counter("refusals", "Requests that were refused, for they made no sense.", reading.refusals());
        gauge("newest_timestamp", "The newest timestamp that was given out.", reading.newest());
        gauge(
                "kept_timestamps",
                "newest - T_max: a transaction that has been open for longer may abort for a forgotten row.",
                reading.newest() - reading.tMax());
        gauge(
                "low_water_age_timestamps",
                "How far the oldest open transaction lies back: what is younger than it is not pruned.",
                reading.newest() + 1 - reading.lowWaterMark());
        gauge("open_transactions", "Open transactions.", reading.open());
        gauge("half_aborted", "Transactions that have aborted and were not cleaned up.", reading.halfAborted());
        gauge("half_committed", "Transactions that have committed and were not cleaned up.", reading.halfCommitted());
    }

    private void namespaces(Reading reading) {
        gauge("namespaces", "Namespaces of rows that have to be swept.", reading.namespaces());
        GaugeSnapshot.Builder ages = GaugeSnapshot.builder()
                .name(PREFIX + "sweep_age_timestamps")
                .help("newest - mark of the newest sweep, of the namespaces that were swept least recently.");
        for (Namespace each : reading.leastSwept()) {
            ages.dataPoint(GaugeSnapshot.GaugeDataPointSnapshot.builder()
                    .labels(Labels.of("namespace", HexFormat.of().toHexDigits(each.number())))
                    .value(reading.newest() - each.mark())
                    .build());
        }
        all.metricSnapshot(ages.build());
    }

    private void memory(Reading reading) {
        bytes(
                "outcome",
                "Memory for outcomes of transactions: it grows up to its bound while clients do not clean up.",
                reading.outcomeBytes());
        gauge("spilled", "Transactions whose outcome is not in memory, but in the scratch file.", reading.spilled());
        bytes("spilled", "What the scratch file has of them.", reading.spilledBytes());
        counter("spilled_reads", "How often some were read from there.", reading.spilledReads());
        bytes("row", "Memory of rows and keys: constant, but for the first key.", reading.rowBytes());
        gauge("keys", "Written keys that are kept, of tables whose scans are checked.", reading.keys());
    }

    private void log(Reading reading) {
        gauge(
                "log_lag_entries",
                "Entries that the log was given and has not acknowledged.",
                reading.appended() - reading.acknowledged());
        counter("log_entries", "Entries that the log was given.", reading.appended());
        counter("log_written_bytes", "Bytes of these entries.", reading.logBytes());
        gauge(
                "snapshot_age_rows",
                "Rows that were committed since the newest whole snapshot in the log was begun.",
                reading.snapshotAge());
        durations("reply", "From the first decision of a batch to its replies, for each request.", reading.replies());
        durations("log_append", "From an append to its acknowledgement.", reading.appends());
    }

    private void counter(String name, String help, double value) {
        all.metricSnapshot(CounterSnapshot.builder()
                .name(PREFIX + name)
                .help(help)
                .dataPoint(CounterSnapshot.CounterDataPointSnapshot.builder()
                        .value(value)
                        .build())
                .build());
    }

    private void gauge(String name, String help, double value) {
        all.metricSnapshot(GaugeSnapshot.builder()
                .name(PREFIX + name)
                .help(help)
                .dataPoint(GaugeSnapshot.GaugeDataPointSnapshot.builder()
                        .value(value)
                        .build())
                .build());
    }

    private void bytes(String name, String help, double value) {
        all.metricSnapshot(GaugeSnapshot.builder()
                .name(PREFIX + name + "_bytes")
                .unit(Unit.BYTES)
                .help(help)
                .dataPoint(GaugeSnapshot.GaugeDataPointSnapshot.builder()
                        .value(value)
                        .build())
                .build());
    }

    private void durations(String name, String help, Durations.Copy durations) {
        ClassicHistogramBuckets.Builder buckets = ClassicHistogramBuckets.builder();
        for (int bucket = 0; bucket < Durations.BUCKETS; bucket++) {
            buckets.bucket(Durations.Copy.endSeconds(bucket), durations.counts()[bucket]);
        }
        buckets.bucket(Double.POSITIVE_INFINITY, durations.counts()[Durations.BUCKETS]);
        all.metricSnapshot(HistogramSnapshot.builder()
                .name(PREFIX + name + "_seconds")
                .unit(Unit.SECONDS)
                .help(help)
                .dataPoint(HistogramSnapshot.HistogramDataPointSnapshot.builder()
                        .classicHistogramBuckets(buckets.build())
                        .sum(durations.nanos() / 1e9)
                        .build())
                .build());
    }

    private static String text(Enum<?> constant) {
        return constant.name().toLowerCase(Locale.ROOT);
    }
}
