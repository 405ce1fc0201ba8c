package cedrat.oracle.server;

import java.util.ArrayList;
import java.util.List;

/// A client, over all its connections. Lives on the decide thread.
///
/// ```text
/// Connected ──connection gone──▶ Alone ──hello──▶ Connected (under a new number)
///     │                            │
///     └────silent for too long─────┴──▶ expired: its open transactions have aborted
/// ```
final class Session {
    /// What its client calls it.
    final long token;
    /// What the oracle calls it since the last hello.
    int number;
    /// What the oracle called it before; transactions that are still open under these were not announced
    /// since.
    final List<Integer> earlier = new ArrayList<>();
    /// `null` when it is alone.
    Connection connection;
    /// For how many ticks of the server nothing was heard of it.
    int silentTicks;

    Session(long token, int number) {
        this.token = token;
        this.number = number;
    }
}
