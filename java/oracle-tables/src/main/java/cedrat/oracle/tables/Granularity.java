package cedrat.oracle.tables;

import cedrat.oracle.client.RowIds;
import java.nio.ByteBuffer;

/// Unit of conflict: two transactions conflict when both write to the same unit. All clients of a table must
/// use the same, or conflicts are missed.
public enum Granularity {
    /// The row.
    ROW {
        @Override
        long id(byte[] table, Bytes row, Column column) {
            return RowIds.of(table, row.raw());
        }
    },
    /// A column of the row. Two transactions may then change different columns of a row side by side; each
    /// written cell is one row more to the oracle.
    CELL {
        @Override
        long id(byte[] table, Bytes row, Column column) {
            byte[] family = column.family().raw();
            byte[] qualifier = column.qualifier().raw();
            // With the lengths, no two cells are the same bytes.
            byte[] cell = ByteBuffer.allocate(8 + row.length() + family.length + qualifier.length)
                    .putInt(row.length())
                    .putInt(family.length)
                    .put(row.raw())
                    .put(family)
                    .put(qualifier)
                    .array();
            return RowIds.of(table, cell);
        }
    };

    /// Returns the id of a cell at the oracle.
    abstract long id(byte[] table, Bytes row, Column column);
}
