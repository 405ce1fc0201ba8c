package cedrat.oracle.log.bookkeeper;

import cedrat.oracle.log.DamagedEntryException;
import cedrat.oracle.log.Log;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;

/// Replays a log while another server appends to it, so that little is left to do when that one has ended.
///
/// Until the log is taken it replays the entries that are known to be acknowledged, which no recovery can lose. For one
/// thread at a time.
final class Follower implements AutoCloseable {
    private final Ledgers ledgers;
    private final Log.Replay replay;
    /// In the order of the log; those up to `current` were opened.
    private final List<Long> known = new ArrayList<>();
    private final List<Part> parts = new ArrayList<>();
    private int current = -1;
    private LedgerReader following;
    /// The entry of the current ledger that comes next.
    private long next;
    private long replayed;

    Follower(Ledgers ledgers, Log.Replay replay) {
        this.ledgers = ledgers;
        this.replay = (bytes, from, length) -> {
            replay.entry(bytes, from, length);
            next++;
            replayed++;
        };
    }

    /// Returns the number of entries that were replayed.
    long replayed() {
        return replayed;
    }

    /// Which of them are where.
    List<Part> parts() {
        return parts;
    }

    /// Replays what was acknowledged since the last time.
    ///
    /// @param list the present one
    void follow(LedgerList list) throws IOException, DamagedEntryException {
        learn(list);
        while (hasLedger()) {
            if (following == null) {
                following = open(false);
            }
            if (!following.isClosed()) {
                replayUpTo(following, following.askLast());
                return;
            }
            closeFollowing();
            try (LedgerReader whole = open(false)) {
                replayUpTo(whole, whole.last());
            }
            if (current + 1 == known.size()) {
                return; // it comes again, and there is nothing new
            }
            step();
        }
    }

    /// Replays the rest after the log was taken with this list: no other server appends any more once it
    /// returns.
    void finish(LedgerList list) throws IOException, DamagedEntryException {
        closeFollowing();
        learn(list);
        while (hasLedger()) {
            try (LedgerReader recovered = open(true)) {
                replayUpTo(recovered, recovered.last());
            }
            if (current + 1 == known.size()) {
                return;
            }
            step();
        }
    }

    /// Lists follow each other: the ledgers of one are an end of those before, and some more.
    private void learn(LedgerList list) throws IOException {
        if (known.isEmpty()) {
            known.addAll(list.ledgers());
            return;
        }
        int newest = list.ledgers().indexOf(known.getLast());
        if (newest < 0) {
            throw behind(null);
        }
        known.addAll(list.ledgers().subList(newest + 1, list.ledgers().size()));
    }

    private boolean hasLedger() {
        if (current < 0 && !known.isEmpty()) {
            step();
        }
        return current >= 0;
    }

    private void step() {
        current++;
        next = 0;
        parts.add(new Part(known.get(current), replayed + 1));
    }

    private LedgerReader open(boolean recovery) throws IOException {
        long ledger = known.get(current);
        try {
            return recovery ? ledgers.recover(ledger) : ledgers.follow(ledger);
        } catch (IOException problem) {
            throw !recovery && Ledgers.isMissing(problem) ? behind(problem) : problem;
        }
    }

    private void replayUpTo(LedgerReader ledger, long last) throws IOException, DamagedEntryException {
        if (last < next - 1) {
            throw new IOException("ledger " + ledger.id() + " ends at entry " + last + ", but entry " + (next - 1)
                    + " was acknowledged: the bookies have lost entries");
        }
        ledger.replay(next, last, replay);
    }

    private static BehindException behind(IOException cause) {
        return new BehindException(
                "the log was truncated faster than this server could follow it: start the server again, and it begins at"
                        + " the truncation point",
                cause);
    }

    private void closeFollowing() throws IOException {
        if (following != null) {
            LedgerReader closing = following;
            following = null;
            closing.close();
        }
    }

    @Override
    public void close() throws IOException {
        closeFollowing();
    }
}
