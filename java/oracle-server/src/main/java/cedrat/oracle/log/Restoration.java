package cedrat.oracle.log;

import cedrat.oracle.state.Lifetime;
import cedrat.oracle.state.Remembered;
import cedrat.oracle.state.StatusOracle;
import java.io.IOException;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;

/// Makes the oracle that continues where a backup ends, and the log of it (O5h).
///
/// After the backup its oracle went on: it gave out timestamps, and decided. So the restored one begins at a timestamp
/// *above* all of these, which has to be chosen. It knows the outcomes that the backup has. All other transactions up
/// to `above` are over, and none of them commits:
///
/// - Those that were open at the end of the backup are aborted, and known as such. They may have committed since.
/// - Nothing is known of those that began since.
/// - T_max is `above`, and no row is known: a transaction with a lower start timestamp that writes would abort.
/// - All snapshots up to `above` count as pruned, so that no reader from before ends as if it had seen everything.
///
/// A client that has lived through the restore may know outcomes that the restored oracle does not: what has
/// committed since the backup. So the restored oracle has another generation, and refuses such a client.
public final class Restoration {
    /// No oracle gives out so many timestamps a second.
    public static final long PER_SECOND = 1L << 24;

    /// Clocks of the machines that make and restore a backup differ by less.
    private static final long CLOCKS_S = 3600;

    /// Timestamps of a restored oracle begin at this one at most, so that as many are left.
    public static final long ABOVE_MAX = 1L << 59;

    private static final int PART_MAX = 1 << 12;

    private Restoration() {}

    /// Receives entries of a log.
    @FunctionalInterface
    public interface Entries {
        /// The next entry, which is overwritten when this returns: `length` bytes from `from` on.
        void entry(byte[] bytes, int from, int length) throws IOException;
    }

    /// Returns a timestamp above all that were given out since a backup, if it is restored at this time, in seconds
    /// since 1970. Where the same backup is restored again later, it is above those of the first restored
    /// oracle, too: the distance grows with the time since the backup, and faster than any oracle gives out
    /// timestamps.
    ///
    /// @throws IOException if the clock cannot be right
    public static long above(Backup backup, long now) throws IOException {
        long elapsed = now - backup.made() + CLOCKS_S;
        if (elapsed <= 0 || elapsed > ABOVE_MAX / PER_SECOND) {
            throw new IOException("the backup was made at " + Instant.ofEpochSecond(backup.made())
                    + ", and by the clock of this machine it is " + Instant.ofEpochSecond(now)
                    + ": set the clock, or choose a timestamp with --above");
        }
        return backup.newest() + elapsed * PER_SECOND;
    }

    /// Whether an oracle whose newest timestamp is `newest` may be continued above this timestamp.
    public static boolean isPossible(long newest, long above) {
        return newest < above && above <= ABOVE_MAX;
    }

    /// Makes a new oracle the continuation of one, whose open transactions abort. It has this generation, which is
    /// drawn as an identity is.
    public static void continueAbove(StatusOracle before, long above, long generation, StatusOracle continued) {
        if (!isPossible(before.newest(), above)) {
            throw new IllegalArgumentException(
                    "cannot continue above timestamp " + above + " behind timestamp " + before.newest());
        }
        List<Long> open = new ArrayList<>();
        for (long next = 1; next > 0; ) {
            next = before.forEachOpen(next, PART_MAX, (start, session) -> open.add(start));
        }
        open.forEach(before::resolve);
        Remembered restoring = continued.restore(above, before.position(), above);
        long next = 1;
        do {
            next = before.tell(next, before.newest(), PART_MAX, new Unpruned(restoring));
        } while (next <= before.newest());
        restoring.restored(generation);
        restoring.pruned(above);
        continued.restored(above + 1);
    }

    /// Writes the log of an oracle that serves no request meanwhile.
    public static void write(StatusOracle oracle, Entries to) throws IOException {
        SnapshotWriter snapshot = new SnapshotWriter(oracle);
        snapshot.begin();
        while (snapshot.hasMore()) {
            snapshot.part();
            to.entry(snapshot.bytes(), 0, snapshot.length());
        }
    }

    /// Passes on all but how far snapshots were pruned.
    private record Unpruned(Remembered to) implements Remembered {
        @Override
        public void identified(long identity) {
            to.identified(identity);
        }

        @Override
        public void restored(long generation) {
            // it begins another one
        }

        @Override
        public void used(long namespace) {
            to.used(namespace);
        }

        @Override
        public void pruned(long upTo) {
            // all of them are
        }

        @Override
        public void open(long start, long position) {
            throw new AssertionError("transaction " + start + " is open");
        }

        @Override
        public void committed(Lifetime lifetime) {
            to.committed(lifetime);
        }

        @Override
        public void aborted(long start) {
            to.aborted(start);
        }
    }
}
