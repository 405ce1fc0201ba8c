package cedrat.oracle.log.bookkeeper;

import cedrat.oracle.log.DamagedEntryException;
import cedrat.oracle.log.Log;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;

/// Replays a log while another server appends to it, so that little is left to do when the other server ends.
///
/// Until the log is taken, it replays the entries that are known to be acknowledged, which no recovery can lose. If
/// the log was truncated beyond the next entry, it throws a [BehindException]; [#restart] then begins at the
/// truncation point. For one thread at a time.
final class Follower implements AutoCloseable {
    private final Ledgers ledgers;
    private final Log.Replay replay;
    private LedgerList newest = LedgerList.EMPTY;
    /// In the order of the log; those up to `current` were opened.
    private final List<Long> known = new ArrayList<>();
    private final List<Part> parts = new ArrayList<>();
    private int current = -1;
    /// Whether the current ledger is closed and was replayed to its end. Then it may be deleted.
    private boolean isWhole;
    private LedgerReader following;
    /// The entry of the current ledger that comes next.
    private long next;
    private long replayed;

    Follower(Ledgers ledgers, Log.Replay replay) {
        this.ledgers = ledgers;
        this.replay = replay;
    }

    /// Returns the number of entries that were replayed.
    long replayed() {
        return replayed;
    }

    /// Which of them are where.
    List<Part> parts() {
        return parts;
    }

    /// Restarts with the first ledger of the next list. Its entries are numbered from 1 (O5k).
    void restart() throws IOException {
        closeFollowing();
        known.clear();
        parts.clear();
        current = -1;
        isWhole = false;
        replayed = 0;
        replay.restart();
    }

    /// Replays what was acknowledged since the last time.
    ///
    /// @param list the present one
    void follow(LedgerList list) throws IOException, DamagedEntryException {
        learn(list);
        while (advance()) {
            if (following == null) {
                following = open(false);
            }
            if (replayUnlessClosed(following)) {
                return;
            }
            closeFollowing();
            try (LedgerReader whole = open(false)) {
                replayUpTo(whole, whole.last());
            }
            isWhole = true;
        }
    }

    /// Replays the acknowledged entries and returns true, unless the ledger is closed. A ledger that cannot be read
    /// is opened again by the next call: it may have been deleted.
    private boolean replayUnlessClosed(LedgerReader ledger) throws IOException, DamagedEntryException {
        try {
            if (ledger.isClosed()) {
                return false;
            }
            replayUpTo(ledger, ledger.askLast());
            return true;
        } catch (IOException problem) {
            closeFollowing();
            throw problem;
        }
    }

    /// Replays the rest after the log was taken with this list: no other server appends any more once it
    /// returns.
    void finish(LedgerList list) throws IOException, DamagedEntryException {
        closeFollowing();
        learn(list);
        while (advance()) {
            try (LedgerReader recovered = open(true)) {
                replayUpTo(recovered, recovered.last());
            }
            isWhole = true;
        }
    }

    /// Lists follow each other: the ledgers of one are an end of those before, and some more.
    private void learn(LedgerList list) throws IOException {
        newest = list;
        int last = known.isEmpty() ? -1 : list.ledgers().indexOf(known.getLast());
        if (last < 0 && !known.isEmpty()) {
            throw new BehindException(null);
        }
        known.addAll(list.ledgers().subList(last + 1, list.ledgers().size()));
    }

    /// Moves to the next ledger if the current one is whole. Returns whether the current one may have more entries.
    private boolean advance() {
        if (current >= 0 && !isWhole) {
            return true;
        }
        if (current + 1 == known.size()) {
            return false;
        }
        current++;
        isWhole = false;
        next = 0;
        parts.add(new Part(known.get(current), replayed + 1));
        return true;
    }

    private LedgerReader open(boolean recovery) throws IOException {
        long ledger = known.get(current);
        try {
            return recovery ? ledgers.recover(ledger) : ledgers.follow(ledger);
        } catch (IOException problem) {
            // The ledgers of a list that was taken are not deleted.
            boolean isBehind =
                    Ledgers.isMissing(problem) && !(recovery && newest.ledgers().contains(ledger));
            throw isBehind ? new BehindException(problem) : problem;
        }
    }

    private void replayUpTo(LedgerReader ledger, long last) throws IOException, DamagedEntryException {
        if (last < next - 1) {
            throw new IOException("ledger " + ledger.id() + " ends at entry " + last + ", but entry " + (next - 1)
                    + " was acknowledged: the bookies have lost entries");
        }
        ledger.replay(next, last, (bytes, from, length) -> {
            replay.entry(bytes, from, length);
            next++;
            replayed++;
        });
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
