package cedrat.oracle.tables;

import java.util.List;
import java.util.SplittableRandom;

/// A client of lists: one transaction after the other reads some rows of tables, and appends to some. For one
/// thread.
public final class ListClient {
    private final ListHistory.Recorder recorder;
    private final int process;
    private final Isolation isolation;
    private final List<Table> tables;
    private final KeyRange range;
    private final List<String> rows;
    private final SplittableRandom random;

    /// @param process its number, unique in the history; also the seed of its random choices
    /// @param range has these rows and no others, in each table
    public ListClient(
            ListHistory.Recorder recorder,
            int process,
            Isolation isolation,
            List<Table> tables,
            KeyRange range,
            List<String> rows) {
        this.recorder = recorder;
        this.process = process;
        this.isolation = isolation;
        this.tables = tables;
        this.range = range;
        this.rows = rows;
        random = new SplittableRandom(process);
    }

    /// Begins one.
    ListHistory.Recorded begin(TransactionManager manager) {
        return new ListHistory.Recorded(recorder, process, manager, isolation);
    }

    /// Does everything but the commit.
    void fill(ListHistory.Recorded recorded) {
        for (int read = random.nextInt(3); read > 0; read--) {
            recorded.read(tables.get(random.nextInt(2)), row());
        }
        if (random.nextInt(4) == 0) {
            recorded.scan(tables.get(random.nextInt(2)), range, rows);
        }
        for (int append = random.nextInt(3); append > 0; append--) {
            recorded.append(tables.get(random.nextInt(2)), row());
        }
    }

    /// Runs one; returns whether it has committed. It aborts if the store does not answer.
    public boolean run(TransactionManager manager) {
        try (ListHistory.Recorded recorded = begin(manager)) {
            try {
                fill(recorded);
            } catch (TableException lost) {
                recorded.failed();
                return false;
            }
            return recorded.commit();
        }
    }

    /// Reads all rows of all tables.
    public void readAll(TransactionManager manager) {
        try (ListHistory.Recorded recorded = begin(manager)) {
            tables.forEach(table -> recorded.scan(table, range, rows));
            if (isolation == Isolation.SNAPSHOT) {
                recorded.recordRead();
            } else {
                recorded.commit();
            }
        }
    }

    private String row() {
        return rows.get(random.nextInt(rows.size()));
    }

    /// Random source for other choices of this client.
    SplittableRandom random() {
        return random;
    }
}
