package cedrat.oracle.hbase;

import static org.junit.jupiter.api.Assertions.assertEquals;

import cedrat.oracle.tables.Bytes;
import cedrat.oracle.tables.Column;
import cedrat.oracle.tables.Mutation;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import org.apache.hadoop.hbase.Cell;
import org.apache.hadoop.hbase.client.RowMutations;
import org.junit.jupiter.api.Test;

/// O7g: the cells that a transaction puts into HBase's log for a row.
class LoggedBytesTest {
    private static final byte[] ROW = new byte[16];
    private static final Column COLUMN = Column.of("f", "value");
    private static final long START = 7;
    private static final long COMMIT = 9;

    private static List<Cell> cells(Mutation mutation) throws IOException {
        List<Cell> cells = new ArrayList<>();
        org.apache.hadoop.hbase.client.Row change = Cells.change(ROW, mutation);
        List<org.apache.hadoop.hbase.client.Mutation> parts = change instanceof RowMutations both
                ? both.getMutations()
                : List.of((org.apache.hadoop.hbase.client.Mutation) change);
        parts.forEach(part -> part.getFamilyCellMap().values().forEach(cells::addAll));
        return cells;
    }

    private static int bytes(List<Cell> cells) {
        return cells.stream().mapToInt(Cell::getSerializedSize).sum();
    }

    private static Mutation write(Bytes value) {
        Mutation.Version version = new Mutation.Version(COLUMN, START, value);
        return new Mutation(List.of(version), List.of(), List.of(), List.of(START), List.of(), List.of());
    }

    private static Mutation stamp() {
        List<Mutation.Stamp> stamps = List.of(new Mutation.Stamp(START, COMMIT));
        return new Mutation(List.of(), List.of(), List.of(), List.of(), stamps, List.of());
    }

    private static Mutation settle() {
        return new Mutation(List.of(), List.of(), List.of(), List.of(), List.of(), List.of(START));
    }

    /// As in layout 1: the value again, and a tombstone each for the marker and the version.
    private static Mutation writeAgain(Bytes value) {
        List<Mutation.Version> puts = List.of(new Mutation.Version(COLUMN, COMMIT, value));
        List<Mutation.CellVersion> erasures = List.of(new Mutation.CellVersion(COLUMN, START));
        return new Mutation(puts, erasures, List.of(), List.of(), List.of(), List.of(START));
    }

    @Test
    void valueIsLoggedOnce() throws IOException {
        for (int length : List.of(10, 100, 1000, 10_000)) {
            Bytes value = Bytes.of(new byte[length]);
            List<Cell> logged = cells(write(value));
            logged.addAll(cells(stamp()));
            List<Cell> settled = cells(settle());
            List<Cell> before = cells(write(value));
            before.addAll(cells(writeAgain(value)));
            System.out.printf(
                    "value of %d bytes: %d cells of %d bytes, and %d of %d when they are pruned; in layout 1 %d of %d%n",
                    length, logged.size(), bytes(logged), settled.size(), bytes(settled), before.size(), bytes(before));
            assertEquals(3, logged.size());
            assertEquals(
                    0,
                    logged.stream()
                            .filter(cell -> cell.getType() != Cell.Type.Put)
                            .count());
            assertEquals(length + 127, bytes(logged));
            assertEquals(1, settled.size());
            assertEquals(5, before.size());
            assertEquals(2 * length + 203, bytes(before));
        }
    }
}
