package cedrat.oracle.tables;

import java.time.Duration;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.LongSupplier;

/// A clock of clients by which time is measured, and that jumps forward as that of a machine does which was suspended.
/// **Threads:** any may call.
final class NemesisClock implements LongSupplier {
    private final AtomicLong jumped = new AtomicLong();

    @Override
    public long getAsLong() {
        return System.nanoTime() + jumped.get();
    }

    /// Sets it forward.
    void jump(Duration by) {
        jumped.addAndGet(by.toNanos());
    }

    @Override
    public String toString() {
        return "clocks " + Duration.ofNanos(jumped.get()).toHours() + " h ahead";
    }
}
