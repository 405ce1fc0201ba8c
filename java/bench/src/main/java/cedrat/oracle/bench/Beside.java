package cedrat.oracle.bench;

import java.io.IOException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;

/// Measures, while a system runs, the delays of two nearly idle threads: one writes a synced block of 4 KiB now
/// and then, the other only sleeps. A delay does not show its cause: the disk, the host, or the system itself,
/// which shares both with them.
///
/// **Threads:** two of its own; what they have seen is asked for when they have ended.
final class Beside implements AutoCloseable {
    private static final Duration BETWEEN_WRITES = Duration.ofMillis(10);
    private static final Duration SLEEP = Duration.ofMillis(1);

    /// Shorter ones explain no gap.
    private static final long KEPT_NS = 5_000_000;

    /// Something that took longer than it should have.
    record Delay(long from, long to) {
        boolean overlaps(Results.Gap gap) {
            return from < gap.to() && gap.from() < to;
        }
    }

    /// Durations that one thread has measured.
    static final class Course {
        final Histogram times = new Histogram();
        final List<Delay> delays = new ArrayList<>();
        long longest;

        void add(long from, long to) {
            times.add(to - from);
            longest = Math.max(longest, to - from);
            if (to - from > KEPT_NS) {
                delays.add(new Delay(from, to));
            }
        }

        /// The longest within a gap, in milliseconds.
        double longestIn(Results.Gap gap) {
            return delays.stream()
                            .filter(delay -> delay.overlaps(gap))
                            .mapToLong(delay -> delay.to() - delay.from())
                            .max()
                            .orElse(0)
                    / 1e6;
        }
    }

    final Course writes = new Course();
    final Course sleeps = new Course();

    private final Disk.Blocks blocks;
    private final Thread writer;
    private final Thread sleeper;
    private volatile boolean ending;
    private volatile IOException problem;

    /// Begins, with a file in this directory.
    Beside(Path directory) throws IOException {
        blocks = new Disk.Blocks(directory);
        writer = Thread.ofPlatform().name("writes beside").start(this::write);
        sleeper = Thread.ofPlatform().name("sleeps beside").start(this::sleep);
    }

    private void write() {
        try {
            while (!ending) {
                long before = System.nanoTime();
                blocks.write();
                writes.add(before, System.nanoTime());
                // A pause, so that these writes hardly load the disk that they share with the measured system.
                Thread.sleep(BETWEEN_WRITES);
            }
        } catch (IOException full) {
            problem = full;
        } catch (InterruptedException ended) {
            Thread.currentThread().interrupt();
        }
    }

    private void sleep() {
        try {
            while (!ending) {
                long before = System.nanoTime();
                // The sleep itself is measured: the time beyond SLEEP is a delay of the scheduler or of the JVM.
                Thread.sleep(SLEEP);
                sleeps.add(before, System.nanoTime());
            }
        } catch (InterruptedException ended) {
            Thread.currentThread().interrupt();
        }
    }

    /// Ends the threads.
    @Override
    public void close() throws IOException {
        ending = true;
        try {
            writer.join();
            sleeper.join();
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
            throw new IOException("interrupted while threads ended", interrupted);
        }
        blocks.close();
        if (problem != null) {
            throw problem;
        }
    }
}
