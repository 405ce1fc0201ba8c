package cedrat.oracle.maintenance;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.function.IntPredicate;

/// Time that passes by waits alone. **Threads:** one.
final class TestTime implements Waiting {
    final List<Duration> waits = new ArrayList<>();
    /// Called at each wait with its number, from 1; returns whether the work is to go on.
    IntPredicate each = wait -> true;

    private long nanos = Long.MAX_VALUE - Duration.ofHours(1).toNanos(); // clocks begin anywhere
    private boolean isStopped;

    void stop() {
        isStopped = true;
    }

    /// Undoes a stop.
    void again() {
        isStopped = false;
        waits.clear();
    }

    @Override
    public long nanos() {
        return nanos;
    }

    @Override
    public boolean await(Duration time) {
        if (time.isPositive()) {
            waits.add(time);
            nanos += time.toNanos();
            isStopped |= !each.test(waits.size());
        }
        return !isStopped;
    }
}
