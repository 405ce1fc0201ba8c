package cedrat.oracle.tables;

import java.util.Objects;
import java.util.Set;
import java.util.function.Predicate;

/// Which rows a scan returns.
public final class Scan {
    /// All rows.
    public static final Scan ALL = new Scan(KeyRange.ALL, Set.of(), Set.of(), row -> true, Long.MAX_VALUE, false);

    private final KeyRange range;
    private final Set<Column> columns;
    private final Set<Column> columnPrefixes;
    private final Predicate<Row> filter;
    private final long limit;
    private final boolean isReversed;

    /// The rows of a range.
    ///
    /// @param range their keys
    /// @param columns the columns that are read; with none named, all. A row without a value in any of them is
    ///     not returned
    /// @param columnPrefixes columns are read that have the family of one of these, and a qualifier that begins
    ///     with that one's; with none named, all
    /// @param filter says of each row, as the transaction sees it, whether it is returned
    /// @param limit so many rows are returned at most
    /// @param isReversed whether it begins at the end of the range
    public Scan(
            KeyRange range,
            Set<Column> columns,
            Set<Column> columnPrefixes,
            Predicate<Row> filter,
            long limit,
            boolean isReversed) {
        this.range = Objects.requireNonNull(range);
        this.columns = Set.copyOf(columns);
        this.columnPrefixes = Set.copyOf(columnPrefixes);
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

    /// Returns families and beginnings of qualifiers of the columns that are read; none stands for all.
    public Set<Column> columnPrefixes() {
        return columnPrefixes;
    }

    /// Whether it reads this column.
    boolean selects(Column column) {
        return (columns.isEmpty() || columns.contains(column))
                && (columnPrefixes.isEmpty() || columnPrefixes.stream().anyMatch(column::startsWith));
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
        return new Scan(other, columns, columnPrefixes, filter, limit, isReversed);
    }

    /// The same, of other columns.
    public Scan withColumns(Set<Column> others) {
        return new Scan(range, others, columnPrefixes, filter, limit, isReversed);
    }

    /// The same, of the columns that begin so: families, and beginnings of qualifiers.
    public Scan withColumnPrefixes(Set<Column> others) {
        return new Scan(range, columns, others, filter, limit, isReversed);
    }

    /// The same, with another filter. It is not sent to the store: a version that it matches may not be visible, and
    /// another one of the same cell may be.
    public Scan withFilter(Predicate<Row> other) {
        return new Scan(range, columns, columnPrefixes, other, limit, isReversed);
    }

    /// The same, with another limit.
    public Scan withLimit(long rows) {
        return new Scan(range, columns, columnPrefixes, filter, rows, isReversed);
    }

    /// The same, in the opposite order.
    public Scan reversed() {
        return new Scan(range, columns, columnPrefixes, filter, limit, !isReversed);
    }

    @Override
    public boolean equals(Object other) {
        if (!(other instanceof Scan)) {
            return false;
        }
        Scan scan = (Scan) other;
        return range.equals(scan.range)
                && columns.equals(scan.columns)
                && columnPrefixes.equals(scan.columnPrefixes)
                && filter.equals(scan.filter)
                && limit == scan.limit
                && isReversed == scan.isReversed;
    }

    @Override
    public int hashCode() {
        return Objects.hash(range, columns, columnPrefixes, filter, limit, isReversed);
    }

    @Override
    public String toString() {
        return "Scan[range=" + range + ", columns=" + columns + ", columnPrefixes=" + columnPrefixes + ", filter="
                + filter + ", limit=" + limit + ", isReversed=" + isReversed + "]";
    }
}
