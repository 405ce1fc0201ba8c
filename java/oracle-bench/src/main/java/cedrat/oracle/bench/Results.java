package cedrat.oracle.bench;

import java.io.DataInput;
import java.io.DataOutput;
import java.io.IOException;

/// What a process of clients has seen. For one thread at a time, but for what is wrong.
final class Results {
    final Histogram starts = new Histogram();
    final Histogram commits = new Histogram();
    final Acknowledged acknowledged = new Acknowledged();
    long aborted;
    /// The longest time between two answers, and when the newest came.
    long longestGap;

    private long newestAnswer;

    /// What was wrong first; empty if nothing.
    private String wrong = "";

    void answered(long now, boolean counts) {
        if (counts) {
            longestGap = Math.max(longestGap, newestAnswer == 0 ? 0 : now - newestAnswer);
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
        longestGap = Math.max(longestGap, other.longestGap);
        if (!other.wrong().isEmpty()) {
            wrong(other.wrong());
        }
    }

    void write(DataOutput to) throws IOException {
        starts.write(to);
        commits.write(to);
        acknowledged.write(to);
        to.writeLong(aborted);
        to.writeLong(longestGap);
        to.writeUTF(wrong());
    }

    static Results read(DataInput from) throws IOException {
        Results results = new Results();
        results.starts.read(from);
        results.commits.read(from);
        results.acknowledged.read(from);
        results.aborted = from.readLong();
        results.longestGap = from.readLong();
        results.wrong(from.readUTF());
        return results;
    }
}
