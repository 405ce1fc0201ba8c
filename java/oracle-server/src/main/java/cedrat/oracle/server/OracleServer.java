package cedrat.oracle.server;

import cedrat.oracle.log.DamagedEntryException;
import cedrat.oracle.log.EntryWriter;
import cedrat.oracle.log.Log;
import cedrat.oracle.log.OracleReplay;
import cedrat.oracle.log.SnapshotRule;
import cedrat.oracle.state.StatusOracle;
import cedrat.oracle.transport.Transport;
import io.netty.bootstrap.ServerBootstrap;
import io.netty.channel.Channel;
import io.netty.channel.ChannelFuture;
import io.netty.channel.ChannelInitializer;
import io.netty.channel.ChannelOption;
import io.netty.channel.EventLoop;
import io.netty.channel.EventLoopGroup;
import io.netty.channel.WriteBufferWaterMark;
import io.netty.channel.group.ChannelGroup;
import io.netty.channel.group.DefaultChannelGroup;
import io.netty.channel.socket.SocketChannel;
import io.netty.util.concurrent.GlobalEventExecutor;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.InetSocketAddress;
import java.time.Duration;
import java.util.HexFormat;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.BiFunction;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/// A status oracle that listens.
///
/// ```text
/// start ──▶ Serving ──close──▶ Closed
///              │                 ▲
///              └─the log fails─▶ Stopped ──close
/// ```
///
/// Serving: requests are decided, persisted and answered. Stopped: connections are closed, nothing is
/// answered; [#stopped] says why. Closed: the threads have ended.
///
/// **Threads:** its methods may be called by any thread, but not by the log's.
public final class OracleServer implements AutoCloseable {
    /// Above so many unsent bytes of replies a connection is not read from, until they are fewer than a
    /// quarter.
    private static final int UNSENT_BYTES_MAX = 1 << 20;

    private static final int BACKLOG = 1024;

    /// Records of what happens seldom; never of a request.
    private static final Logger RECORDS = LoggerFactory.getLogger(OracleServer.class);

    private final Log log;
    private final EventLoopGroup decide;
    private final EventLoopGroup network;
    private final ChannelGroup connections = new DefaultChannelGroup(GlobalEventExecutor.INSTANCE, true);
    private final CompletableFuture<Void> stopped = new CompletableFuture<>();
    private final Admission admission;
    private final Handshakes handshakes;
    private final Authentication authentication;
    private final Persister persister;
    private final Decider decider;
    private final Channel listening;
    private final ScratchFile scratch;

    /// Opens the log, replays it, and listens.
    ///
    /// @throws IOException if the log does not open, or the address is not available
    /// @throws DamagedEntryException if the log is damaged
    public static OracleServer start(ServerOptions options, Log log) throws IOException, DamagedEntryException {
        return start(options, log, Fault.NONE);
    }

    static OracleServer start(ServerOptions options, Log log, Fault fault) throws IOException, DamagedEntryException {
        return new OracleServer(options, log, fault);
    }

    private OracleServer(ServerOptions options, Log log, Fault fault) throws IOException, DamagedEntryException {
        this.log = log;
        options.checkAuthentication();
        handshakes = new Handshakes(options.tls(), options.authentication().isEmpty(), options.helloTimeout());
        authentication = new Authentication(options.authentication(), options.roles(), fault);
        EntryWriter entry = new EntryWriter();
        scratch = new ScratchFile(options.scratch());
        StatusOracle oracle = new StatusOracle(options.rowsLog2(), entry, options.outcomeBytesMax(), scratch);
        Transport transport = Transport.best();
        decide = transport.loops(1, "decide");
        network = options.networkThreads() == 0 ? decide : transport.loops(options.networkThreads(), "network");
        EventLoop loop = decide.next();
        SnapshotRule rule = new SnapshotRule(oracle.window(), options.logBytesMax());
        admission = new Admission(options.connectionsMax(), options.tls().isEmpty());
        persister = new Persister(loop, oracle, entry, log, rule, this::stop, fault);
        decider = new Decider(loop, options, oracle, persister, log.kind(), fault);
        boolean isListening = false;
        try {
            OracleReplay replay = new OracleReplay(oracle, rule);
            log.open(replay, persister);
            replay.end();
            RECORDS.atInfo()
                    .addKeyValue("entries", rule.entries())
                    .addKeyValue("newest", oracle.newest())
                    .addKeyValue("open", oracle.open())
                    .addKeyValue("halfAborted", oracle.halfAborted())
                    .addKeyValue("halfCommitted", oracle.halfCommitted())
                    .log("the log is open");
            decider.begin();
            listening = listen(options, transport, loop);
            isListening = true;
        } catch (UncheckedIOException scratchFails) {
            throw new IOException(scratchFails.getMessage(), scratchFails);
        } finally {
            if (!isListening) {
                shutDown();
                scratch.close();
                log.close();
            }
        }
        RECORDS.atInfo()
                .addKeyValue("address", address())
                .addKeyValue("identity", HexFormat.of().toHexDigits(oracle.identity()))
                .addKeyValue("generation", HexFormat.of().toHexDigits(oracle.generation()))
                .log("serving");
        schedule(loop, decider::tick, options.sessionTimeout());
        schedule(loop, decider::helloTick, options.helloTimeout());
    }

    private static void schedule(EventLoop loop, Runnable tick, Duration timeout) {
        long tickMs = Math.max(1, timeout.toMillis() / Sessions.TICKS);
        loop.scheduleWithFixedDelay(tick, tickMs, tickMs, TimeUnit.MILLISECONDS);
    }

    private Channel listen(ServerOptions options, Transport transport, EventLoop loop) throws IOException {
        ServerBootstrap bootstrap = new ServerBootstrap()
                .group(decide, network)
                .channel(transport.server())
                .option(ChannelOption.SO_BACKLOG, BACKLOG)
                .option(ChannelOption.SO_REUSEADDR, true)
                .childOption(ChannelOption.TCP_NODELAY, true)
                .childOption(
                        ChannelOption.WRITE_BUFFER_WATER_MARK,
                        new WriteBufferWaterMark(UNSENT_BYTES_MAX / 4, UNSENT_BYTES_MAX))
                .childHandler(new ChannelInitializer<SocketChannel>() {
                    @Override
                    protected void initChannel(SocketChannel channel) {
                        if (admission.admit(channel)) {
                            connections.add(channel);
                            handshakes.begin(channel);
                            channel.pipeline()
                                    .addLast(new AuthenticationHandler(authentication), new Receiver(decider, loop));
                        }
                    }
                });
        ChannelFuture bound = bootstrap.bind(options.listen()).awaitUninterruptibly();
        if (!bound.isSuccess()) {
            throw new IOException(
                    "cannot listen on " + options.listen() + ": "
                            + bound.cause().getMessage(),
                    bound.cause());
        }
        return bound.channel();
    }

    /// Returns the address that it listens on.
    public InetSocketAddress address() {
        return (InetSocketAddress) listening.localAddress();
    }

    /// Returns the number of TLS handshakes that have failed.
    long handshakesFailed() {
        return handshakes.failed();
    }

    /// Returns the number of authentications that have failed.
    long authenticationsFailed() {
        return authentication.failed();
    }

    /// Returns the figures of the decide thread.
    ///
    /// @throws TimeoutException if that thread does not answer for a second
    Reading reading() throws TimeoutException {
        try {
            return CompletableFuture.supplyAsync(decider::reading, decide).get(1, TimeUnit.SECONDS);
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
            throw new TimeoutException("the thread was interrupted");
        } catch (ExecutionException | RejectedExecutionException ended) {
            throw new TimeoutException("the deciding thread has ended");
        } catch (TimeoutException silent) {
            throw new TimeoutException("the deciding thread has not answered for a second");
        }
    }

    /// Returns the number of open connections.
    int connections() {
        return connections.size();
    }

    /// Returns the number of connections that were refused because too many were open.
    long connectionsRefused() {
        return admission.refused();
    }

    /// Ends when the server was closed; fails, with the cause, when it has stopped by itself: because its log
    /// has failed. Which of the requests that were not answered have been decided, only the next opening of
    /// the log tells.
    public CompletionStage<Void> stopped() {
        return stopped.minimalCompletionStage();
    }

    private void stop(Throwable cause) {
        RECORDS.atError().setCause(cause).log("stopped after a failure of the log");
        stopped.completeExceptionally(cause);
        if (listening != null) {
            listening.close();
        }
        connections.close();
    }

    /// Takes no more requests, waits until the log has acknowledged the decisions on those there are, answers
    /// them, and ends. A second call does nothing.
    ///
    /// @throws IOException if the log does not close; the server is closed nevertheless
    @Override
    public void close() throws IOException {
        if (decide.isShuttingDown()) {
            return;
        }
        listening.close().awaitUninterruptibly();
        decider.run(decider::flush).join();
        try {
            log.close();
        } finally {
            decider.run(persister::end).join();
            connections.close().awaitUninterruptibly();
            shutDown();
            scratch.close();
            RECORDS.atInfo().log("ended");
            stopped.complete(null);
        }
    }

    private void shutDown() {
        authentication.close();
        network.shutdownGracefully(0, 1, TimeUnit.SECONDS);
        decide.shutdownGracefully(0, 1, TimeUnit.SECONDS).awaitUninterruptibly();
    }

    // ---- for tests --------------------------------------------------------------------------------------------------

    /// A part of the time-out of sessions passes.
    void tick() {
        decider.run(decider::tick).join();
    }

    /// Lets the decide thread count a tick of the hello timeout.
    void helloTick() {
        decider.run(decider::helloTick).join();
    }

    /// Returns the authentication of clients.
    Authentication authentication() {
        return authentication;
    }

    /// Returns what a function makes of the oracle and its sessions, on the decide thread.
    <T> T inspect(BiFunction<StatusOracle, Sessions, T> function) {
        AtomicReference<T> result = new AtomicReference<>();
        decider.run(() -> result.set(decider.inspect(function))).join();
        return result.get();
    }

    /// Returns [Decider#accounts].
    int accounts() {
        AtomicInteger count = new AtomicInteger();
        decider.run(() -> count.set(decider.accounts())).join();
        return count.get();
    }

    /// Waits until everything that the server had begun is done, and everything written that it had to write.
    void settle() {
        for (int round = 0; round < 3; round++) {
            decider.run(() -> {}).join();
            network.forEach(loop -> loop.submit(() -> {}).syncUninterruptibly());
        }
    }

    /// The decide thread waits until what this returns is closed.
    Hanging hang() {
        CompletableFuture<Void> end = new CompletableFuture<>();
        decide.execute(end::join);
        return () -> end.complete(null);
    }

    /// Something that lasts until it is closed.
    interface Hanging extends AutoCloseable {
        @Override
        void close();
    }

    /// Returns the number of requests that were decided and not answered.
    int outstanding() {
        AtomicInteger count = new AtomicInteger();
        decider.run(() -> count.set(persister.outstanding())).join();
        return count.get();
    }

    /// Returns the bytes of replies that were not released.
    long outstandingBytes() {
        AtomicLong count = new AtomicLong();
        decider.run(() -> count.set(persister.outstandingBytes())).join();
        return count.get();
    }

    /// Waits until this number of connections are [Connection#waiting].
    void awaitWaiting(int count) {
        AtomicInteger waiting = new AtomicInteger();
        while (waiting.get() < count) {
            decider.run(() -> waiting.set(decider.waiting())).join();
        }
    }

    /// Waits until so many requests are in the batch that is open.
    void awaitDecided(int count) {
        AtomicInteger decided = new AtomicInteger();
        while (decided.get() < count) {
            decider.run(() -> decided.set(persister.decided())).join();
        }
    }
}
