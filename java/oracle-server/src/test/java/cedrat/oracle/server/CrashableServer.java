package cedrat.oracle.server;

import cedrat.oracle.log.DamagedEntryException;
import cedrat.oracle.log.Log;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.time.Duration;
import java.util.random.RandomGenerator;

/// A server over a durable log that crashes within this process, so that hundreds of crashes take seconds. Its
/// time passes by [#tick] alone. **Threads:** any may call.
public final class CrashableServer implements AutoCloseable {
    /// A session that was silent for more ticks than this has expired.
    public static final int TICKS = Sessions.TICKS;

    /// Time that does not pass in a test.
    private static final Duration LONG = Duration.ofDays(1);

    /// Number of bytes that its log keeps.
    public static final int LOG_BYTES_MAX = 1 << 20;

    private final CrashableLog log;
    private final OracleServer server;

    /// Figures of a server.
    ///
    /// @param newest newest timestamp
    /// @param open number of open transactions
    /// @param outcomes number of transactions that have ended and are remembered
    /// @param outcomeBytes memory of these
    /// @param sessions number of sessions
    public record Figures(long newest, long open, long outcomes, long outcomeBytes, long sessions) {}

    private CrashableServer(CrashableLog log, OracleServer server) {
        this.log = log;
        this.server = server;
    }

    /// Opens a fresh instance of a log, and starts a server over it, with one of the bugs that tests plant, or none
    /// (`NONE`).
    ///
    /// @param options all but those of its address, of its log, and of time
    public static CrashableServer start(Log fresh, ServerOptions options, String fault)
            throws IOException, DamagedEntryException {
        CrashableLog log = new CrashableLog(fresh);
        ServerOptions all = options.withListen(new InetSocketAddress("127.0.0.1", 0))
                .withLogBytesMax(LOG_BYTES_MAX)
                .withSessionTimeout(LONG)
                .withHelloTimeout(LONG);
        return new CrashableServer(log, OracleServer.start(all, log, Fault.valueOf(fault)));
    }

    /// Returns the address that it listens on.
    public InetSocketAddress address() {
        return server.address();
    }

    /// Lets a part of the session timeout and of the hello timeout pass.
    public void tick() {
        server.tick();
        server.helloTick();
    }

    /// Reads the files of tokens and roles again, and closes the connections of removed tokens.
    public void refresh() {
        server.authentication().refreshNow();
    }

    /// Stops the disk.
    public void holdLog() {
        log.hold();
    }

    /// Lets the disk go on.
    public void releaseLog() {
        log.release();
    }

    /// Lets a stopped disk write one more entry.
    public void writeOne() {
        log.releaseOne();
    }

    /// Lets the log fail at its next append, as if no more space was left.
    public void fillDisk() {
        log.fill();
    }

    /// Gives the log to the next server. This one goes on, as a process that does not know that it was replaced.
    public void fence(RandomGenerator random) throws IOException {
        log.crash(random);
    }

    /// Delivers to a server that was replaced the late acknowledgement of entries that its successor has found.
    public void wake() {
        log.acknowledgeLate();
    }

    /// Ends it without a reply to any request that its log has not acknowledged.
    public void crash(RandomGenerator random) throws IOException {
        log.crash(random);
        server.close();
    }

    /// Whether it has stopped by itself, because its log has failed.
    public boolean isStopped() {
        return server.stopped().toCompletableFuture().isDone();
    }

    /// Returns the figures of this moment.
    public Figures figures() {
        return server.inspect((oracle, sessions) -> new Figures(
                oracle.newest(),
                oracle.open(),
                oracle.halfAborted() + oracle.halfCommitted(),
                oracle.transactionBytes(),
                sessions.count()));
    }

    /// Returns a text of what it remembers, and for whom.
    public String describe() {
        return server.inspect(ServerState::describe);
    }

    /// Ends it in order, unless its log was given to another one.
    @Override
    public void close() throws IOException {
        server.close();
    }
}
