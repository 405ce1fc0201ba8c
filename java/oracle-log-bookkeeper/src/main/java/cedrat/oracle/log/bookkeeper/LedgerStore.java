package cedrat.oracle.log.bookkeeper;

import java.io.IOException;

/// Where ledgers come from and go: BookKeeper, as far as an [Appender] needs it. Waits for each answer.
interface LedgerStore {
    /// A fresh ledger, which says where it comes from.
    LedgerWriter create(Origin origin) throws IOException;

    /// Seals a ledger against all appends. Returns the last entry that it holds permanently; -1 if it holds
    /// none.
    long seal(long ledger) throws IOException;

    /// Deletes a ledger, if it is there.
    void delete(long ledger) throws IOException;
}
