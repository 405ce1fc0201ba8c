package cedrat.oracle.tables;

import java.util.Objects;

/// A column: a family, which a table has few of and knows beforehand, and a qualifier, of which there may be
/// any number.
public record Column(Bytes family, Bytes qualifier) implements Comparable<Column> {
    /// Checks them.
    public Column {
        Objects.requireNonNull(family);
        Objects.requireNonNull(qualifier);
    }

    /// A column by names.
    public static Column of(String family, String qualifier) {
        return new Column(Bytes.of(family), Bytes.of(qualifier));
    }

    @Override
    public int compareTo(Column other) {
        int families = family.compareTo(other.family);
        return families != 0 ? families : qualifier.compareTo(other.qualifier);
    }

    @Override
    public String toString() {
        return family + ":" + qualifier;
    }
}
