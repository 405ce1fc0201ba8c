package cedrat.oracle.tables;

import cedrat.oracle.client.OracleClient;
import cedrat.oracle.client.OracleException;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.NavigableMap;
import java.util.Objects;
import java.util.Set;

/// Removes versions that no transaction can read any more.
///
/// The oracle's low-water mark is a timestamp below which no transaction is open, nor will be. Of the
/// versions of a cell that were committed below it, readers see the newest, if any.
///
/// - P1  A version that was committed at the mark or later stays; of those below it, the newest that has its
///   commit timestamp stays.
/// - P2  A version with a marker stays, and is not counted as newest: only the oracle knows its place.
/// - P3  A deleted cell's version goes, too, if it is the newest below the mark and the row has no marker
///   below the mark: nothing older can come back then. Markers that appear later are of transactions that
///   commit above the mark, or not.
///
/// A row that has changed since it was read does no harm: versions are removed by name, what was the newest
/// below the mark remains so, and timestamps are not used again. So any number of pruners, cleaners, readers
/// and writers may be there at a time.
///
/// A transaction whose session has expired no longer holds the mark. What it reads after that may have gaps;
/// it cannot commit.
///
/// **Threads:** any may call.
public final class Pruner {
    /// What was done.
    ///
    /// @param lowWaterMark the mark
    /// @param rows how many rows were looked at
    /// @param versions how many versions were removed
    public record Pruned(long lowWaterMark, long rows, long versions) {}

    private final OracleClient oracle;
    private final Tables tables;
    private final Fault fault;

    /// A pruner of all tables of a store.
    public Pruner(OracleClient oracle, Tables tables) {
        this(oracle, tables, Fault.NONE);
    }

    Pruner(OracleClient oracle, Tables tables, Fault fault) {
        this.oracle = Objects.requireNonNull(oracle);
        this.tables = Objects.requireNonNull(tables);
        this.fault = fault;
    }

    /// Goes once over all tables.
    ///
    /// @throws TableException if the store fails; what was removed is removed, and it may be called again
    /// @throws OracleException if the oracle does not answer
    public Pruned prune() {
        long mark = fault == Fault.PRUNE_ABOVE_THE_MARK
                ? Long.MAX_VALUE
                : oracle.lowWaterMark().value();
        long rowCount = 0;
        long versions = 0;
        for (Table table : tables.all()) {
            // Whatever is at the mark or above stays, and need not be read.
            try (StoredRows rows = table.scan(KeyRange.ALL, Set.of(), mark)) {
                while (rows.hasNext()) {
                    StoredRow row = rows.next();
                    List<Mutation.CellVersion> old = old(row);
                    if (!old.isEmpty()) {
                        table.mutate(row.key(), new Mutation(List.of(), old, List.of(), List.of()));
                    }
                    rowCount++;
                    versions += old.size();
                }
            }
        }
        return new Pruned(mark, rowCount, versions);
    }

    /// What may go of a row that was read below the mark.
    private static List<Mutation.CellVersion> old(StoredRow row) {
        List<Mutation.CellVersion> old = new ArrayList<>();
        for (Map.Entry<Column, NavigableMap<Long, Bytes>> column :
                row.versions().entrySet()) {
            boolean hasNewest = false;
            for (Map.Entry<Long, Bytes> version :
                    column.getValue().descendingMap().entrySet()) {
                if (row.pending().contains(version.getKey())) {
                    continue;
                }
                boolean isGone =
                        Values.isDeleted(version.getValue()) && row.pending().isEmpty();
                if (hasNewest || isGone) {
                    old.add(new Mutation.CellVersion(column.getKey(), version.getKey()));
                }
                hasNewest = true;
            }
        }
        return old;
    }
}
