package cedrat.oracle.log.bookkeeper;

import java.io.IOException;

/// The list of ledgers of a log that was taken. For one thread at a time.
interface OwnedList {
    /// Returns the list as it was read or written last.
    LedgerList list();

    /// Returns the origin that ledgers made for this list carry.
    Origin origin();

    /// Writes another list, if it was not changed since this object read or wrote it.
    ///
    /// @throws ReplacedException if another server has changed it
    void change(LedgerList other) throws IOException;
}
