package cedrat.oracle.bench;

import cedrat.oracle.log.DamagedEntryException;
import cedrat.oracle.log.EntryReader;
import cedrat.oracle.log.Log;
import cedrat.oracle.log.OracleReplay;
import cedrat.oracle.log.SnapshotReader;
import cedrat.oracle.state.NoDecisions;
import cedrat.oracle.state.Rows;
import cedrat.oracle.state.StatusOracle;
import java.io.BufferedOutputStream;
import java.io.DataInput;
import java.io.DataOutputStream;
import java.io.IOException;

/// Opens the log that a server has left: once as a server does, by the clock, and once to see which commits
/// it holds ([Seen], on the standard output).
public final class ReplayProcess {
    private ReplayProcess() {}

    /// Content of a log.
    ///
    /// @param nanos how long its replay took
    /// @param after the commits up to this timestamp are no longer in it
    /// @param commits those that are
    record Seen(long nanos, long after, Acknowledged commits) {
        static Seen read(DataInput from) throws IOException {
            Seen seen = new Seen(from.readLong(), from.readLong(), new Acknowledged());
            seen.commits.read(from);
            return seen;
        }
    }

    /// The process: kind of the log, where it is, the size of the map as a power of two.
    public static void main(String[] arguments) throws IOException, DamagedEntryException {
        int rowsLog2 = Integer.parseInt(arguments[2]);
        long nanos = time(arguments, rowsLog2);
        Census census = new Census();
        try (Log log = Logs.open(arguments[0], arguments[1])) {
            log.open(census, new Deaf());
        }
        try (DataOutputStream out = new DataOutputStream(new BufferedOutputStream(System.out))) {
            out.writeLong(nanos);
            out.writeLong(Math.max(0, census.after));
            census.commits.write(out);
        }
    }

    private static long time(String[] arguments, int rowsLog2) throws IOException, DamagedEntryException {
        long before = System.nanoTime();
        OracleReplay replay = new OracleReplay(new StatusOracle(rowsLog2, new Census()));
        try (Log log = Logs.open(arguments[0], arguments[1])) {
            log.open(replay, new Deaf());
            replay.end();
            return System.nanoTime() - before;
        }
    }

    /// Nothing is appended.
    private static final class Deaf implements Log.Listener {
        @Override
        public void acknowledged(long number) {}

        @Override
        public void failed(Exception cause) {
            throw new IllegalStateException(cause);
        }
    }

    private static final class Census extends NoDecisions implements Log.Replay {
        final Acknowledged commits = new Acknowledged();
        long after = -1;
        private final EntryReader reader = new EntryReader();
        private long[] ids = new long[Load.ROWS_MAX];

        @Override
        public void entry(byte[] bytes, int from, int length) throws DamagedEntryException {
            if (SnapshotReader.isPart(bytes, from, length)) {
                return;
            }
            reader.open(bytes, from, length);
            if (after < 0) {
                after = reader.before();
            }
            reader.tell(this);
        }

        @Override
        public void committed(long start, long commit, Rows rows) {
            if (ids.length < rows.count()) {
                ids = new long[rows.count()];
            }
            for (int at = 0; at < rows.count(); at++) {
                ids[at] = rows.get(at);
            }
            commits.add(start, commit, ids, rows.count());
        }
    }
}
