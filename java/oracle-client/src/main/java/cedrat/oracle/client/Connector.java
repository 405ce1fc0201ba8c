package cedrat.oracle.client;

import cedrat.oracle.authentication.Credentials;
import cedrat.oracle.transport.ClientExchange;
import cedrat.oracle.transport.Tls;
import cedrat.oracle.transport.Transport;
import io.netty.bootstrap.Bootstrap;
import io.netty.channel.Channel;
import io.netty.channel.ChannelHandler;
import io.netty.channel.ChannelInitializer;
import io.netty.channel.ChannelOption;
import io.netty.channel.EventLoop;
import io.netty.handler.ssl.NotSslRecordException;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.UnknownHostException;
import java.nio.channels.ClosedChannelException;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.function.Consumer;
import java.util.function.Supplier;
import javax.net.ssl.SSLException;

/// Connects to the servers of a client, in turn.
///
/// The name of a server is resolved for each attempt (C6), on a thread of its own, as that may take long. All addresses
/// of a name are tried, one after the other. Where a name cannot be resolved, the address that the caller has resolved
/// is tried. A [ServerDiscovery] is asked before each round. For the thread of its event loop.
final class Connector {
    /// Finds the addresses of a name.
    interface Resolver {
        /// That of the JDK, which remembers an answer for half a minute unless it is configured otherwise.
        Resolver SYSTEM = InetAddress::getAllByName;

        InetAddress[] resolve(String host) throws UnknownHostException;
    }

    /// The reason of a connection that ends before a welcome.
    static final String CLOSED = "the server has closed the connection; perhaps only one side uses TLS";

    private final Transport transport;
    private final EventLoop loop;
    /// `null` without one.
    private final ServerDiscovery discovery;
    private final int silenceMs;
    private final int patienceMs;
    private final Resolver resolver;
    /// `null` without TLS.
    private final Tls tls;
    /// `null` if there are none but those of TLS.
    private final Credentials credentials;
    private List<InetSocketAddress> servers;
    /// The place of the present server among them.
    private int server;
    /// Which of its addresses is tried, and how many it has.
    private int address;
    private int addresses = 1;

    /// Reads the files of TLS.
    ///
    /// @throws IllegalArgumentException if a token would be sent without TLS
    /// @throws UncheckedIOException if one of them cannot be used
    Connector(Transport transport, EventLoop loop, ClientOptions options, Resolver resolver) {
        this.transport = transport;
        this.loop = loop;
        servers = options.servers();
        discovery = options.discovery().orElse(null);
        silenceMs = (int) options.silence().toMillis();
        patienceMs = (int) options.patience().toMillis();
        this.resolver = resolver;
        credentials = options.credentials().orElse(null);
        if (credentials != null) {
            ClientExchange.check(credentials, options.tls().isPresent());
        }
        try {
            tls = options.tls().isPresent() ? Tls.client(options.tls().get()) : null;
        } catch (IOException problem) {
            throw new UncheckedIOException(problem.getMessage(), problem);
        }
    }

    /// Goes on to the next address. Returns whether all were tried since it has returned `true` last.
    boolean next() {
        address++;
        if (address < addresses) {
            return false;
        }
        address = 0;
        addresses = 1;
        server = servers.isEmpty() ? 0 : (server + 1) % servers.size();
        return server == 0;
    }

    /// Whether another address may serve in the place of the present one.
    boolean isOneOfMany() {
        return servers.size() > 1 || addresses > 1 || discovery != null;
    }

    /// Connects to the present address, and authenticates the client if it has credentials; the event loop's thread
    /// receives the failure, or `null`. TLS files that have changed, and cannot be used, fail one attempt; later
    /// ones use what was read before.
    void connect(ChannelHandler handler, Consumer<Throwable> done) {
        try {
            if (tls != null) {
                tls.refresh();
            }
        } catch (IOException problem) {
            done.accept(problem);
            return;
        }
        if (discovery == null || server > 0 || address > 0) {
            resolveAndConnect(handler, done);
            return;
        }
        aside(
                patienceMs,
                this::find,
                found -> {
                    servers = found;
                    resolveAndConnect(handler, done);
                },
                failure -> {
                    if (servers.isEmpty()) {
                        done.accept(new IOException(
                                "cannot find the oracle by " + discovery + ": " + why(failure), failure));
                    } else {
                        resolveAndConnect(handler, done);
                    }
                });
    }

    private List<InetSocketAddress> find() {
        try {
            List<InetSocketAddress> found = List.copyOf(discovery.find());
            if (found.isEmpty()) {
                throw new IOException("no server is announced there");
            }
            return found;
        } catch (IOException problem) {
            throw new CompletionException(problem);
        }
    }

    private void resolveAndConnect(ChannelHandler handler, Consumer<Throwable> done) {
        InetSocketAddress known = servers.get(server);
        if (isLiteral(known)) {
            connect(known, known, handler, done);
            return;
        }
        aside(
                timeoutMs(),
                () -> resolve(known),
                all -> {
                    addresses = all.length;
                    InetAddress chosen = all[Math.floorMod(address, all.length)];
                    connect(known, new InetSocketAddress(chosen, known.getPort()), handler, done);
                },
                failure -> done.accept(new IOException(
                        "cannot resolve the name " + known.getHostString() + ": " + why(failure), failure)));
    }

    /// Does something that may block on another thread; this one receives the result or the failure.
    private <T> void aside(int timeoutMs, Supplier<T> work, Consumer<T> done, Consumer<Throwable> failed) {
        CompletableFuture.supplyAsync(work, Connector::startThread)
                .orTimeout(timeoutMs, TimeUnit.MILLISECONDS)
                .whenComplete((result, failure) -> loop.execute(() -> {
                    if (failure == null) {
                        done.accept(result);
                    } else {
                        failed.accept(failure instanceof CompletionException ? failure.getCause() : failure);
                    }
                }));
    }

    private int timeoutMs() {
        return isOneOfMany() ? silenceMs : patienceMs;
    }

    /// @param known the server as the caller has named it
    private void connect(
            InetSocketAddress known, InetSocketAddress address, ChannelHandler handler, Consumer<Throwable> done) {
        int timeoutMs = timeoutMs();
        if (credentials == null) {
            connect(address, tls == null ? handler : overTls(known, handler), timeoutMs, done);
            return;
        }
        Authenticator authenticator = new Authenticator(loop, credentials, known.getHostString(), timeoutMs, done);
        ChannelHandler both = new ChannelInitializer<>() {
            @Override
            protected void initChannel(Channel channel) {
                channel.pipeline().addLast(authenticator, handler);
            }
        };
        connect(address, tls == null ? both : overTls(known, both), timeoutMs, failure -> {
            if (failure == null) {
                authenticator.begin();
            } else {
                authenticator.failed(failure);
            }
        });
    }

    private void connect(InetSocketAddress address, ChannelHandler handler, int timeoutMs, Consumer<Throwable> done) {
        new Bootstrap()
                .group(loop)
                .channel(transport.client())
                .option(ChannelOption.TCP_NODELAY, true)
                .option(ChannelOption.CONNECT_TIMEOUT_MILLIS, timeoutMs)
                .handler(handler)
                .connect(address)
                .addListener(connected -> done.accept(connected.cause()));
    }

    /// The certificate has to name what the caller has named, whatever that resolves to.
    private ChannelHandler overTls(InetSocketAddress known, ChannelHandler handler) {
        return new ChannelInitializer<>() {
            @Override
            protected void initChannel(Channel channel) {
                channel.pipeline().addLast(tls.handler(channel, known), handler);
            }
        };
    }

    private static boolean isLiteral(InetSocketAddress address) {
        return !address.isUnresolved()
                && address.getHostString().equals(address.getAddress().getHostAddress());
    }

    private static void startThread(Runnable work) {
        Thread thread = new Thread(work, "oracle-client-resolver");
        thread.setDaemon(true);
        thread.start();
    }

    private InetAddress[] resolve(InetSocketAddress known) {
        try {
            return resolver.resolve(known.getHostString());
        } catch (UnknownHostException problem) {
            if (known.isUnresolved()) {
                throw new CompletionException(problem);
            }
            return new InetAddress[] {known.getAddress()};
        }
    }

    private static String why(Throwable failure) {
        return failure instanceof TimeoutException ? "no answer" : failure.getMessage();
    }

    /// Returns the reason of a failed connection in one line. Netty wraps what TLS says of a peer.
    static String reason(Throwable failure) {
        Throwable cause = failure;
        while (cause.getCause() != null) {
            cause = cause.getCause();
        }
        if (cause instanceof NotSslRecordException || cause instanceof ClosedChannelException) {
            return CLOSED;
        }
        boolean isOfTls = failure instanceof SSLException || failure.getCause() instanceof SSLException;
        return isOfTls ? "TLS: " + cause.getMessage() : cause.getMessage();
    }
}
