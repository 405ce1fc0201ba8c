package cedrat.oracle.tables;

import cedrat.oracle.client.OracleClient;
import cedrat.oracle.client.OracleException;
import cedrat.oracle.client.Outcome;
import cedrat.oracle.client.StartTimestamp;
import java.util.List;
import java.util.Set;
import java.util.stream.Collectors;

/// Clean-up of a transaction that has ended, to be tried again: its rows, without the values that it has written.
///
/// **Threads:** one at a time, but for [#outcome].
final class CleanUp {
    private static final class MarkedRow {
        final Table table;
        final Bytes row;
        final Set<Column> columns;

        MarkedRow(Writes.RowWrite write) {
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
        rows = writes.stream().map(MarkedRow::new).collect(Collectors.toUnmodifiableList());
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
        List<RuntimeException> failures = calls.forEach(rows, callsMax, this::clean);
        if (!failures.isEmpty()) {
            throw failures.get(0);
        }
        oracle.cleaned(List.of(start));
    }

    /// Cleans a row, as a [Cleaner] does: one that the oracle has forgotten has no marker, or has aborted.
    private void clean(MarkedRow row) {
        long name = start.value();
        row.table.mutateIfMarked(
                row.row,
                name,
                outcome.kind() == Outcome.Kind.COMMITTED
                        ? Mutations.stamp(name, outcome.commitTimestamp())
                        : Mutations.erase(name, row.columns));
    }
}
