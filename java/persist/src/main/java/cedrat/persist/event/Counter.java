package cedrat.persist.event;

import java.util.concurrent.atomic.LongAdder;

/// A counter that many threads increment.
///
/// If memory runs out, a count is lost: an error would make a commit that is durable look as if it had failed, or keep
/// locks.
///
/// **Threads:** any.
public final class Counter {
    private final LongAdder count = new LongAdder();

    /// Adds one.
    public void increment() {
        add(1);
    }

    /// Adds a number.
    public void add(long number) {
        try {
            count.add(number);
        } catch (VirtualMachineError lost) {
            return;
        }
    }

    /// Returns the sum.
    public long sum() {
        return count.sum();
    }
}
