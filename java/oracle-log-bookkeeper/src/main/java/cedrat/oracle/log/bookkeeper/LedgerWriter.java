package cedrat.oracle.log.bookkeeper;

import io.netty.buffer.ByteBuf;
import java.util.concurrent.CompletableFuture;

/// A ledger that is written. **Threads:** any may call.
interface LedgerWriter {
    long id();

    /// Whether it is on fewer bookies than it should be.
    boolean isDegraded();

    /// Appends an entry, which is its own from now on. Ends with the entry's number in the ledger when it is
    /// acknowledged, as all before it are.
    CompletableFuture<Long> append(ByteBuf entry);

    CompletableFuture<Void> close();
}
