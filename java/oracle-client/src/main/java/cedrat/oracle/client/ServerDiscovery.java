package cedrat.oracle.client;

import java.io.IOException;
import java.net.InetSocketAddress;
import java.util.List;

/// Finds the servers of an oracle. Its `toString` says where it looks, for messages of errors.
///
/// **Threads:** any may call.
@FunctionalInterface
public interface ServerDiscovery {
    /// Returns the addresses of the servers, that which probably serves first. It may block: a client calls it on a
    /// thread of its own, before each round of attempts to connect to all of them.
    ///
    /// @throws IOException if they cannot be found now; the client then tries those of the previous call
    List<InetSocketAddress> find() throws IOException;
}
