package cedrat.oracle.tables;

import java.util.Objects;
import java.util.Set;
import java.util.function.Predicate;

/// Which rows a scan returns.
public final class Scan {
    /// All rows.
    public static final Scan ALL = new Scan(KeyRange.ALL, Set.of(), row -> true, Long.MAX_VALUE, false);

    private final KeyRange range;
    private final Set<Column> columns;
    private final Predicate<Row> filter;
    private final long limit;
    private final boolean isReversed;

    /// The rows of a range.
    ///
    /// @param range their keys
    /// @param columns the columns that are read; with none named, all. A row without a value in any of them is
    ///     not returned
    /// @param filter says of each row, as the transaction sees it, whether it is returned
    /// @param limit so many rows are returned at most
    /// @param isReversed whether it begins at the end of the range
    public Scan(KeyRange range, Set<Column> columns, Predicate<Row> filter, long limit, boolean isReversed) {
        this.range = Objects.requireNonNull(range);
        this.columns = Set.copyOf(columns);
        this.filter = Objects.requireNonNull(filter);
        this.limit = limit;
        this.isReversed = isReversed;
        if (limit < 0) {
            throw new IllegalArgumentException("invalid limit of " + limit + " rows: choose 0 or more");
        }
    }

    /// Returns the keys of the rows.
    public KeyRange range() {
        return range;
    }

    /// Returns the columns that are read; none named stands for all.
    public Set<Column> columns() {
        return columns;
    }

    /// Returns what says of each row whether it is returned.
    public Predicate<Row> filter() {
        return filter;
    }

    /// Returns the largest number of rows.
    public long limit() {
        return limit;
    }

    /// Whether it begins at the end of the range.
    public boolean isReversed() {
        return isReversed;
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

    @Override
    public boolean equals(Object other) {
        if (!(other instanceof Scan)) {
            return false;
        }
        Scan scan = (Scan) other;
        return range.equals(scan.range)
                && columns.equals(scan.columns)
                && filter.equals(scan.filter)
                && limit == scan.limit
                && isReversed == scan.isReversed;
    }

    @Override
    public int hashCode() {
        return Objects.hash(range, columns, filter, limit, isReversed);
    }

    @Override
    public String toString() {
        return "Scan[range=" + range + ", columns=" + columns + ", filter=" + filter + ", limit=" + limit
                + ", isReversed=" + isReversed + "]";
    }
}
