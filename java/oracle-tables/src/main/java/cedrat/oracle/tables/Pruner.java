package cedrat.oracle.tables;

import cedrat.oracle.client.OracleClient;
import cedrat.oracle.client.OracleException;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.NavigableMap;
import java.util.Objects;
import java.util.Set;
import java.util.function.Supplier;
import java.util.stream.Collectors;

/// Removes versions that no transaction can read any more.
///
/// The oracle's low-water mark is a timestamp below which no transaction is open, nor will be. Of the
/// versions of a cell that were committed below it, readers see the newest, if any.
///
/// - P1  A version that was committed at the mark or later stays; of those below it, the newest stays.
/// - P2  A version with a marker stays, and is not counted as newest: only the oracle knows its place.
/// - P3  A deleted cell's version goes, too, if it is the newest below the mark and the row has no marker
///   below the mark: nothing older can come back then. Markers that appear later are of transactions that
///   commit above the mark, or not.
/// - P4  A commit timestamp below the mark goes, if the row has no marker below the mark: of each column only its
///   newest version below the mark is left then, and every reader that may come sees it, or a newer one. The start
///   timestamp serves as its commit timestamp from then on. Exactly this one is removed: a store that removed all
///   that are older might also hide the marker of a write that is still to come (O4d).
/// - P5  A commit timestamp that arrives after that is of a version that stays, and true, or of none: an orphan, which
///   counts for nothing here, and goes by P4.
///
/// A row that has changed since it was read does no harm: what was the newest below the mark remains so, and
/// timestamps are not used again. So any number of pruners, cleaners, readers
/// and writers may be there at a time.
///
/// A transaction whose session has expired no longer holds the mark. What it reads after that may have gaps,
/// or be newer than its snapshot; it cannot commit.
///
/// **Threads:** any may call.
public final class Pruner {
    /// Result of a pruning.
    public static final class Pruned {
        private final long lowWaterMark;
        private final long rows;
        private final long versions;

        Pruned(long lowWaterMark, long rows, long versions) {
            this.lowWaterMark = lowWaterMark;
            this.rows = rows;
            this.versions = versions;
        }

        /// Returns the low-water mark.
        public long lowWaterMark() {
            return lowWaterMark;
        }

        /// Returns the number of visited rows.
        public long rows() {
            return rows;
        }

        /// Returns the number of removed versions.
        public long versions() {
            return versions;
        }

        @Override
        public boolean equals(Object other) {
            if (!(other instanceof Pruned)) {
                return false;
            }
            Pruned pruned = (Pruned) other;
            return lowWaterMark == pruned.lowWaterMark && rows == pruned.rows && versions == pruned.versions;
        }

        @Override
        public int hashCode() {
            return Objects.hash(lowWaterMark, rows, versions);
        }

        @Override
        public String toString() {
            return "Pruned[lowWaterMark=" + lowWaterMark + ", rows=" + rows + ", versions=" + versions + "]";
        }
    }

    private final OracleClient oracle;
    private final Tables tables;
    private final Pace pace;
    private final Fault fault;

    /// A pruner of all tables of a store.
    public Pruner(OracleClient oracle, Tables tables) {
        this(oracle, tables, Pace.UNLIMITED);
    }

    /// The same, with a bound of its speed.
    public Pruner(OracleClient oracle, Tables tables, Pace pace) {
        this(oracle, tables, pace, Fault.NONE);
    }

    Pruner(OracleClient oracle, Tables tables, Fault fault) {
        this(oracle, tables, Pace.UNLIMITED, fault);
    }

    private Pruner(OracleClient oracle, Tables tables, Pace pace, Fault fault) {
        this.oracle = Objects.requireNonNull(oracle);
        this.tables = Objects.requireNonNull(tables);
        this.pace = Objects.requireNonNull(pace);
        this.fault = fault;
    }

    /// Goes once over all tables.
    ///
    /// @throws TableException if the store fails, or belongs to another oracle; what was removed is removed,
    /// and it may be
    ///     called again
    /// @throws OracleException if the oracle does not answer
    public Pruned prune() {
        return prune(tables::all);
    }

    /// Goes once over some tables of the store.
    ///
    /// @throws TableException as [#prune()]
    /// @throws OracleException as [#prune()]
    public Pruned prune(List<Table> some) {
        return prune(() -> some);
    }

    private Pruned prune(Supplier<List<Table>> which) {
        oracle.identity().ifPresent(tables::bind);
        long mark = fault == Fault.PRUNE_ABOVE_THE_MARK
                ? Long.MAX_VALUE
                : oracle.lowWaterMark().value();
        Run run = new Run(mark);
        // Whatever began at the mark or above stays, and need not be read.
        Walk.over(which.get(), pace, table -> table.scan(KeyRange.ALL, Set.of(), mark), run::prune);
        return new Pruned(mark, run.rows, run.versions);
    }

    private final class Run {
        private final long mark;
        long rows;
        long versions;

        Run(long mark) {
            this.mark = mark;
        }

        void prune(Table table, List<StoredRow> batch) {
            for (StoredRow row : batch) {
                Mutation removal = removal(row);
                if (!isEmpty(removal)) {
                    table.mutate(row.key(), removal);
                }
                rows++;
            }
        }

        private Mutation removal(StoredRow row) {
            List<Mutation.CellVersion> erasures = new ArrayList<>();
            List<Mutation.CellVersion> cuts = new ArrayList<>();
            boolean isClean = row.pending().isEmpty();
            row.versions().forEach((column, all) -> {
                List<Long> old = old(row, all);
                versions += old.size();
                // Stores remember one cut more cheaply than many erasures. Without a marker below the
                // mark, nothing that lies lower can be missed: all who began below it have ended and were
                // cleaned, so that what arrives there later is of one that has aborted.
                if (isClean && !old.isEmpty() && isAllUpTo(Collections.max(old), all, old)) {
                    cuts.add(new Mutation.CellVersion(column, Collections.max(old)));
                } else {
                    old.forEach(timestamp -> erasures.add(new Mutation.CellVersion(column, timestamp)));
                }
            });
            return new Mutation(List.of(), erasures, cuts, List.of(), List.of(), isClean ? settled(row) : List.of());
        }

        /// Returns the start timestamps of the commit timestamps that no reader needs (P4).
        private List<Long> settled(StoredRow row) {
            return row.commits().entrySet().stream()
                    .filter(commit -> commit.getValue() < mark || fault == Fault.SETTLE_ABOVE_THE_MARK)
                    .map(Map.Entry::getKey)
                    .collect(Collectors.toUnmodifiableList());
        }

        /// Returns the timestamps of the removable versions of a column that was read below the mark.
        private List<Long> old(StoredRow row, NavigableMap<Long, Bytes> versions) {
            List<Long> committed = versions.keySet().stream()
                    .filter(timestamp -> !row.pending().contains(timestamp) && row.commit(timestamp) < mark)
                    .sorted(Comparator.comparingLong(row::commit).reversed())
                    .collect(Collectors.toUnmodifiableList());
            if (committed.isEmpty()) {
                return committed;
            }
            boolean isGone = Values.isDeleted(versions.get(committed.get(0)))
                    && row.pending().isEmpty();
            return isGone ? committed : committed.subList(1, committed.size());
        }
    }

    /// Whether a cut there removes nothing but these versions: one that began earlier may have committed later.
    private static boolean isAllUpTo(long timestamp, NavigableMap<Long, Bytes> versions, List<Long> old) {
        return versions.headMap(timestamp, true).size() == old.size();
    }

    private static boolean isEmpty(Mutation removal) {
        return removal.erasures().isEmpty()
                && removal.cuts().isEmpty()
                && removal.unmarks().isEmpty();
    }
}
