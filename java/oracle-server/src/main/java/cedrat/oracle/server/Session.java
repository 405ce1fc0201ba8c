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
    /// Name of the session at its client.
    final long token;
    /// Number of the session at the oracle since the last hello.
    int number;
    /// Numbers that the session had at the oracle before; its open transactions under these were not announced
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
