package cedrat.oracle.tables;

import cedrat.oracle.client.OracleClient;
import cedrat.oracle.client.OracleException;
import cedrat.oracle.client.Outcome;
import cedrat.oracle.client.StartTimestamp;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
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
        final Collection<Column> columns;

        private MarkedRow(Writes.RowWrite write) {
            table = write.table;
            row = write.row;
            columns = write.columns();
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
    /// @param nowNanos the time, after all writes have returned
    /// @param outcome `null` if it is not known
    CleanUp(StartTimestamp start, List<Writes.RowWrite> writes, boolean isInDoubt, long nowNanos, Outcome outcome) {
        this.start = start;
        this.isInDoubt = isInDoubt;
        this.outcome = outcome;
        sinceNanos = nowNanos;
        rows = writes.stream().map(MarkedRow::new).collect(Collectors.toUnmodifiableList());
    }

    /// Returns the start timestamp of the transaction.
    StartTimestamp start() {
        return start;
    }

    /// Whether a write may still arrive.
    boolean isInDoubt() {
        return isInDoubt;
    }

    /// Returns the rows that may have the marker.
    List<MarkedRow> marked() {
        return rows;
    }

    /// Returns the commit timestamp of the rows; empty if the transaction has not committed, as far as is known.
    Optional<Mutation.Stamp> stamp() {
        Outcome known = outcome;
        return known == null || known.kind() != Outcome.Kind.COMMITTED
                ? Optional.empty()
                : Optional.of(new Mutation.Stamp(
                        start.value(), known.commitTimestamp().value()));
    }

    /// Returns the time since its transaction ended.
    long age(long nowNanos) {
        return nowNanos - sinceNanos;
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
        return !isInDoubt || age(nowNanos) >= writesLastNanos;
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
        List<RuntimeException> failures = cleanMarked(calls, callsMax);
        if (!failures.isEmpty()) {
            throw failures.get(0);
        }
        oracle.cleaned(List.of(start));
    }

    /// Cleans the rows that have the marker, as a [Cleaner] does, and returns what has failed. A row of a transaction
    /// that the oracle has forgotten has no marker, or the transaction has aborted.
    List<RuntimeException> cleanMarked(Calls calls, int callsMax) {
        long name = start.value();
        Optional<Mutation> stamped = stamp().map(stamp -> Mutations.stamps(List.of(stamp)));
        ConcurrentLinkedQueue<RuntimeException> failures = new ConcurrentLinkedQueue<>();
        failures.addAll(calls.forEach(Calls.groups(rows, row -> row.table), callsMax, group -> {
            Map<Bytes, Mutation> changes = new LinkedHashMap<>();
            group.forEach(row -> changes.put(row.row, stamped.orElseGet(() -> Mutations.erase(name, row.columns))));
            failures.addAll(group.get(0).table.mutateIfMarked(name, changes).values());
        }));
        return List.copyOf(failures);
    }
}
