package cedrat.oracle.tables;

import java.util.Collections;
import java.util.NavigableMap;
import java.util.Objects;
import java.util.Optional;

/// A row as a transaction sees it; it does not change.
public final class Row {
    private final Bytes key;
    private final NavigableMap<Column, Bytes> cells;

    /// A row with these cells, of which no copy is made.
    public Row(Bytes key, NavigableMap<Column, Bytes> cells) {
        this.key = Objects.requireNonNull(key);
        this.cells = Collections.unmodifiableNavigableMap(cells);
    }

    /// Returns its key.
    public Bytes key() {
        return key;
    }

    /// Returns the columns that have a value.
    public NavigableMap<Column, Bytes> cells() {
        return cells;
    }

    /// The value in a column.
    public Optional<Bytes> get(Column column) {
        return Optional.ofNullable(cells.get(column));
    }

    /// Whether no column has a value: there is no such row.
    public boolean isEmpty() {
        return cells.isEmpty();
    }

    @Override
    public boolean equals(Object other) {
        if (!(other instanceof Row)) {
            return false;
        }
        Row row = (Row) other;
        return key.equals(row.key) && cells.equals(row.cells);
    }

    @Override
    public int hashCode() {
        return 31 * key.hashCode() + cells.hashCode();
    }

    @Override
    public String toString() {
        return "Row[key=" + key + ", cells=" + cells + "]";
    }
}
