package cedrat.oracle.log.bookkeeper;

import java.io.IOException;

/// The list of ledgers of a log that was taken. For one thread at a time.
interface OwnedList {
    /// What it held when it was read or written last.
    LedgerList list();

    /// What ledgers say that are made for it.
    Origin origin();

    /// Writes another list, if nobody has written one since this was read or written.
    ///
    /// @throws ReplacedException if somebody has
    void change(LedgerList other) throws IOException;
}
