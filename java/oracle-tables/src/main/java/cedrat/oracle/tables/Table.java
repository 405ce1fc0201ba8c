package cedrat.oracle.tables;

import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.BiConsumer;
import java.util.stream.Collectors;

/// A table of a store that keeps versions: the requirements of transactions on a store.
///
/// A row has columns, a column has versions, each with a timestamp that its writer chooses. In addition a row
/// has *pending markers*: a set of start timestamps, as durable as the versions. The commit timestamp of a
/// transaction replaces its marker. A store may keep both as columns of a family of its own, with the start
/// timestamp as qualifier and as version, and write the commit timestamp over the marker.
///
/// - B1  A [Mutation] of a row is atomic: no reader sees, and no crash leaves, versions without their marker.
/// - B2  [#mutateIfMarked] checks the marker and changes the row in one step, without another change of the row
///   in between.
/// - B3  A row that is read is the row as it was at one moment after the call of [#read], [#scan] or [#marked]
///   began: it contains every change whose call had returned before. Rows of a scan may be of different
///   moments, and of any since the scan began: a store may read many rows ahead.
/// - B4  A version stays until it is erased or cut: no limit of versions, no time to live.
/// - B5  A call that has returned, or has failed with [TableException.Effect#NONE], has no later effect: a
///   store that resends requests by itself must prevent an earlier one from arriving later. A mutation that
///   [may be repeated][Mutation#isRepeatable] is exempt from this.
/// - B6  A change whose call has returned survives the failures that the store is made to survive.
/// **Threads:** any may call.
///
/// **Failure:** [TableException] says whether the call may have had an effect, or may still have one.
public interface Table {
    /// As a number of versions: all.
    int ALL_VERSIONS = Integer.MAX_VALUE;

    /// Its name.
    String name();

    /// Returns the unit of conflict.
    Granularity granularity();

    /// Whether serialisable transactions may scan it. Writers of a row then send its key to the oracle, too, and
    /// the oracle keeps the newest of these in memory. All clients of a table must return the same, or phantoms
    /// are missed.
    default boolean checksScans() {
        return false;
    }

    /// Changes a row (B1).
    void mutate(Bytes row, Mutation mutation);

    /// Changes a row if it has the marker of this start timestamp (B1, B2). Returns whether it has.
    boolean mutateIfMarked(Bytes row, long start, Mutation mutation);

    /// Reads all versions of a row, as the next method.
    default StoredRow read(Bytes row, Set<Column> columns, long below) {
        return read(row, columns, below, ALL_VERSIONS);
    }

    /// Returns the maximum number of rows that callers give to one call of [#mutate(Map)] or
    /// [#mutateIfMarked(long, Map)]; 1 for a store that has no request for several rows.
    default int rowsPerCall() {
        return 1;
    }

    /// Changes rows, each as [#mutate(Bytes, Mutation)] does: if one fails, others may have changed.
    ///
    /// @return what has failed, by row
    default Map<Bytes, TableException> mutate(Map<Bytes, Mutation> changes) {
        return failures(changes, this::mutate);
    }

    /// Changes rows, each as [#mutateIfMarked(Bytes, long, Mutation)] does: if one fails, others may have changed.
    ///
    /// @return what has failed, by row; a row without the marker is no failure
    default Map<Bytes, TableException> mutateIfMarked(long start, Map<Bytes, Mutation> changes) {
        return failures(changes, (row, mutation) -> mutateIfMarked(row, start, mutation));
    }

    private static Map<Bytes, TableException> failures(
            Map<Bytes, Mutation> changes, BiConsumer<Bytes, Mutation> change) {
        Map<Bytes, TableException> failures = new HashMap<>();
        changes.forEach((row, mutation) -> {
            try {
                change.accept(row, mutation);
            } catch (TableException failure) {
                failures.put(row, failure);
            }
        });
        return failures;
    }

    /// Reads a row: versions of these columns, or with none named of all, and markers and commit timestamps,
    /// each with a start timestamp below `below`. The row may be empty.
    ///
    /// @param versionsMax of each column so many versions are read, those with the largest start timestamps, and of
    ///     markers and commit timestamps together as many; a store may return more
    StoredRow read(Bytes row, Set<Column> columns, long below, int versionsMax);

    /// Reads these rows as [#read] does, and returns them in the same order; each is as it was at a moment of
    /// its own. A store may be asked for all of them at once.
    default List<StoredRow> read(List<Bytes> rows, Set<Column> columns, long below, int versionsMax) {
        return rows.stream()
                .map(row -> read(row, columns, below, versionsMax))
                .collect(Collectors.toUnmodifiableList());
    }

    /// Reads all versions of rows, as the next method, in the order of their keys.
    default StoredRows scan(KeyRange range, Set<Column> columns, long below) {
        return scan(Scan.ALL.withRange(range).withColumns(columns), below, ALL_VERSIONS);
    }

    /// Reads rows as [#read] does, in the order of the scan. Rows that are empty then may be left out, and columns that
    /// begin with none of its prefixes. Its filter and its limit do not concern the store.
    StoredRows scan(Scan scan, long below, int versionsMax);

    /// Rows that have a marker, whole, in the order of their keys; others may be among them.
    StoredRows marked(KeyRange range);
}
