package cedrat.oracle.server;

import cedrat.oracle.protocol.Protocol;
import cedrat.oracle.tls.TlsOptions;
import java.net.InetSocketAddress;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Objects;
import java.util.Optional;
import java.util.function.Consumer;

/// How a server is to run.
///
/// @param listen where it listens; port 0 for any
/// @param rowsLog2 the newest 15/16 of two to this power of committed rows are kept in memory, at 16 bytes
///     each; and of tables whose scans are checked a quarter as many keys, at 112 bytes each
/// @param sessionTimeout a session that is silent for so long expires, and its open transactions abort
/// @param rowsMax so many rows, written and read together, may a transaction commit
/// @param outstandingMax with so many requests of a connection unanswered the server stops reading from it
/// @param networkThreads so many threads read and write beside the one that decides; with 0 that one does it
///     all, which takes the least time of processors for a request
/// @param logBytesMax the log is cut to about so many bytes, even where that raises T_max at the next start
/// @param outcomeBytesMax what became of transactions, and was not cleaned up, takes about so much memory at
///     most; what is more is spilled
/// @param scratch the directory of the file that it is spilled to, which has no name and lasts as long as the
///     server
/// @param helloTimeout time from the acceptance of a connection to its hello; without a hello it is then
///     closed
/// @param connectionsMax maximum number of connections; others are refused
/// @param tls if present, clients are served that show a certificate or authenticate themselves otherwise, and no
///     others
/// @param roles what each of them may ask, and how much
/// @param authentication how they authenticate themselves otherwise
public record ServerOptions(
        InetSocketAddress listen,
        int rowsLog2,
        Duration sessionTimeout,
        int rowsMax,
        int outstandingMax,
        int networkThreads,
        long logBytesMax,
        long outcomeBytesMax,
        Path scratch,
        Duration helloTimeout,
        int connectionsMax,
        Optional<TlsOptions> tls,
        Roles roles,
        AuthenticationOptions authentication) {
    /// Default port of a server.
    public static final int PORT = 7270;

    /// Default limit of connections, if the process may have that many.
    static final int CONNECTIONS_MAX = 10_000;

    private static final long LOG_BYTES_MIN = 1 << 20;
    private static final long OUTCOME_BYTES_MIN = 1 << 20;
    private static final Duration TIMEOUT_MIN = Duration.ofMillis(100);
    private static final Duration TIMEOUT_MAX = Duration.ofDays(1);

    /// A server on the loopback, for a million rows.
    public static final ServerOptions DEFAULTS = new ServerOptions(
            new InetSocketAddress("127.0.0.1", PORT),
            20,
            Duration.ofSeconds(30),
            Protocol.ROWS_MAX,
            1 << 14,
            0,
            1L << 30,
            256L << 20,
            Path.of(System.getProperty("java.io.tmpdir")),
            Duration.ofSeconds(10),
            Math.min(CONNECTIONS_MAX, FileLimit.connections(FileLimit.files())),
            Optional.empty(),
            Roles.ALL,
            AuthenticationOptions.NONE);

    /// Checks them.
    public ServerOptions {
        Objects.requireNonNull(listen);
        Objects.requireNonNull(scratch);
        Objects.requireNonNull(tls);
        Objects.requireNonNull(roles);
        Objects.requireNonNull(authentication);
        check(tls.isEmpty() || tls.get().hasCertificate(), "invalid TLS: a server shows a certificate");
        check(
                sessionTimeout.compareTo(TIMEOUT_MIN) >= 0 && sessionTimeout.compareTo(TIMEOUT_MAX) <= 0,
                "invalid session timeout " + sessionTimeout + ": choose 100 ms to a day");
        check(
                helloTimeout.compareTo(TIMEOUT_MIN) >= 0 && helloTimeout.compareTo(TIMEOUT_MAX) <= 0,
                "invalid hello timeout " + helloTimeout + ": choose 100 ms to a day");
        check(connectionsMax > 0, "invalid maximum of connections: choose 1 or more");
        check(
                connectionsMax <= FileLimit.connections(FileLimit.files()),
                "invalid maximum of " + connectionsMax + " connections: the process may have " + FileLimit.files()
                        + " files open, of which " + FileLimit.RESERVED + " are reserved for other uses: choose "
                        + FileLimit.connections(FileLimit.files()) + " or fewer, or raise the limit (ulimit -n)");
        check(
                rowsMax > 0 && rowsMax <= Protocol.ROWS_MAX,
                "invalid maximum of " + rowsMax + " rows of a commit: choose 1 to " + Protocol.ROWS_MAX);
        check(outstandingMax > 0, "invalid maximum of outstanding requests: choose 1 or more");
        check(networkThreads >= 0, "invalid number of network threads: choose 0 or more");
        check(
                logBytesMax >= LOG_BYTES_MIN,
                "invalid length of the log " + logBytesMax + ": choose " + LOG_BYTES_MIN + " bytes or more");
        check(
                outcomeBytesMax >= OUTCOME_BYTES_MIN,
                "invalid memory for outcomes " + outcomeBytesMax + ": choose " + OUTCOME_BYTES_MIN + " bytes or more");
    }

    /// Whether each client needs a name.
    boolean needsNames() {
        return tls.isPresent() || !authentication.isEmpty();
    }

    /// Checks what options have to say of each other.
    ///
    /// @throws IllegalArgumentException if they contradict
    void checkAuthentication() {
        check(
                authentication.isEmpty() || tls.isPresent() || authentication.isAllowedWithoutTls(),
                "tokens and Kerberos need TLS, because without it others can take over a connection, and read tokens:"
                        + " add --tls-certificate, or permit it with --authentication-without-tls");
    }

    private static void check(boolean holds, String otherwise) {
        if (!holds) {
            throw new IllegalArgumentException(otherwise);
        }
    }

    /// The same, listening there.
    public ServerOptions withListen(InetSocketAddress there) {
        return with(copy -> copy.listen = there);
    }

    /// The same, with another size of the map of rows.
    public ServerOptions withRowsLog2(int log2) {
        return with(copy -> copy.rowsLog2 = log2);
    }

    /// The same, with another time-out of sessions.
    public ServerOptions withSessionTimeout(Duration timeout) {
        return with(copy -> copy.sessionTimeout = timeout);
    }

    /// The same, with another limit of rows.
    public ServerOptions withRowsMax(int max) {
        return with(copy -> copy.rowsMax = max);
    }

    /// The same, with another limit of outstanding requests.
    public ServerOptions withOutstandingMax(int max) {
        return with(copy -> copy.outstandingMax = max);
    }

    /// The same, with other threads.
    public ServerOptions withNetworkThreads(int threads) {
        return with(copy -> copy.networkThreads = threads);
    }

    /// The same, with another bound of the log.
    public ServerOptions withLogBytesMax(long max) {
        return with(copy -> copy.logBytesMax = max);
    }

    /// The same, with another bound of outcomes in memory, and another place for what is beyond it.
    public ServerOptions withOutcomes(long bytesMax, Path directory) {
        return with(copy -> {
            copy.outcomeBytesMax = bytesMax;
            copy.scratch = directory;
        });
    }

    /// The same, with another time for the hello of a connection.
    public ServerOptions withHelloTimeout(Duration timeout) {
        return with(copy -> copy.helloTimeout = timeout);
    }

    /// The same, with another limit of connections.
    public ServerOptions withConnectionsMax(int max) {
        return with(copy -> copy.connectionsMax = max);
    }

    /// The same, with TLS.
    public ServerOptions withTls(TlsOptions options) {
        return with(copy -> copy.tls = Optional.of(options));
    }

    /// The same, with roles of clients, which TLS or another authentication identifies.
    public ServerOptions withRoles(Roles rules) {
        return with(copy -> copy.roles = rules);
    }

    /// The same, with other authentication than by certificates.
    public ServerOptions withAuthentication(AuthenticationOptions options) {
        return with(copy -> copy.authentication = options);
    }

    private ServerOptions with(Consumer<Copy> change) {
        Copy copy = new Copy(this);
        change.accept(copy);
        return copy.options();
    }

    /// Options while some of them are exchanged.
    private static final class Copy {
        private InetSocketAddress listen;
        private int rowsLog2;
        private Duration sessionTimeout;
        private int rowsMax;
        private int outstandingMax;
        private int networkThreads;
        private long logBytesMax;
        private long outcomeBytesMax;
        private Path scratch;
        private Duration helloTimeout;
        private int connectionsMax;
        private Optional<TlsOptions> tls;
        private Roles roles;
        private AuthenticationOptions authentication;

        Copy(ServerOptions options) {
            listen = options.listen;
            rowsLog2 = options.rowsLog2;
            sessionTimeout = options.sessionTimeout;
            rowsMax = options.rowsMax;
            outstandingMax = options.outstandingMax;
            networkThreads = options.networkThreads;
            logBytesMax = options.logBytesMax;
            outcomeBytesMax = options.outcomeBytesMax;
            scratch = options.scratch;
            helloTimeout = options.helloTimeout;
            connectionsMax = options.connectionsMax;
            tls = options.tls;
            roles = options.roles;
            authentication = options.authentication;
        }

        ServerOptions options() {
            return new ServerOptions(
                    listen,
                    rowsLog2,
                    sessionTimeout,
                    rowsMax,
                    outstandingMax,
                    networkThreads,
                    logBytesMax,
                    outcomeBytesMax,
                    scratch,
                    helloTimeout,
                    connectionsMax,
                    tls,
                    roles,
                    authentication);
        }
    }
}
