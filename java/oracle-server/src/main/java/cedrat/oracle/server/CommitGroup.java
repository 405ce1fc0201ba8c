package cedrat.oracle.server;

import cedrat.oracle.protocol.RequestReader;
import cedrat.oracle.state.Rows;
import cedrat.oracle.state.StatusOracle;

/// Rows of some commits that are decided one after the other. The oracle gets those of the whole group before it
/// decides the first commit, and then waits for memory once instead of once for each. Reused.
final class CommitGroup {
    /// Size of a group. More gain little, and their rows would not stay in the nearest cache.
    static final int COUNT_MAX = 16;

    private final StatusOracle oracle;
    private final Rows[] writes = new Rows[COUNT_MAX];
    private final Rows[] reads = new Rows[COUNT_MAX];

    CommitGroup(StatusOracle oracle) {
        this.oracle = oracle;
        for (int each = 0; each < COUNT_MAX; each++) {
            writes[each] = new Rows();
            reads[each] = new Rows();
        }
    }

    /// Reads the rows of a commit, which is going to be decided soon.
    void expect(int which, RequestReader commit) {
        int writeCount = commit.writes();
        int all = writeCount + commit.reads();
        Rows written = writes[which];
        written.clear();
        for (int index = 0; index < writeCount; index++) {
            written.add(commit.row(index));
        }
        Rows read = reads[which];
        read.clear();
        for (int index = writeCount; index < all; index++) {
            read.add(commit.row(index));
        }
        oracle.expect(read);
        oracle.expect(written);
    }

    /// The rows that it has written.
    Rows writes(int which) {
        return writes[which];
    }

    /// The rows that it has read.
    Rows reads(int which) {
        return reads[which];
    }
}
