package cedrat.oracle.tables;

import cedrat.oracle.client.CommitTimestamp;
import cedrat.oracle.client.OracleClient;
import cedrat.oracle.client.OracleException;
import cedrat.oracle.client.Outcome;
import cedrat.oracle.client.StartTimestamp;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.stream.Collectors;

/// Clean-up of a transaction that has ended, to be tried again: its rows, without the values that it has written.
///
/// **Threads:** one at a time, but for [#outcome].
final class CleanUp {
    /// A row with the marker of the transaction.
    static final class MarkedRow {
        final Table table;
        final Bytes row;
        final Set<Column> columns;

        private MarkedRow(Writes.RowWrite write) {
            table = write.table;
            row = write.row;
            columns = Set.copyOf(write.cells.keySet());
        }
    }

    private final StartTimestamp start;
    private final List<MarkedRow> rows;
    private final boolean isInDoubt;
    private final long sinceNanos;
    /// `null` if it is not known yet.
    private volatile Outcome outcome;

    /// Clean-up of a transaction whose writes may have reached these rows.
    ///
    /// @param isInDoubt whether one of them may still arrive
    /// @param nowNanos the time, after all calls of the store have returned
    /// @param outcome `null` if it is not known
    CleanUp(StartTimestamp start, List<Writes.RowWrite> writes, boolean isInDoubt, long nowNanos, Outcome outcome) {
        this.start = start;
        this.isInDoubt = isInDoubt;
        this.outcome = outcome;
        sinceNanos = nowNanos;
        rows = marked(writes);
    }

    /// Returns the rows that may have the marker.
    static List<MarkedRow> marked(List<Writes.RowWrite> writes) {
        return writes.stream().map(MarkedRow::new).collect(Collectors.toUnmodifiableList());
    }

    /// Returns the outcome of the transaction; `null` if it is not known yet. **Threads:** any may call.
    Outcome outcome() {
        return outcome;
    }

    /// Returns the number of rows.
    int rows() {
        return rows.size();
    }

    /// Whether no write can arrive any more that is not there now, if writes last so long (W3).
    boolean isDue(long nowNanos, long writesLastNanos) {
        return !isInDoubt || nowNanos - sinceNanos >= writesLastNanos;
    }

    /// Cleans the rows, and notifies the oracle. The outcome is kept before the oracle forgets it. An earlier
    /// outcome is used only after the oracle has confirmed that it was not restored since (O6j).
    ///
    /// @throws TableException if the store fails; it may be called again
    /// @throws OracleException if the oracle does not answer; the same
    void attempt(OracleClient oracle, Calls calls, int callsMax) {
        if (outcome == null) {
            outcome = oracle.resolve(start);
        } else {
            oracle.confirm();
        }
        CommitTimestamp commit = outcome.kind() == Outcome.Kind.COMMITTED ? outcome.commitTimestamp() : null;
        List<RuntimeException> failures = clean(calls, callsMax, start, rows, commit);
        if (!failures.isEmpty()) {
            throw failures.get(0);
        }
        oracle.cleaned(List.of(start));
    }

    /// Cleans rows, as a [Cleaner] does, and returns what has failed. A row of a transaction that the oracle has
    /// forgotten has no marker, or the transaction has aborted.
    ///
    /// @param commit `null` if the transaction has aborted
    static List<RuntimeException> clean(
            Calls calls, int callsMax, StartTimestamp start, List<MarkedRow> rows, CommitTimestamp commit) {
        long name = start.value();
        ConcurrentLinkedQueue<RuntimeException> failures = new ConcurrentLinkedQueue<>();
        failures.addAll(calls.forEach(Calls.groups(rows, row -> row.table), callsMax, group -> {
            Map<Bytes, Mutation> changes = new LinkedHashMap<>();
            for (MarkedRow row : group) {
                changes.put(
                        row.row, commit == null ? Mutations.erase(name, row.columns) : Mutations.stamp(name, commit));
            }
            failures.addAll(group.get(0).table.mutateIfMarked(name, changes).values());
        }));
        return List.copyOf(failures);
    }
}
