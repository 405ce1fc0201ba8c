package cedrat.oracle.tables;

import java.util.Set;

/// A table of a store that keeps versions: what a store must offer to have transactions.
///
/// A row has columns, a column has versions, each with a timestamp that whoever writes it chooses. Beside
/// them a row has *pending markers*: a set of start timestamps, as durable as the versions. A store may keep
/// them as columns of a family of its own, with the start timestamp as qualifier and as version.
///
/// - B1  A [Mutation] of a row happens as a whole or not at all: nobody sees, and no crash leaves, versions
///   without their marker.
/// - B2  [#mutateIfMarked] looks at the marker and changes the row in one step: nothing happens to the row in
///   between.
/// - B3  A row that is read is the row as it was at one moment after the call of [#read], [#scan] or
///   [#marked] began: everything is there whose call had returned before. Rows of a scan may be of different
///   moments, and of any since the scan began: a store may read many before the first is asked for.
/// - B4  A version stays until it is erased or cut: no limit of versions, no time to live.
/// - B5  A call that has returned, or has failed with [TableException.Effect#NONE], does nothing afterwards:
///   a store that sends requests again by itself must see that an earlier one does not arrive later.
/// - B6  What has returned survives whatever the store is made to survive.
///
/// **Threads:** any may call.
///
/// **Failure:** [TableException] says whether anything may have happened, or may yet.
public interface Table {
    /// Its name.
    String name();

    /// What conflicts here.
    Granularity granularity();

    /// Whether serialisable transactions may scan it. Whoever writes a row then tells the oracle its key,
    /// too, and the oracle keeps the newest of these in memory. All who use a table must say the same, or
    /// phantoms are missed.
    default boolean checksScans() {
        return false;
    }

    /// Changes a row (B1).
    void mutate(Bytes row, Mutation mutation);

    /// Changes a row if it has the marker of this start timestamp (B1, B2). Returns whether it has.
    boolean mutateIfMarked(Bytes row, long start, Mutation mutation);

    /// Reads a row: versions and markers with a timestamp below `below`, of these columns; with none named,
    /// of all. The row may be empty.
    StoredRow read(Bytes row, Set<Column> columns, long below);

    /// Reads rows as [#read] does, in the order of their keys. Rows that are empty then may be left out.
    StoredRows scan(KeyRange range, Set<Column> columns, long below);

    /// Rows that have a marker, whole, in the order of their keys; others may be among them.
    StoredRows marked(KeyRange range);
}
