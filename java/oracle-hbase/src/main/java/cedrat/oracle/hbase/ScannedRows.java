package cedrat.oracle.hbase;

import cedrat.oracle.tables.Bytes;
import cedrat.oracle.tables.StoredRow;
import cedrat.oracle.tables.StoredRows;
import java.io.IOException;
import java.util.NoSuchElementException;
import java.util.Set;
import org.apache.hadoop.hbase.client.Result;
import org.apache.hadoop.hbase.client.ResultScanner;

/// The rows that a scanner of HBase finds.
final class ScannedRows implements StoredRows {
    private final HBaseTable table;
    private final ResultScanner scanner;
    private final boolean isReadAgain;
    private Result next;
    private boolean isOver;

    /// @param isReadAgain the scanner finds rows, and each is then read whole
    ScannedRows(HBaseTable table, ResultScanner scanner, boolean isReadAgain) {
        this.table = table;
        this.scanner = scanner;
        this.isReadAgain = isReadAgain;
    }

    @Override
    public boolean hasNext() {
        if (next == null && !isOver) {
            try {
                next = scanner.next();
            } catch (IOException problem) {
                throw Refusals.exception(
                        problem,
                        "cannot scan table " + table.name() + "; run `status` in HBase's shell, and try again");
            }
            isOver = next == null;
        }
        return !isOver;
    }

    @Override
    public StoredRow next() {
        if (!hasNext()) {
            throw new NoSuchElementException();
        }
        Bytes key = Bytes.of(next.getRow());
        StoredRow row = isReadAgain ? table.read(key, Set.of(), Long.MAX_VALUE) : Cells.row(key, next);
        next = null;
        return row;
    }

    @Override
    public void close() {
        scanner.close();
    }
}
