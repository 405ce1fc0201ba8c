package cedrat.oracle.tables;

import cedrat.oracle.client.OracleClient;
import cedrat.oracle.client.OracleException;
import cedrat.oracle.client.Outcome;
import cedrat.oracle.client.StartTimestamp;
import java.util.List;
import java.util.Set;

/// Clean-up of a transaction that has ended, to be tried again: its rows, without the values that it has written.
///
/// **Threads:** one at a time, but for [#outcome].
final class CleanUp {
    private record MarkedRow(Table table, Bytes row, Set<Column> columns) {}

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
        rows = writes.stream()
                .map(write -> new MarkedRow(
                        write.table(), write.row(), Set.copyOf(write.cells().keySet())))
                .toList();
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
    void attempt(OracleClient oracle, int callsMax) {
        if (outcome == null) {
            outcome = oracle.resolve(start);
        } else {
            oracle.confirm();
        }
        List<RuntimeException> failures = Calls.forEach(rows, callsMax, this::clean);
        if (!failures.isEmpty()) {
            throw failures.getFirst();
        }
        oracle.cleaned(List.of(start));
    }

    /// Cleans a row, as a [Cleaner] does: one that the oracle has forgotten has no marker, or has aborted.
    private void clean(MarkedRow row) {
        long name = start.value();
        row.table.mutateIfMarked(
                row.row,
                name,
                outcome instanceof Outcome.Committed(var at)
                        ? Mutations.stamp(name, at)
                        : Mutations.erase(name, row.columns));
    }
}
