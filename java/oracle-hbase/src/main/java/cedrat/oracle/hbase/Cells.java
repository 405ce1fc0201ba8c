package cedrat.oracle.hbase;

import cedrat.oracle.tables.Bytes;
import cedrat.oracle.tables.Column;
import cedrat.oracle.tables.Mutation;
import cedrat.oracle.tables.StoredRow;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.NavigableMap;
import java.util.NavigableSet;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.hadoop.hbase.Cell;
import org.apache.hadoop.hbase.CellUtil;
import org.apache.hadoop.hbase.client.Delete;
import org.apache.hadoop.hbase.client.Put;
import org.apache.hadoop.hbase.client.Result;
import org.apache.hadoop.hbase.client.RowMutations;

/// Rows of ours as cells of HBase's, there and back.
final class Cells {
    /// The family of the markers, and of the commit timestamps that replace them.
    static final byte[] PENDING = org.apache.hadoop.hbase.util.Bytes.toBytes(Schema.PENDING);

    private static final byte[] STATE = {};

    private static final byte[] MARKER = {1};

    private Cells() {}

    /// The qualifier of the column of the markers. Each is a version of it, so that the newest few can be read.
    static byte[] stateQualifier() {
        return STATE;
    }

    static byte[] marker() {
        return MARKER.clone();
    }

    /// Returns the changes as one request for the row, which HBase applies atomically, in all families: a [Put], a
    /// [Delete], or [RowMutations] with both.
    static org.apache.hadoop.hbase.client.Row change(byte[] row, Mutation mutation) throws IOException {
        List<org.apache.hadoop.hbase.client.Mutation> changes = new ArrayList<>(2);
        if (!mutation.onlyRemoves()) {
            Put put = new Put(row);
            for (Mutation.Version version : mutation.puts()) {
                Column column = version.column();
                put.addColumn(
                        column.family().toArray(),
                        column.qualifier().toArray(),
                        version.timestamp(),
                        version.value().toArray());
            }
            mutation.marks().forEach(start -> put.addColumn(PENDING, STATE, start, MARKER));
            // Of two cells with the same column and timestamp, the one that was written last counts.
            mutation.stamps()
                    .forEach(stamp -> put.addColumn(
                            PENDING,
                            STATE,
                            stamp.start(),
                            Bytes.of(stamp.commit()).toArray()));
            changes.add(put);
        }
        if (!mutation.erasures().isEmpty()
                || !mutation.cuts().isEmpty()
                || !mutation.unmarks().isEmpty()) {
            Delete delete = new Delete(row);
            for (Mutation.CellVersion erased : mutation.erasures()) {
                Column column = erased.column();
                // Exactly this version.
                delete.addColumn(column.family().toArray(), column.qualifier().toArray(), erased.timestamp());
            }
            for (Mutation.CellVersion cut : mutation.cuts()) {
                Column column = cut.column();
                // This one and all that are older: who reads skips them in one step.
                delete.addColumns(column.family().toArray(), column.qualifier().toArray(), cut.timestamp());
            }
            mutation.unmarks().forEach(start -> delete.addColumn(PENDING, STATE, start));
            changes.add(delete);
        }
        return changes.size() == 1 ? changes.get(0) : RowMutations.of(changes);
    }

    static StoredRow row(Bytes key, Result result) {
        NavigableMap<Column, NavigableMap<Long, Bytes>> versions = new TreeMap<>();
        NavigableSet<Long> pending = new TreeSet<>();
        NavigableMap<Long, Long> commits = new TreeMap<>();
        if (!result.isEmpty()) {
            for (Cell cell : result.rawCells()) {
                if (CellUtil.matchingFamily(cell, PENDING)) {
                    if (CellUtil.matchingValue(cell, MARKER)) {
                        pending.add(cell.getTimestamp());
                    } else {
                        commits.put(cell.getTimestamp(), value(cell).toLong());
                    }
                    continue;
                }
                Column column = new Column(
                        Bytes.of(cell.getFamilyArray(), cell.getFamilyOffset(), cell.getFamilyLength()),
                        Bytes.of(cell.getQualifierArray(), cell.getQualifierOffset(), cell.getQualifierLength()));
                versions.computeIfAbsent(column, none -> new TreeMap<>()).put(cell.getTimestamp(), value(cell));
            }
        }
        return new StoredRow(key, versions, pending, commits);
    }

    private static Bytes value(Cell cell) {
        return Bytes.of(cell.getValueArray(), cell.getValueOffset(), cell.getValueLength());
    }
}
