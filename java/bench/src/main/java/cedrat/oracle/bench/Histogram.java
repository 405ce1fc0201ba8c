package cedrat.oracle.bench;

import java.io.DataInput;
import java.io.DataOutput;
import java.io.IOException;

/// How often each duration was seen, to about three in a hundred. For one thread at a time.
final class Histogram {
    private static final int SUB_SHIFT = 5;
    private static final int SUB = 1 << SUB_SHIFT;

    private final long[] counts = new long[(Long.SIZE - SUB_SHIFT) * SUB];
    private long total;
    private long sum;

    void add(long nanos) {
        counts[bucket(Math.max(0, nanos))]++;
        total++;
        sum += nanos;
    }

    void add(Histogram other) {
        for (int bucket = 0; bucket < counts.length; bucket++) {
            counts[bucket] += other.counts[bucket];
        }
        total += other.total;
        sum += other.sum;
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

    double meanMicros() {
        return total == 0 ? 0 : sum / 1e3 / total;
    }

    void write(DataOutput to) throws IOException {
        for (long count : counts) {
            to.writeLong(count);
        }
        to.writeLong(total);
        to.writeLong(sum);
    }

    /// Adds what another process has written.
    void read(DataInput from) throws IOException {
        for (int bucket = 0; bucket < counts.length; bucket++) {
            counts[bucket] += from.readLong();
        }
        total += from.readLong();
        sum += from.readLong();
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
