package cedrat.oracle.server;

import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;

/// Limit of the records of an event that peers can cause as often as they like. **Threads:** any may call.
final class Seldom {
    /// Least time between two records.
    private static final long NANOS = TimeUnit.SECONDS.toNanos(10);

    private final AtomicLong next = new AtomicLong(System.nanoTime());

    /// Returns whether the present event is to be recorded.
    boolean isDue() {
        long now = System.nanoTime();
        long due = next.get();
        return now - due >= 0 && next.compareAndSet(due, now + NANOS);
    }
}
