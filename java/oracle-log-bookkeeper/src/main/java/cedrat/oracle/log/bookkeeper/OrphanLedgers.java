package cedrat.oracle.log.bookkeeper;

import java.io.IOException;
import java.util.HashSet;
import java.util.Set;

/// Finds and deletes ledgers that were made for the log and are not in its list, because their maker ended or
/// was replaced before it listed them.
///
/// - Y1  A ledger is deleted only if its metadata says that it was made for this very log, in an earlier
///   opening. Its maker cannot list it any more: the list was taken since.
/// - Y2  A ledger in the list, also a doomed one, is left to the list.
///
/// It checks all ledgers of the bookies one by one, including those of other logs. It goes in steps, between
/// which its caller does more urgent work. For one thread at a time.
final class OrphanLedgers {
    /// Number of ledgers in a step.
    static final int STEP_LEDGERS = 32;

    private final Ledgers ledgers;
    private final Origin now;
    private final Set<Long> listed;
    private Ledgers.All all;

    /// Finds strays of the log that was taken with this list, and makes its ledgers with this origin.
    OrphanLedgers(Ledgers ledgers, Origin now, LedgerList list) {
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
