package cedrat.oracle.log.bookkeeper;

import java.io.IOException;
import java.util.HashSet;
import java.util.Set;

/// Looks for ledgers that were made for the log and are not in its list, because whoever has made them ended,
/// or was replaced, in between; and deletes them.
///
/// - Y1  A ledger is deleted only if it says itself that it was made for this very log, in an earlier
///   opening. Who made it then cannot list it any more: the list was taken since.
/// - Y2  What is in the list, or in it as doomed, is left to the list.
///
/// It asks for one ledger after the other of all that the bookies have, also those of others; so it goes in
/// steps, between which its caller does what is more urgent. For one thread at a time.
final class Strays {
    /// So many at a time.
    static final int STEP_LEDGERS = 32;

    private final Ledgers ledgers;
    private final Origin now;
    private final Set<Long> listed;
    private Ledgers.All all;

    /// Those of the log that was taken to make this list, and makes its ledgers with this origin.
    Strays(Ledgers ledgers, Origin now, LedgerList list) {
        this.ledgers = ledgers;
        this.now = now;
        listed = new HashSet<>(list.ledgers());
        listed.addAll(list.doomed());
    }

    /// Asks for some ledgers more; returns whether some are left.
    boolean step() throws IOException {
        if (all == null) {
            all = ledgers.all();
        }
        for (int count = 0; count < STEP_LEDGERS; count++) {
            if (!all.hasNext()) {
                all.close();
                return false;
            }
            long ledger = all.next();
            if (!listed.contains(ledger)
                    && ledgers.metadata(ledger).filter(now::isAfter).isPresent()) {
                ledgers.delete(ledger);
            }
        }
        return true;
    }
}
