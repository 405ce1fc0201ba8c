package cedrat.oracle.log.bookkeeper;

import cedrat.oracle.log.DamagedEntryException;
import cedrat.oracle.log.Log;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;

/// Replays a log while another server appends to it, so that little is left to do when that one has ended.
///
/// Until the log is taken it replays the entries that are known to be acknowledged, which no recovery can lose. Where
/// the log was truncated beyond the next of them, a [BehindException] says so, and [#restart] begins at the truncation
/// point. For one thread at a time.
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

    /// Begins anew with the first ledger of the next list, whose entries count from 1 on (O5k).
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
        while (hasLedger()) {
            if (following == null) {
                following = open(false);
            }
            if (!isClosedAfterReplay(following)) {
                return;
            }
            closeFollowing();
            try (LedgerReader whole = open(false)) {
                replayUpTo(whole, whole.last());
            }
            isWhole = true;
        }
    }

    /// Replays what was acknowledged, or returns true if the ledger is closed. One that cannot be read is opened
    /// again the next time: it may have been deleted.
    private boolean isClosedAfterReplay(LedgerReader ledger) throws IOException, DamagedEntryException {
        try {
            if (ledger.isClosed()) {
                return true;
            }
            replayUpTo(ledger, ledger.askLast());
            return false;
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
        while (hasLedger()) {
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

    /// Whether a ledger, the current one from now on, may have more entries.
    private boolean hasLedger() {
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
            // One that a taken list has stays.
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
