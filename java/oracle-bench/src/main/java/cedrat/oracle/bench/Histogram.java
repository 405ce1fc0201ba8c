package cedrat.oracle.bench;

/// How often each duration was seen, to about three in a hundred. For one thread at a time.
final class Histogram {
    private static final int SUB_SHIFT = 5;
    private static final int SUB = 1 << SUB_SHIFT;

    private final long[] counts = new long[(Long.SIZE - SUB_SHIFT) * SUB];
    private long total;

    void add(long nanos) {
        counts[bucket(Math.max(0, nanos))]++;
        total++;
    }

    void add(Histogram other) {
        for (int bucket = 0; bucket < counts.length; bucket++) {
            counts[bucket] += other.counts[bucket];
        }
        total += other.total;
    }

    long total() {
        return total;
    }

    /// The duration, in microseconds, that a part of all does not exceed.
    double quantileMicros(double part) {
        long wanted = (long) Math.ceil(part * total);
        long seen = 0;
        for (int bucket = 0; bucket < counts.length; bucket++) {
            seen += counts[bucket];
            if (seen >= wanted && seen > 0) {
                return middle(bucket) / 1e3;
            }
        }
        return 0;
    }

    private static int bucket(long nanos) {
        int shift = Math.max(0, Long.SIZE - 1 - Long.numberOfLeadingZeros(nanos | 1) - SUB_SHIFT);
        return shift * SUB + (int) (nanos >>> shift);
    }

    private static double middle(int bucket) {
        int shift = Math.max(0, bucket / SUB - 1);
        long low = (long) (bucket - shift * SUB) << shift;
        return low + (1L << shift) / 2.0;
    }
}
