package cedrat.oracle.client;

import java.net.InetSocketAddress;
import java.time.Duration;
import java.util.Objects;

/// How a client is to run.
///
/// @param server where the oracle listens
/// @param patience so long do requests wait for a connection; then they fail with [UnavailableException]
/// @param reconnectMin after so long a lost connection is tried again, at first
/// @param reconnectMax and at last; the time doubles in between
/// @param outstandingMax so many requests of a client may be unanswered; one more fails
public record ClientOptions(
        InetSocketAddress server, Duration patience, Duration reconnectMin, Duration reconnectMax, int outstandingMax) {
    /// Checks them.
    public ClientOptions {
        Objects.requireNonNull(server);
        check(patience.isPositive(), "patience");
        check(reconnectMin.isPositive(), "reconnectMin");
        check(reconnectMax.compareTo(reconnectMin) >= 0, "reconnectMax");
        check(outstandingMax > 0, "outstandingMax");
    }

    /// A client of the oracle there: 30 seconds of patience, 10 ms to 1 s between attempts, 10,000
    /// outstanding requests.
    public static ClientOptions of(InetSocketAddress server) {
        return new ClientOptions(server, Duration.ofSeconds(30), Duration.ofMillis(10), Duration.ofSeconds(1), 10_000);
    }

    /// The same, with another patience.
    public ClientOptions withPatience(Duration other) {
        return new ClientOptions(server, other, reconnectMin, reconnectMax, outstandingMax);
    }

    /// The same, with other times between attempts to connect.
    public ClientOptions withReconnect(Duration min, Duration max) {
        return new ClientOptions(server, patience, min, max, outstandingMax);
    }

    /// The same, with another limit.
    public ClientOptions withOutstandingMax(int max) {
        return new ClientOptions(server, patience, reconnectMin, reconnectMax, max);
    }

    private static void check(boolean holds, String what) {
        if (!holds) {
            throw new IllegalArgumentException(what + " is too small");
        }
    }
}
