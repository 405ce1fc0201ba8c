package cedrat.oracle.client;

import cedrat.oracle.authentication.Credentials;
import cedrat.oracle.tls.TlsOptions;
import java.net.InetSocketAddress;
import java.time.Duration;
import java.util.List;
import java.util.Objects;
import java.util.Optional;

/// How a client is to run.
public final class ClientOptions {
    /// Number of parts of that time; after each the client checks whether the server was heard.
    static final int SILENCE_PARTS = 4;

    private final List<InetSocketAddress> servers;
    private final Optional<ServerDiscovery> discovery;
    private final Duration patience;
    private final Duration silence;
    private final Duration reconnectMin;
    private final Duration reconnectMax;
    private final int outstandingMax;
    private final Optional<TlsOptions> tls;
    private final Optional<Credentials> credentials;

    /// All options; [#of] and the methods that change one are shorter.
    ///
    /// @param servers where servers of the oracle are; one at a time serves, and the client finds out which. A
    ///     name is resolved for each attempt to connect, even if it was resolved before. There may be none with a
    ///     discovery
    /// @param discovery if present, it finds the servers, and `servers` are tried until it has found some
    /// @param patience time for which each request waits for a connection; then it fails with
    ///     [UnavailableException]
    /// @param silence with several servers: one that answers nothing for so long is left for the next. It may
    ///     only be slow; what is asked again means the same
    /// @param reconnectMin after so long a lost connection is tried again, at first
    /// @param reconnectMax and at last; the time doubles each time that all servers were tried
    /// @param outstandingMax so many requests of a client may be unanswered; one more fails
    /// @param tls if present, connections are made over TLS, with servers whose certificates name their hosts
    /// @param credentials if present, the client authenticates itself by them on each connection
    public ClientOptions(
            List<InetSocketAddress> servers,
            Optional<ServerDiscovery> discovery,
            Duration patience,
            Duration silence,
            Duration reconnectMin,
            Duration reconnectMax,
            int outstandingMax,
            Optional<TlsOptions> tls,
            Optional<Credentials> credentials) {
        this.servers = List.copyOf(servers);
        this.discovery = Objects.requireNonNull(discovery);
        this.patience = patience;
        this.silence = silence;
        this.reconnectMin = reconnectMin;
        this.reconnectMax = reconnectMax;
        this.outstandingMax = outstandingMax;
        this.tls = Objects.requireNonNull(tls);
        this.credentials = Objects.requireNonNull(credentials);
        if (servers.isEmpty() && discovery.isEmpty()) {
            throw new IllegalArgumentException("the list of servers is empty: name one at least, or a discovery");
        }
        check(silence.toMillis() >= SILENCE_PARTS, "silence");
        check(patience.compareTo(Duration.ZERO) > 0, "patience");
        check(reconnectMin.compareTo(Duration.ZERO) > 0, "reconnectMin");
        check(reconnectMax.compareTo(reconnectMin) >= 0, "reconnectMax");
        check(outstandingMax > 0, "outstandingMax");
    }

    /// Returns the addresses of the servers.
    public List<InetSocketAddress> servers() {
        return servers;
    }

    /// Returns what finds the servers, if anything does.
    public Optional<ServerDiscovery> discovery() {
        return discovery;
    }

    /// Returns where the servers are, or are looked for, for messages.
    String where() {
        return discovery.map(Object::toString).orElseGet(servers::toString);
    }

    /// Returns the time for which a request waits for a connection.
    public Duration patience() {
        return patience;
    }

    /// Returns the time after which a server that answers nothing is left for the next.
    public Duration silence() {
        return silence;
    }

    /// Returns the first delay before a lost connection is tried again.
    public Duration reconnectMin() {
        return reconnectMin;
    }

    /// Returns the largest delay.
    public Duration reconnectMax() {
        return reconnectMax;
    }

    /// Returns the largest number of unanswered requests.
    public int outstandingMax() {
        return outstandingMax;
    }

    /// Returns the TLS of connections, if they use it.
    public Optional<TlsOptions> tls() {
        return tls;
    }

    /// Returns the credentials of the client, if it authenticates itself by any.
    public Optional<Credentials> credentials() {
        return credentials;
    }

    /// A client of the oracle with these servers: 30 seconds of patience, 1 of silence, 10 ms to 1 s between
    /// attempts, 10,000 outstanding requests.
    public static ClientOptions of(InetSocketAddress... servers) {
        return of(List.of(servers), Optional.empty());
    }

    /// The same, of the oracle whose servers this finds.
    public static ClientOptions of(ServerDiscovery discovery) {
        return of(List.of(), Optional.of(discovery));
    }

    private static ClientOptions of(List<InetSocketAddress> servers, Optional<ServerDiscovery> discovery) {
        return new ClientOptions(
                servers,
                discovery,
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
        return new ClientOptions(
                servers, discovery, other, silence, reconnectMin, reconnectMax, outstandingMax, tls, credentials);
    }

    /// The same, with another time that a server may be silent.
    public ClientOptions withSilence(Duration other) {
        return new ClientOptions(
                servers, discovery, patience, other, reconnectMin, reconnectMax, outstandingMax, tls, credentials);
    }

    /// The same, with other times between attempts to connect.
    public ClientOptions withReconnect(Duration min, Duration max) {
        return new ClientOptions(servers, discovery, patience, silence, min, max, outstandingMax, tls, credentials);
    }

    /// The same, with another limit.
    public ClientOptions withOutstandingMax(int max) {
        return new ClientOptions(
                servers, discovery, patience, silence, reconnectMin, reconnectMax, max, tls, credentials);
    }

    /// The same, with TLS.
    public ClientOptions withTls(TlsOptions options) {
        return new ClientOptions(
                servers,
                discovery,
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
                servers,
                discovery,
                patience,
                silence,
                reconnectMin,
                reconnectMax,
                outstandingMax,
                tls,
                Optional.of(other));
    }

    private static void check(boolean holds, String what) {
        if (!holds) {
            throw new IllegalArgumentException(what + " is too small");
        }
    }

    @Override
    public boolean equals(Object other) {
        if (!(other instanceof ClientOptions)) {
            return false;
        }
        ClientOptions clientOptions = (ClientOptions) other;
        return servers.equals(clientOptions.servers)
                && discovery.equals(clientOptions.discovery)
                && patience.equals(clientOptions.patience)
                && silence.equals(clientOptions.silence)
                && reconnectMin.equals(clientOptions.reconnectMin)
                && reconnectMax.equals(clientOptions.reconnectMax)
                && outstandingMax == clientOptions.outstandingMax
                && tls.equals(clientOptions.tls)
                && credentials.equals(clientOptions.credentials);
    }

    @Override
    public int hashCode() {
        return Objects.hash(
                servers, discovery, patience, silence, reconnectMin, reconnectMax, outstandingMax, tls, credentials);
    }

    @Override
    public String toString() {
        return "ClientOptions[servers=" + servers + ", discovery=" + discovery + ", patience=" + patience + ", silence="
                + silence
                + ", reconnectMin=" + reconnectMin + ", reconnectMax=" + reconnectMax + ", outstandingMax="
                + outstandingMax + ", tls=" + tls + ", credentials=" + credentials + "]";
    }
}
