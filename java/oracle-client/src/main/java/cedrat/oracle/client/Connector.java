package cedrat.oracle.client;

import cedrat.oracle.tls.TlsOptions;
import cedrat.oracle.transport.Tls;
import cedrat.oracle.transport.Transport;
import io.netty.bootstrap.Bootstrap;
import io.netty.channel.Channel;
import io.netty.channel.ChannelFuture;
import io.netty.channel.ChannelHandler;
import io.netty.channel.ChannelInitializer;
import io.netty.channel.ChannelOption;
import io.netty.channel.EventLoop;
import io.netty.handler.ssl.NotSslRecordException;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.InetSocketAddress;
import java.nio.channels.ClosedChannelException;
import java.util.Optional;
import java.util.function.Consumer;
import javax.net.ssl.SSLException;

/// Connections of one pipeline, over TLS or not.
final class Connector {
    private final Transport transport;
    private final EventLoop loop;
    /// `null` without TLS.
    private final Tls tls;

    /// Reads the files of TLS.
    ///
    /// @throws UncheckedIOException if one of them cannot be used
    Connector(Transport transport, EventLoop loop, Optional<TlsOptions> options) {
        this.transport = transport;
        this.loop = loop;
        try {
            tls = options.isPresent() ? Tls.client(options.get()) : null;
        } catch (IOException problem) {
            throw new UncheckedIOException(problem.getMessage(), problem);
        }
    }

    /// Connects, and calls one of the two on the pipeline's thread; `failed` receives the reason. TLS files that have
    /// changed, and cannot be used, fail one attempt; later ones use what was read before.
    void connect(
            InetSocketAddress server,
            long timeoutMs,
            ChannelHandler receiver,
            Runnable connected,
            Consumer<String> failed) {
        if (tls != null) {
            try {
                tls.refresh();
            } catch (IOException problem) {
                failed.accept(problem.getMessage());
                return;
            }
        }
        ChannelFuture connecting = new Bootstrap()
                .group(loop)
                .channel(transport.client())
                .option(ChannelOption.TCP_NODELAY, true)
                .option(ChannelOption.CONNECT_TIMEOUT_MILLIS, (int) timeoutMs)
                .handler(new ChannelInitializer<>() {
                    @Override
                    protected void initChannel(Channel channel) {
                        if (tls != null) {
                            channel.pipeline().addLast(tls.handler(channel, server));
                        }
                        channel.pipeline().addLast(receiver);
                    }
                })
                .connect(server);
        connecting.addListener(done -> {
            if (done.isSuccess()) {
                connected.run();
            } else {
                failed.accept(done.cause().getMessage());
            }
        });
    }

    /// Returns the reason of a failed connection in one line. Netty wraps what TLS says of a peer.
    static String reason(Throwable failure) {
        Throwable cause = failure;
        while (cause.getCause() != null) {
            cause = cause.getCause();
        }
        if (cause instanceof NotSslRecordException || cause instanceof ClosedChannelException) {
            return "the server has closed the connection, or does not speak TLS";
        }
        boolean isOfTls = failure instanceof SSLException || failure.getCause() instanceof SSLException;
        return isOfTls ? "TLS: " + cause.getMessage() : cause.getMessage();
    }
}
