package cedrat.oracle.tables;

import cedrat.oracle.client.OracleClient;
import cedrat.oracle.client.OracleException;
import cedrat.oracle.client.Outcome;
import cedrat.oracle.client.StartTimestamp;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.function.Predicate;

/// Cleans rows whose writers did not: of committed transactions the versions get their commit timestamp, of
/// aborted ones they go. Open transactions are left alone: when their client is gone, the oracle aborts them
/// with its session.
///
/// - K1  What becomes of a row is decided by the oracle, before the row changes.
/// - K2  A row changes only while it has the marker, in one step with the look at it. A cleaner that was held
///   up for however long cannot bring back what others have cleaned and pruned.
/// - K3  The oracle is told `cleaned` for no transaction whose client may be alive, or may have a write under
///   way. The oracle's answers do not tell that: they know of sessions, not of writes that a network still
///   carries.
///
/// Any number of cleaners, pruners, readers and writers may be there at a time.
///
/// **Threads:** any may call.
public final class Cleaner {
    /// So many transactions does one message name.
    private static final int TOLD_TOGETHER_MAX = 256;

    /// What a sweep has found.
    ///
    /// @param rows how many rows it has looked at: those that had a marker
    /// @param committed of how many rows versions of a committed transaction got their commit timestamp
    /// @param aborted from how many rows versions of an aborted transaction were removed
    /// @param open how many rows it has left to an open transaction
    public record Sweep(long rows, long committed, long aborted, long open) {}

    private final OracleClient oracle;
    private final Tables tables;
    private final Fault fault;

    /// A cleaner of all tables of a store.
    public Cleaner(OracleClient oracle, Tables tables) {
        this(oracle, tables, Fault.NONE);
    }

    Cleaner(OracleClient oracle, Tables tables, Fault fault) {
        this.oracle = Objects.requireNonNull(oracle);
        this.tables = Objects.requireNonNull(tables);
        this.fault = fault;
    }

    /// Goes once over all tables.
    ///
    /// @throws TableException if the store fails; what was cleaned is clean, and it may be called again
    /// @throws OracleException if the oracle does not answer; the same
    public Sweep sweep() {
        return sweep(start -> false);
    }

    /// Goes once over all tables, and has the oracle forget those of the transactions it meets that have
    /// ended and whose client is dead.
    ///
    /// @param isDead says of a transaction that its client was gone for good *before the sweep began*: its
    ///     process had ended, and so long ago that no write of it could arrive any more (K3). What is said
    ///     wrongly here makes readers miss or invent rows
    /// @throws TableException as [#sweep()]
    /// @throws OracleException as [#sweep()]
    public Sweep sweep(Predicate<StartTimestamp> isDead) {
        Run run = new Run();
        Walk.over(tables, table -> table.marked(KeyRange.ALL), run::clean);
        List<StartTimestamp> dead = run.settled.stream()
                .filter(start -> !run.left.contains(start))
                .map(StartTimestamp::new)
                .filter(isDead)
                .toList();
        for (int from = 0; from < dead.size(); from += TOLD_TOGETHER_MAX) {
            oracle.cleaned(dead.subList(from, Math.min(dead.size(), from + TOLD_TOGETHER_MAX)));
        }
        return new Sweep(run.rows, run.committed, run.aborted, run.open);
    }

    private final class Run {
        long rows;
        long committed;
        long aborted;
        long open;
        /// Had ended when some row of theirs was met: each such row was cleaned. Rows that had no marker when
        /// the sweep read them can have got one only from a client that was alive then.
        final Set<Long> settled = new HashSet<>();
        /// Were open when some row of theirs was met: that row may still need cleaning.
        final Set<Long> left = new HashSet<>();

        void clean(Table table, List<StoredRow> batch) {
            Map<Long, Outcome> outcomes = ask(batch);
            for (StoredRow row : batch) {
                rows += row.pending().isEmpty() ? 0 : 1;
                for (long start : row.pending()) {
                    clean(table, row, start, outcomes.get(start));
                }
            }
        }

        private Map<Long, Outcome> ask(List<StoredRow> batch) {
            List<StartTimestamp> starts = batch.stream()
                    .flatMap(row -> row.pending().stream())
                    .distinct()
                    .map(StartTimestamp::new)
                    .toList();
            Map<Long, Outcome> outcomes = new HashMap<>();
            if (!starts.isEmpty()) {
                List<Outcome> answers = oracle.status(starts.getFirst(), starts);
                for (int index = 0; index < starts.size(); index++) {
                    outcomes.put(starts.get(index).value(), answers.get(index));
                }
            }
            return outcomes;
        }

        /// The row was read before the oracle was asked. That does no harm: a transaction writes a row once,
        /// marker and all, so what was read with the marker is all there is.
        private void clean(Table table, StoredRow row, long start, Outcome outcome) {
            Map<Column, Bytes> cells = Mutations.cells(row, start);
            switch (outcome) {
                case Outcome.Committed(var at) -> {
                    committed += change(table, row.key(), start, Mutations.restamp(start, at.value(), cells));
                    settled.add(start);
                }
                case Outcome.Aborted _ -> {
                    aborted += change(table, row.key(), start, Mutations.erase(start, cells));
                    settled.add(start);
                }
                // Clean already, or else aborted: the writes of a committed one had all been stamped when it
                // was forgotten, and where there is no marker nothing happens.
                case Outcome.Unknown _ -> aborted += change(table, row.key(), start, Mutations.erase(start, cells));
                case Outcome.Open _ -> {
                    open++;
                    left.add(start);
                    if (fault == Fault.CLEAN_OPEN) {
                        change(table, row.key(), start, Mutations.erase(start, cells));
                    }
                }
            }
        }

        private int change(Table table, Bytes row, long start, Mutation mutation) {
            if (fault == Fault.UNCHECKED_CLEANER) {
                table.mutate(row, mutation);
                return 1;
            }
            return table.mutateIfMarked(row, start, mutation) ? 1 : 0;
        }
    }
}
