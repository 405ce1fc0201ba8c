package cedrat.oracle.bench;

import java.io.DataInput;
import java.io.DataOutput;
import java.io.IOException;
import java.util.Arrays;

/// Which commits there were: how many and their sum, for each stretch of commit timestamps. Two that were
/// collected in different orders, or in parts, can be compared; a commit that only one of them has, or that
/// has another start timestamp or other rows in one, is seen but for a chance of 2^-64.
final class Acknowledged {
    private static final int STRETCH_SHIFT = 12;

    private int[] counts = new int[1 << 10];
    private long[] sums = new long[1 << 10];
    private int stretches;

    void add(long start, long commit, long[] rows, int count) {
        long sum = start * 0x9e37_79b9_7f4a_7c15L + commit;
        for (int at = 0; at < count; at++) {
            sum = (sum ^ rows[at]) * 0xff51_afd7_ed55_8ccdL;
            sum ^= sum >>> 32;
        }
        add(Math.toIntExact(commit >>> STRETCH_SHIFT), 1, sum);
    }

    private void add(int stretch, int count, long sum) {
        if (stretch >= counts.length) {
            int length = Math.max(2 * counts.length, stretch + 1);
            counts = Arrays.copyOf(counts, length);
            sums = Arrays.copyOf(sums, length);
        }
        counts[stretch] += count;
        sums[stretch] += sum;
        stretches = Math.max(stretches, stretch + 1);
    }

    void add(Acknowledged other) {
        for (int stretch = 0; stretch < other.stretches; stretch++) {
            add(stretch, other.counts[stretch], other.sums[stretch]);
        }
    }

    long count() {
        return Arrays.stream(counts).asLongStream().sum();
    }

    private int count(int stretch) {
        return stretch < stretches ? counts[stretch] : 0;
    }

    private long sum(int stretch) {
        return stretch < stretches ? sums[stretch] : 0;
    }

    /// Describes the difference of the two among commits later than `after`; `null` if there is none. The stretch that
    /// `after` lies in is left out.
    String difference(Acknowledged other, long after) {
        int first = after == 0 ? 0 : Math.toIntExact(after >>> STRETCH_SHIFT) + 1;
        for (int stretch = first; stretch < Math.max(stretches, other.stretches); stretch++) {
            if (count(stretch) != other.count(stretch) || sum(stretch) != other.sum(stretch)) {
                return count(stretch) + " and " + other.count(stretch) + " commits from timestamp "
                        + ((long) stretch << STRETCH_SHIFT) + " on, which are not the same";
            }
        }
        return null;
    }

    void write(DataOutput to) throws IOException {
        to.writeInt(stretches);
        for (int stretch = 0; stretch < stretches; stretch++) {
            to.writeInt(counts[stretch]);
            to.writeLong(sums[stretch]);
        }
    }

    void read(DataInput from) throws IOException {
        int count = from.readInt();
        for (int stretch = 0; stretch < count; stretch++) {
            add(stretch, from.readInt(), from.readLong());
        }
    }
}
