package cedrat.oracle.tables;

import java.util.Objects;

/// A column: a family, which a table has few of and knows beforehand, and a qualifier, of which there may be
/// any number.
public final class Column implements Comparable<Column> {
    private final Bytes family;
    private final Bytes qualifier;

    /// A column of a family.
    public Column(Bytes family, Bytes qualifier) {
        this.family = Objects.requireNonNull(family);
        this.qualifier = Objects.requireNonNull(qualifier);
    }

    /// A column by names.
    public static Column of(String family, String qualifier) {
        return new Column(Bytes.of(family), Bytes.of(qualifier));
    }

    /// Returns the family.
    public Bytes family() {
        return family;
    }

    /// Returns the qualifier.
    public Bytes qualifier() {
        return qualifier;
    }

    @Override
    public int compareTo(Column other) {
        int families = family.compareTo(other.family);
        return families != 0 ? families : qualifier.compareTo(other.qualifier);
    }

    /// Whether it is of the family of that column, and its qualifier begins with that one's.
    public boolean startsWith(Column prefix) {
        return family.equals(prefix.family) && qualifier.startsWith(prefix.qualifier);
    }

    @Override
    public boolean equals(Object other) {
        if (!(other instanceof Column)) {
            return false;
        }
        Column column = (Column) other;
        return family.equals(column.family) && qualifier.equals(column.qualifier);
    }

    @Override
    public int hashCode() {
        return 31 * family.hashCode() + qualifier.hashCode();
    }

    @Override
    public String toString() {
        return family + ":" + qualifier;
    }
}
