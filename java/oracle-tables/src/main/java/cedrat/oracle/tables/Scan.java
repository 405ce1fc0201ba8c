package cedrat.oracle.tables;

import java.util.Objects;
import java.util.Set;
import java.util.function.Predicate;

/// Which rows a scan returns.
///
/// @param range their keys
/// @param columns the columns that are read; with none named, all. A row without a value in any of them is
///     not returned
/// @param filter says of each row, as the transaction sees it, whether it is returned
/// @param limit so many rows are returned at most
/// @param isReversed whether it begins at the end of the range
public record Scan(KeyRange range, Set<Column> columns, Predicate<Row> filter, long limit, boolean isReversed) {
    /// All rows.
    public static final Scan ALL = new Scan(KeyRange.ALL, Set.of(), row -> true, Long.MAX_VALUE, false);

    /// Checks them.
    public Scan {
        Objects.requireNonNull(range);
        columns = Set.copyOf(columns);
        Objects.requireNonNull(filter);
        if (limit < 0) {
            throw new IllegalArgumentException("invalid limit of " + limit + " rows: choose 0 or more");
        }
    }

    /// The same, of other keys.
    public Scan withRange(KeyRange other) {
        return new Scan(other, columns, filter, limit, isReversed);
    }

    /// The same, of other columns.
    public Scan withColumns(Set<Column> others) {
        return new Scan(range, others, filter, limit, isReversed);
    }

    /// The same, with another filter.
    public Scan withFilter(Predicate<Row> other) {
        return new Scan(range, columns, other, limit, isReversed);
    }

    /// The same, with another limit.
    public Scan withLimit(long rows) {
        return new Scan(range, columns, filter, rows, isReversed);
    }

    /// The same, in the opposite order.
    public Scan reversed() {
        return new Scan(range, columns, filter, limit, !isReversed);
    }
}
