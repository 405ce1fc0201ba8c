package cedrat.oracle.bench;

import java.net.InetSocketAddress;

/// A system that is measured, as its clients see it. Found by the name of its class, which may be on the
/// class path of its own processes alone; it has a constructor without parameters.
public interface Peer {
    /// Connects. The connection may be used at once.
    ///
    /// @param outstandingMax so many requests will be unanswered at a time, at most
    Connection connect(InetSocketAddress server, int outstandingMax, Load load) throws Exception;
}
