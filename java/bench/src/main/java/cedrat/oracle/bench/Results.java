package cedrat.oracle.bench;

import java.io.DataInput;
import java.io.DataOutput;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;

/// Results of a process of clients. For one thread at a time, except for errors.
final class Results {
    /// Longer gaps are listed one by one.
    static final long GAP_NS = 20_000_000;

    private static final int GAPS_MAX = 1000;

    /// No answer came between these moments, by the clock of `System.nanoTime`, which all processes of a
    /// machine read.
    record Gap(long from, long to) {
        double millis() {
            return (to - from) / 1e6;
        }
    }

    final Histogram starts = new Histogram();
    final Histogram commits = new Histogram();
    final Acknowledged acknowledged = new Acknowledged();
    long aborted;
    /// Transactions that were decided, also while nothing was measured, and frames that were sent for them.
    long decided;
    long frames;
    /// The longest time between two answers, and when the newest came.
    long longestGap;

    /// Gaps over 20 ms, the first thousand.
    final List<Gap> gaps = new ArrayList<>();

    private long newestAnswer;

    /// First error; empty if there was none.
    private String wrong = "";

    void answered(long now, boolean counts) {
        if (counts) {
            long gap = newestAnswer == 0 ? 0 : now - newestAnswer;
            longestGap = Math.max(longestGap, gap);
            if (gap > GAP_NS && gaps.size() < GAPS_MAX) {
                gaps.add(new Gap(newestAnswer, now));
            }
            newestAnswer = now;
        }
    }

    synchronized void wrong(String what) {
        if (wrong.isEmpty()) {
            wrong = what;
        }
    }

    synchronized String wrong() {
        return wrong;
    }

    void add(Results other) {
        starts.add(other.starts);
        commits.add(other.commits);
        acknowledged.add(other.acknowledged);
        aborted += other.aborted;
        decided += other.decided;
        frames += other.frames;
        longestGap = Math.max(longestGap, other.longestGap);
        gaps.addAll(other.gaps);
        if (!other.wrong().isEmpty()) {
            wrong(other.wrong());
        }
    }

    void write(DataOutput to) throws IOException {
        starts.write(to);
        commits.write(to);
        acknowledged.write(to);
        to.writeLong(aborted);
        to.writeLong(decided);
        to.writeLong(frames);
        to.writeLong(longestGap);
        to.writeInt(gaps.size());
        for (Gap gap : gaps) {
            to.writeLong(gap.from());
            to.writeLong(gap.to());
        }
        to.writeUTF(wrong());
    }

    static Results read(DataInput from) throws IOException {
        Results results = new Results();
        results.starts.read(from);
        results.commits.read(from);
        results.acknowledged.read(from);
        results.aborted = from.readLong();
        results.decided = from.readLong();
        results.frames = from.readLong();
        results.longestGap = from.readLong();
        for (int count = from.readInt(); count > 0; count--) {
            results.gaps.add(new Gap(from.readLong(), from.readLong()));
        }
        results.wrong(from.readUTF());
        return results;
    }
}
