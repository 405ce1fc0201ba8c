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
import javax.net.ssl.SSLException;

/// Connects to the servers of a client, in turn.
///
/// The name of a server is resolved for each attempt (C6), on a thread of its own, as that may take long. A name with
/// several addresses has another one tried in each round. Where a name cannot be resolved, the address that the caller
/// has resolved is tried. For the thread of its event loop.
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
    private final List<InetSocketAddress> servers;
    private final Resolver resolver;
    /// `null` without TLS.
    private final Tls tls;
    /// `null` if there are none but those of TLS.
    private final Credentials credentials;
    private int server;
    /// How often all servers were tried.
    private int rounds;

    /// Reads the files of TLS.
    ///
    /// @throws IllegalArgumentException if a token would be sent without TLS
    /// @throws UncheckedIOException if one of them cannot be used
    Connector(Transport transport, EventLoop loop, ClientOptions options, Resolver resolver) {
        this.transport = transport;
        this.loop = loop;
        this.servers = options.servers();
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

    /// Goes on to the next server. Returns whether all were tried since it has returned `true` last.
    boolean next() {
        server = (server + 1) % servers.size();
        rounds += server == 0 ? 1 : 0;
        return server == 0;
    }

    /// Connects to the present server, and authenticates the client if it has credentials; the event loop's thread
    /// receives the failure, or `null`. TLS files that have changed, and cannot be used, fail one attempt; later
    /// ones use what was read before.
    void connect(ChannelHandler handler, int timeoutMs, Consumer<Throwable> done) {
        InetSocketAddress known = servers.get(server);
        int round = rounds;
        try {
            if (tls != null) {
                tls.refresh();
            }
        } catch (IOException problem) {
            done.accept(problem);
            return;
        }
        if (credentials == null) {
            resolveAndConnect(known, round, handler, timeoutMs, done);
            return;
        }
        Authenticator authenticator = new Authenticator(loop, credentials, known.getHostString(), timeoutMs, done);
        ChannelHandler both = new ChannelInitializer<>() {
            @Override
            protected void initChannel(Channel channel) {
                channel.pipeline().addLast(authenticator, handler);
            }
        };
        resolveAndConnect(known, round, both, timeoutMs, failure -> {
            if (failure == null) {
                authenticator.begin();
            } else {
                authenticator.failed(failure);
            }
        });
    }

    private void resolveAndConnect(
            InetSocketAddress known, int round, ChannelHandler handler, int timeoutMs, Consumer<Throwable> done) {
        ChannelHandler all = tls == null ? handler : overTls(known, handler);
        if (isLiteral(known)) {
            connect(known, all, timeoutMs, done);
            return;
        }
        CompletableFuture.supplyAsync(() -> resolve(known, round), Connector::startThread)
                .orTimeout(timeoutMs, TimeUnit.MILLISECONDS)
                .whenComplete((address, failure) -> loop.execute(() -> {
                    if (failure == null) {
                        connect(address, all, timeoutMs, done);
                    } else {
                        done.accept(failure(known, failure));
                    }
                }));
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

    private InetSocketAddress resolve(InetSocketAddress known, int round) {
        try {
            InetAddress[] all = resolver.resolve(known.getHostString());
            return new InetSocketAddress(all[Math.floorMod(round, all.length)], known.getPort());
        } catch (UnknownHostException problem) {
            if (known.isUnresolved()) {
                throw new CompletionException(problem);
            }
            return known;
        }
    }

    private static IOException failure(InetSocketAddress known, Throwable failure) {
        Throwable cause = failure instanceof CompletionException ? failure.getCause() : failure;
        String why = cause instanceof TimeoutException ? "no answer" : cause.getMessage();
        return new IOException("cannot resolve the name " + known.getHostString() + ": " + why, cause);
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
