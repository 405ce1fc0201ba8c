package cedrat.oracle.tables;

import java.util.Collections;
import java.util.NavigableMap;
import java.util.Optional;

/// A row as a transaction sees it; it does not change.
///
/// @param key the row's
/// @param cells the columns that have a value
public record Row(Bytes key, NavigableMap<Column, Bytes> cells) {
    /// Takes them.
    public Row {
        cells = Collections.unmodifiableNavigableMap(cells);
    }

    /// The value in a column.
    public Optional<Bytes> get(Column column) {
        return Optional.ofNullable(cells.get(column));
    }

    /// Whether no column has a value: there is no such row.
    public boolean isEmpty() {
        return cells.isEmpty();
    }
}
