package cedrat.oracle.maintenance;

import cedrat.oracle.tables.Pace;
import java.time.Duration;

/// A number of rows a second, and the end of a pass over tables at a stop. **Threads:** one at a time.
final class RowRate implements Pace {
    private static final long SECOND = Duration.ofSeconds(1).toNanos();

    private final long rowsPerSecond;
    private final Waiting waiting;
    /// From when on the next batch may begin.
    private long due;

    /// @param rowsPerSecond 0 for no limit
    RowRate(long rowsPerSecond, Waiting waiting) {
        this.rowsPerSecond = rowsPerSecond;
        this.waiting = waiting;
        due = waiting.nanos();
    }

    @Override
    public void visited(int rows) {
        if (rowsPerSecond > 0) {
            long now = waiting.nanos();
            // The time of reading the rows counts; a pause before them does not.
            long batch = rows * SECOND / rowsPerSecond;
            due = Math.max(due, now - batch) + batch;
            waiting.await(Duration.ofNanos(Math.max(0, due - now)));
        }
        if (waiting.isStopped()) {
            throw new Waiting.StoppedException();
        }
    }
}
