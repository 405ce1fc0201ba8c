package cedrat.oracle.log;

import java.io.IOException;

/// Log of the status oracle's decisions: entries in the order of their appends.
///
/// ```text
/// Fresh ──open──▶ Open ──close──▶ Closed
///                  │                ▲
///                  └─failure─▶ Failed ──close
/// ```
///
/// Fresh: nothing was read. Open: all kept entries were replayed, and new ones are accepted. Failed: some
/// append will never be acknowledged; only the next opening shows whether its entry is kept. Closed: the log
/// cannot be used any more.
///
/// - L1  Entries are acknowledged in the order of their appends, each once it survives the failures that this
///   kind of log is made to survive.
/// - L2  An entry that was acknowledged, or was replayed by an opening that has returned, is replayed by every
///   later opening, in the same order. An entry that was appended and not acknowledged may be replayed or
///   not, but only after all acknowledged entries, and never without the entries appended before it.
/// - L3  After a failure nothing is acknowledged any more: a disk or a quorum that failed once may have
///   forgotten what it took.
/// - L4  Of all servers that have ever opened the log, only one can have entries acknowledged that were
///   appended after the newest opening.
/// - L5  Of the entries before the one that [#forgetBefore] has named, later openings replay all, a suffix
///   without gaps, or none. The named entry and all later ones are kept, as L2 says.
///
/// Entries are numbered while the log is open: 1 is the first that its opening replays, and each following
/// entry has one more, replayed or appended. The next opening numbers anew.
public interface Log extends AutoCloseable {
    /// An entry has so many bytes at most. Every log takes those: BookKeeper, which takes the least, has a
    /// limit of 5 MiB for an entry with what belongs to it.
    int ENTRY_BYTES_MAX = 4 << 20;

    /// Kinds of logs, for administrators.
    enum Kind {
        /// Another kind.
        OTHER,
        /// [VolatileLog].
        NONE,
        /// In a directory of the machine.
        EMBEDDED,
        /// In ledgers of BookKeeper.
        BOOKKEEPER
    }

    /// Returns the kind of the log.
    default Kind kind() {
        return Kind.OTHER;
    }

    /// Receives the kept entries when the log is opened.
    interface Replay {
        /// An entry: `length` bytes from `from` on, which are overwritten when this returns.
        ///
        /// @throws DamagedEntryException if they are none, or do not follow what came before; the log then
        ///     does not open
        void entry(byte[] bytes, int from, int length) throws DamagedEntryException;

        /// Restarts the replay: everything that was replayed is void, because the entries that follow it were
        /// truncated before they were read. The next entry has number 1.
        ///
        /// @throws IOException if the receiver cannot undo what it has done; the log then does not open
        default void restart() throws IOException {
            throw new IOException(
                    "the log was truncated beyond the next entry while it was read: end the servers of the"
                            + " log, and repeat the command");
        }
    }

    /// Receives the outcomes of appends. Called by a thread of the log, or from within [Log#append]; by one
    /// thread at a time.
    interface Listener {
        /// All entries up to the one with this number are kept (L1).
        void acknowledged(long number);

        /// The log has failed (L3). Called once at most, and nothing after it.
        void failed(Exception cause);
    }

    /// Reads all that is kept, then takes entries.
    ///
    /// @throws IOException if it cannot be read, is damaged, or belongs to another process; the log is then
    ///     unusable
    /// @throws DamagedEntryException as `replay` does
    void open(Replay replay, Listener listener) throws IOException, DamagedEntryException;

    /// Refuses an entry that is too long.
    static void checkLength(int length) {
        if (length > ENTRY_BYTES_MAX) {
            throw new IllegalArgumentException(
                    "invalid length of a log entry: " + length + " bytes; 0 to " + ENTRY_BYTES_MAX + " are possible");
        }
    }

    /// Returns the number of appends that may usefully be in flight at a time. More of them do not wait less.
    int appendsMax();

    /// Appends an entry: `length` bytes from `from` on, which may be overwritten when this returns. Does not
    /// wait for the entry to be kept. For one thread at a time. After a failure, entries are taken and never
    /// acknowledged: the listener hears why.
    ///
    /// @return the entry's number
    /// @throws IllegalArgumentException if it is longer than [#ENTRY_BYTES_MAX]; nothing was appended
    /// @throws IllegalStateException if the log is not open, nor failed
    long append(byte[] bytes, int from, int length);

    /// Gives up all entries before the one with this number, so that their room may be used again (L5). That
    /// happens soon, not at once, and as far as it suits the log: some of the newest may stay. What was named
    /// before, or lies before it, asks for nothing more. For the thread that appends; it does not wait. If it
    /// goes wrong, that is a failure of the log.
    ///
    /// @throws IllegalArgumentException if the entry was neither replayed nor acknowledged yet: what those
    ///     before it came to might be lost with it
    /// @throws IllegalStateException if the log is not open, nor failed
    void forgetBefore(long number);

    /// Waits until appended entries are acknowledged, or the log has failed, and releases the log's resources.
    /// The listener is not called afterwards. Must not be called from within a [Listener].
    @Override
    void close() throws IOException;
}
