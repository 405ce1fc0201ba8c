package cedrat.oracle.tables;

import java.util.Iterator;

/// Rows of a table in the order of their keys. For one thread. Its methods throw [TableException] as
/// [Table]'s do. Called again after that, they continue with the row that comes next, or throw again.
public interface StoredRows extends Iterator<StoredRow>, AutoCloseable {
    /// Gives back what the store holds for it.
    @Override
    void close();
}
