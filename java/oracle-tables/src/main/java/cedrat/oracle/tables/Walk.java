package cedrat.oracle.tables;

import java.util.ArrayList;
import java.util.List;
import java.util.function.BiConsumer;
import java.util.function.Function;

/// Goes once over tables, some rows at a time.
final class Walk {
    /// Number of rows that are visited together, with one request to the oracle.
    private static final int BATCH_ROWS = 256;

    private Walk() {}

    /// Hands out the rows that `rows` finds in each table, in batches of which none is empty.
    static void over(
            List<Table> tables, Pace pace, Function<Table, StoredRows> rows, BiConsumer<Table, List<StoredRow>> each) {
        for (Table table : tables) {
            try (StoredRows found = rows.apply(table)) {
                while (found.hasNext()) {
                    List<StoredRow> batch = new ArrayList<>();
                    while (batch.size() < BATCH_ROWS && found.hasNext()) {
                        batch.add(found.next());
                    }
                    each.accept(table, batch);
                    pace.visited(batch.size());
                }
            }
        }
    }
}
