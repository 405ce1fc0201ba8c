package cedrat.oracle.server;

/// How long things took, in a few numbers: how many took less than 1, 2, 4, … microseconds. Counted by one
/// thread, without a lock and without an object; others get a copy.
final class Durations {
    /// The last bucket ends at eight seconds; what took longer is behind all.
    static final int BUCKETS = 24;

    private final long[] counts = new long[BUCKETS + 1];
    private long nanos;

    /// So many things took so long each.
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

    /// What was counted when it was made.
    ///
    /// @param counts for each bucket, how many took less than its end, and not less than the end of the one
    ///     before
    /// @param nanos the sum of all
    record Copy(long[] counts, long nanos) {
        /// Where a bucket ends, in seconds.
        static double endSeconds(int bucket) {
            return (1L << bucket) / 1e6;
        }
    }
}
