package cedrat.oracle.server;

import java.util.HashSet;
import java.util.Set;

/// A client, over all its connections. Lives on the decide thread.
///
/// ```text
/// Connected ──connection gone──▶ Alone ──hello──▶ Connected (its open transactions unclaimed)
///     │                            │
///     └────silent for too long─────┴──▶ expired: its open transactions have aborted
/// ```
final class Session {
    /// Name of the session at its client.
    final long token;
    /// Number of the session at the oracle.
    final int number;
    /// Name of its client. Another client cannot take it over.
    final String client;
    /// Whether its client has named the namespaces that it uses.
    boolean hasNamespace;
    /// Namespaces whose rows end with it.
    final Set<Long> volatileNamespaces = new HashSet<>();
    /// `null` when it is alone.
    Connection connection;
    /// For how many ticks of the server nothing was heard of it.
    int silentTicks;

    Session(long token, int number, String client) {
        this.token = token;
        this.number = number;
        this.client = client;
    }
}
