package cedrat.oracle.server;

/// Histogram of durations: the numbers of those below 1, 2, 4, … microseconds. Written by one thread, without
/// a lock and without allocation; other threads get a copy.
final class Durations {
    /// The last bucket ends at eight seconds; what took longer is behind all.
    static final int BUCKETS = 24;

    private final long[] counts = new long[BUCKETS + 1];
    private long nanos;

    /// Records this number of operations that took so long each.
    void record(long nanosEach, int count) {
        long micros = Math.max(0, nanosEach) / 1_000;
        int bucket = Math.min(Long.SIZE - Long.numberOfLeadingZeros(micros), BUCKETS);
        counts[bucket] += count;
        nanos += Math.max(0, nanosEach) * count;
    }

    /// A copy, that does not change.
    Copy copy() {
        return new Copy(counts.clone(), nanos);
    }

    /// Copy of the counts at one moment.
    ///
    /// @param counts for each bucket, the number of durations below its end and not below the end of the
    ///     bucket before
    /// @param nanos the sum of all
    record Copy(long[] counts, long nanos) {
        /// Where a bucket ends, in seconds.
        static double endSeconds(int bucket) {
            return (1L << bucket) / 1e6;
        }
    }
}
