package cedrat.persist.store;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.util.List;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.ThreadFactory;
import java.util.concurrent.atomic.AtomicBoolean;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/// Waits for durable commits where no thread can start.
@Timeout(60)
class DurableWaitsTest {
    /// J9f.
    @Test
    void waitWithoutThreadLeavesQueue() {
        AtomicBoolean isExhausted = new AtomicBoolean(true);
        ThreadFactory factory = work -> {
            if (isExhausted.get()) {
                throw new OutOfMemoryError("unable to create native thread");
            }
            return Thread.ofPlatform().daemon().unstarted(work);
        };
        ConcurrentLinkedQueue<Long> served = new ConcurrentLinkedQueue<>();
        DurableWaits waits = new DurableWaits(served::add, factory);
        assertThrows(OutOfMemoryError.class, () -> waits.until(1));
        isExhausted.set(false);
        waits.until(2).join();
        waits.until(3).join();
        assertEquals(List.of(2L, 3L), List.copyOf(served));
    }
}
