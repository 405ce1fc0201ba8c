package cedrat.oracle.log;

import java.io.IOException;

/// Where the status oracle keeps its decisions: entries in the order of their appends.
///
/// ```text
/// Fresh ──open──▶ Open ──close──▶ Closed
///                  │                ▲
///                  └─failure─▶ Failed ──close
/// ```
///
/// Fresh: nothing was read. Open: everything kept was replayed, and entries are taken. Failed: some append
/// will never be acknowledged; whether its entry is kept, only the next opening tells. Closed: of no use any
/// more.
///
/// - L1  Entries are acknowledged in the order of their appends, each once it survives whatever this log is
///   made to survive.
/// - L2  What was acknowledged, or was replayed by an opening that has returned, is replayed by every later
///   opening, in the same order. What was appended and not acknowledged may be replayed or not, but only
///   behind all that was acknowledged, and never without what was appended before it.
/// - L3  After a failure nothing is acknowledged any more: a disk or a quorum that failed once may have
///   forgotten what it took.
/// - L4  Only one of all who have ever opened the log can have entries acknowledged that were appended after
///   the newest opening.
/// - L5  Of what lies before an entry that [#forgetBefore] has named, later openings replay all, or only an
///   end, or nothing, but nothing with a gap in it. The named entry and what lies behind it are kept, as L2
///   says.
///
/// Entries have numbers as long as the log is open: 1 is the first that its opening replays, each other one
/// has one more than the one before, and those that are appended go on behind the last that was replayed.
/// The next opening counts anew.
public interface Log extends AutoCloseable {
    /// An entry has so many bytes at most. Every log takes those: BookKeeper, which takes the least, has a
    /// limit of 5 MiB for an entry with what belongs to it.
    int ENTRY_BYTES_MAX = 4 << 20;

    /// Told what the log keeps, when it is opened.
    interface Replay {
        /// An entry: `length` bytes from `from` on, which are overwritten when this returns.
        ///
        /// @throws DamagedEntryException if they are none, or do not follow what came before; the log then
        ///     does not open
        void entry(byte[] bytes, int from, int length) throws DamagedEntryException;
    }

    /// Told what becomes of appends. Called by a thread of the log, or from within [Log#append]; by one
    /// thread at a time.
    interface Listener {
        /// All entries up to the one with this number are kept (L1).
        void acknowledged(long number);

        /// The log has failed (L3). Called once at most, and nothing after it.
        void failed(Exception cause);
    }

    /// Reads all that is kept, then takes entries.
    ///
    /// @throws IOException if it cannot be read, is damaged, or is somebody else's; the log is then of no use
    /// @throws DamagedEntryException as `replay` does
    void open(Replay replay, Listener listener) throws IOException, DamagedEntryException;

    /// Refuses an entry that is too long.
    static void checkLength(int length) {
        if (length > ENTRY_BYTES_MAX) {
            throw new IllegalArgumentException(
                    "an entry of " + length + " bytes; " + ENTRY_BYTES_MAX + " are possible");
        }
    }

    /// How many appends may usefully be under way at a time. Who appends more waits no shorter.
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

    /// Waits until appended entries are acknowledged, or the log has failed, and gives back what it holds.
    /// Nobody is told anything after this. Not from within a [Listener].
    @Override
    void close() throws IOException;
}
