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
public record Scan(KeyRange range, Set<Column> columns, Predicate<Row> filter, long limit) {
    /// All rows.
    public static final Scan ALL = new Scan(KeyRange.ALL, Set.of(), row -> true, Long.MAX_VALUE);

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
        return new Scan(other, columns, filter, limit);
    }

    /// The same, of other columns.
    public Scan withColumns(Set<Column> others) {
        return new Scan(range, others, filter, limit);
    }

    /// The same, with another filter.
    public Scan withFilter(Predicate<Row> other) {
        return new Scan(range, columns, other, limit);
    }

    /// The same, with another limit.
    public Scan withLimit(long rows) {
        return new Scan(range, columns, filter, rows);
    }
}
