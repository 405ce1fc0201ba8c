package cedrat.oracle.tables;

import cedrat.oracle.client.OracleClient;
import cedrat.oracle.client.OracleException;
import cedrat.oracle.client.Outcome;
import cedrat.oracle.client.StartTimestamp;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.LongSupplier;
import java.util.stream.Collectors;

/// Cleans rows whose writers did not: of committed transactions the commit timestamp replaces the
/// marker, of aborted ones the versions go. Open transactions are left alone: when their client is gone, the
/// oracle aborts them with its session.
///
/// - K1  What becomes of a row is decided by the oracle, before the row changes.
/// - K2  A row changes only while it has the marker, in one step with the look at it. A cleaner that was held
///   up for however long erases nothing that others have found committed (O7a), and leaves no commit timestamps
///   where a pruner has been.
/// - K3  The outcomes of dead clients are forgotten after a sweep of all tables of the namespace, if all
///   other namespaces of the oracle were swept as well. The sweep began so long after the end of their
///   sessions that no write of theirs could arrive any more ([Tables#writesLast]).
///   The oracle knows of sessions, and of the sweep's *mark*, a timestamp from before it began; of writes
///   that a network still carries it knows nothing.
///
/// Should a write come nevertheless, of a process that was stopped for longer than all deadlines, it has a
/// marker of a transaction that the oracle has forgotten. Such a one has aborted, and readers and later
/// sweeps know it: of a committed one all markers were gone when it was forgotten.
///
/// Any number of cleaners, pruners, readers and writers may be there at a time. Keep a cleaner for sweeps to
/// come: it remembers its mark.
///
/// **Threads:** any may call.
public final class Cleaner {
    /// Result of a sweep.
    public static final class Sweep {
        private final long rows;
        private final long committed;
        private final long aborted;
        private final long open;
        private final long forgotten;

        Sweep(long rows, long committed, long aborted, long open, long forgotten) {
            this.rows = rows;
            this.committed = committed;
            this.aborted = aborted;
            this.open = open;
            this.forgotten = forgotten;
        }

        /// Returns the number of visited rows: those that had a marker.
        public long rows() {
            return rows;
        }

        /// Returns the number of rows in which a commit timestamp replaced the marker of a committed transaction.
        public long committed() {
            return committed;
        }

        /// Returns the number of rows from which versions of an aborted transaction were removed.
        public long aborted() {
            return aborted;
        }

        /// Returns the number of rows left to an open transaction.
        public long open() {
            return open;
        }

        /// Returns the number of transactions of dead clients that the oracle has forgotten after the sweep.
        public long forgotten() {
            return forgotten;
        }

        @Override
        public boolean equals(Object other) {
            if (!(other instanceof Sweep)) {
                return false;
            }
            Sweep sweep = (Sweep) other;
            return rows == sweep.rows
                    && committed == sweep.committed
                    && aborted == sweep.aborted
                    && open == sweep.open
                    && forgotten == sweep.forgotten;
        }

        @Override
        public int hashCode() {
            return Objects.hash(rows, committed, aborted, open, forgotten);
        }

        @Override
        public String toString() {
            return "Sweep[rows=" + rows + ", committed=" + committed + ", aborted=" + aborted + ", open=" + open
                    + ", forgotten=" + forgotten + "]";
        }
    }

    /// A timestamp, and when it was given out, by this process's clock.
    private static final class Mark {
        final StartTimestamp timestamp;
        final long nanos;

        Mark(StartTimestamp timestamp, long nanos) {
            this.timestamp = timestamp;
            this.nanos = nanos;
        }
    }

    private final OracleClient oracle;
    private final Tables tables;
    private final Pace pace;
    private final Fault fault;
    private final LongSupplier clock;
    /// Waits for its time; `null` if the next sweep is to draw one.
    private final AtomicReference<Mark> mark = new AtomicReference<>();

    /// A cleaner of all tables of a store's namespace.
    public Cleaner(OracleClient oracle, Tables tables) {
        this(oracle, tables, Pace.UNLIMITED);
    }

    /// The same, with a bound of its speed.
    public Cleaner(OracleClient oracle, Tables tables, Pace pace) {
        this(oracle, tables, pace, System::nanoTime, Fault.NONE);
    }

    Cleaner(OracleClient oracle, Tables tables, LongSupplier clock, Fault fault) {
        this(oracle, tables, Pace.UNLIMITED, clock, fault);
    }

    private Cleaner(OracleClient oracle, Tables tables, Pace pace, LongSupplier clock, Fault fault) {
        this.oracle = Objects.requireNonNull(oracle);
        this.tables = Objects.requireNonNull(tables);
        this.pace = Objects.requireNonNull(pace);
        this.clock = clock;
        this.fault = fault;
    }

    /// Goes once over all tables, and then has the oracle forget what dead clients have left, if a mark was
    /// drawn long enough ago: by this sweep, if writes of this store do not outlast their clients, else by an
    /// earlier one of this cleaner.
    ///
    /// @throws TableException if the store fails, or belongs to another oracle; cleaned rows stay clean, and the
    ///     method may be called again
    /// @throws OracleException if the oracle does not answer; the same
    public Sweep sweep() {
        oracle.identity().ifPresent(tables::bind);
        Mark known = mark.get();
        Mark begun = known == null ? draw() : known;
        boolean isOld = clock.getAsLong() - begun.nanos >= tables.writesLast().toNanos() || fault == Fault.SWEEP_EARLY;
        Run run = new Run();
        Walk.over(tables.all(), pace, table -> table.marked(KeyRange.ALL), run::clean);
        long forgotten = 0;
        if (isOld) {
            forgotten = oracle.swept(tables.namespace(), begun.timestamp);
            mark.compareAndSet(begun, null);
        }
        return run.sweep(forgotten);
    }

    /// Goes once over some tables of the store. The oracle forgets nothing after that, for other tables may still need
    /// it (K3).
    ///
    /// @throws TableException as [#sweep]
    /// @throws OracleException as [#sweep]
    public Sweep clean(List<Table> some) {
        oracle.identity().ifPresent(tables::bind);
        Run run = new Run();
        Walk.over(some, pace, table -> table.marked(KeyRange.ALL), run::clean);
        return run.sweep(0);
    }

    /// Returns the time until a sweep has the oracle forget outcomes; zero if the next one does.
    public Duration untilForgetting() {
        Duration all = tables.writesLast();
        Mark known = mark.get();
        Duration left = known == null ? all : all.minusNanos(clock.getAsLong() - known.nanos);
        return left.isNegative() ? Duration.ZERO : left;
    }

    private Mark draw() {
        StartTimestamp timestamp = oracle.begin();
        oracle.end(timestamp); // or it would hold the low-water mark
        Mark drawn = new Mark(timestamp, clock.getAsLong());
        mark.compareAndSet(null, drawn); // another sweep may have drawn one just now, which serves as well
        return drawn;
    }

    private final class Run {
        long rows;
        long committed;
        long aborted;
        long open;

        Sweep sweep(long forgotten) {
            return new Sweep(rows, committed, aborted, open, forgotten);
        }

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
                    .collect(Collectors.toUnmodifiableList());
            Map<Long, Outcome> outcomes = new HashMap<>();
            if (!starts.isEmpty()) {
                List<Outcome> answers = oracle.status(starts.get(0), starts);
                for (int index = 0; index < starts.size(); index++) {
                    outcomes.put(starts.get(index).value(), answers.get(index));
                }
            }
            return outcomes;
        }

        /// The row was read before the oracle was asked. That does no harm: a transaction writes a row once,
        /// marker and all, so what was read with the marker is all there is.
        private void clean(Table table, StoredRow row, long start, Outcome outcome) {
            switch (outcome.kind()) {
                case COMMITTED:
                    committed += change(table, row.key(), start, Mutations.stamp(start, outcome.commitTimestamp()));
                    break;
                case OPEN:
                    open++;
                    if (fault == Fault.CLEAN_OPEN) {
                        change(table, row.key(), start, erased(row, start));
                    }
                    break;
                default:
                    // Forgotten, it is clean already, or else aborted: the writes of a committed one had all been
                    // stamped when it was forgotten, and where there is no marker nothing happens.
                    aborted += change(table, row.key(), start, erased(row, start));
            }
        }

        private Mutation erased(StoredRow row, long start) {
            return Mutations.erase(start, Mutations.columns(row, start));
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
