package cedrat.oracle.client;

import cedrat.oracle.authentication.Credentials;
import cedrat.oracle.tls.TlsOptions;
import java.net.InetSocketAddress;
import java.time.Duration;
import java.util.List;
import java.util.Optional;

/// How a client is to run.
///
/// @param servers where servers of the oracle are; one at a time serves, and the client finds out which. A name is
///     resolved for each attempt to connect, even if it was resolved before
/// @param patience time for which each request waits for a connection; then it fails with
///     [UnavailableException]
/// @param silence with several servers: one that answers nothing for so long is left for the next. It may
///     only be slow; what is asked again means the same
/// @param reconnectMin after so long a lost connection is tried again, at first
/// @param reconnectMax and at last; the time doubles each time that all servers were tried
/// @param outstandingMax so many requests of a client may be unanswered; one more fails
/// @param tls if present, connections are made over TLS, with servers whose certificates name their hosts
/// @param credentials if present, the client authenticates itself by them on each connection
public record ClientOptions(
        List<InetSocketAddress> servers,
        Duration patience,
        Duration silence,
        Duration reconnectMin,
        Duration reconnectMax,
        int outstandingMax,
        Optional<TlsOptions> tls,
        Optional<Credentials> credentials) {
    /// Checks them.
    public ClientOptions {
        servers = List.copyOf(servers);
        if (servers.isEmpty()) {
            throw new IllegalArgumentException("the list of servers is empty: name one at least");
        }
        check(silence.toMillis() >= SILENCE_PARTS, "silence");
        check(patience.isPositive(), "patience");
        check(reconnectMin.isPositive(), "reconnectMin");
        check(reconnectMax.compareTo(reconnectMin) >= 0, "reconnectMax");
        check(outstandingMax > 0, "outstandingMax");
    }

    /// So often within that time is it looked whether a server was heard.
    static final int SILENCE_PARTS = 4;

    /// A client of the oracle with these servers: 30 seconds of patience, 1 of silence, 10 ms to 1 s between
    /// attempts, 10,000 outstanding requests.
    public static ClientOptions of(InetSocketAddress... servers) {
        return new ClientOptions(
                List.of(servers),
                Duration.ofSeconds(30),
                Duration.ofSeconds(1),
                Duration.ofMillis(10),
                Duration.ofSeconds(1),
                10_000,
                Optional.empty(),
                Optional.empty());
    }

    /// The same, with another patience.
    public ClientOptions withPatience(Duration other) {
        return new ClientOptions(servers, other, silence, reconnectMin, reconnectMax, outstandingMax, tls, credentials);
    }

    /// The same, with another time that a server may be silent.
    public ClientOptions withSilence(Duration other) {
        return new ClientOptions(
                servers, patience, other, reconnectMin, reconnectMax, outstandingMax, tls, credentials);
    }

    /// The same, with other times between attempts to connect.
    public ClientOptions withReconnect(Duration min, Duration max) {
        return new ClientOptions(servers, patience, silence, min, max, outstandingMax, tls, credentials);
    }

    /// The same, with another limit.
    public ClientOptions withOutstandingMax(int max) {
        return new ClientOptions(servers, patience, silence, reconnectMin, reconnectMax, max, tls, credentials);
    }

    /// The same, with TLS.
    public ClientOptions withTls(TlsOptions options) {
        return new ClientOptions(
                servers,
                patience,
                silence,
                reconnectMin,
                reconnectMax,
                outstandingMax,
                Optional.of(options),
                credentials);
    }

    /// The same, with another authentication than by the certificate of [#withTls]. A token needs TLS, unless
    /// [Credentials#tokenWithoutTls] permits otherwise.
    public ClientOptions withCredentials(Credentials other) {
        return new ClientOptions(
                servers, patience, silence, reconnectMin, reconnectMax, outstandingMax, tls, Optional.of(other));
    }

    private static void check(boolean holds, String what) {
        if (!holds) {
            throw new IllegalArgumentException(what + " is too small");
        }
    }
}
