package cedrat.oracle.maintenance;

import java.time.Duration;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;

/// Time that passes, and waits that a stop ends. **Threads:** any may call.
interface Waiting {
    /// Returns the time of a clock that only goes forward.
    long nanos();

    /// Waits for this long, or until the stop. Returns whether there was none.
    boolean await(Duration time);

    /// Whether the work is to end.
    default boolean isStopped() {
        return !await(Duration.ZERO);
    }

    /// Thrown out of a pass over tables, to end it.
    final class StoppedException extends RuntimeException {
        private static final long serialVersionUID = 1L;

        StoppedException() {
            super("the command was stopped", null, false, false);
        }
    }

    /// The clock of the virtual machine.
    final class Real implements Waiting {
        private final CountDownLatch stop = new CountDownLatch(1);

        /// Ends all waits.
        void stop() {
            stop.countDown();
        }

        @Override
        public long nanos() {
            return System.nanoTime();
        }

        @Override
        public boolean await(Duration time) {
            try {
                return !stop.await(time.toNanos(), TimeUnit.NANOSECONDS);
            } catch (InterruptedException interrupted) {
                Thread.currentThread().interrupt();
                return false;
            }
        }
    }
}
