package cedrat.oracle.server;

import cedrat.oracle.tls.TlsOptions;
import cedrat.oracle.transport.Tls;
import io.netty.channel.Channel;
import io.netty.handler.ssl.SslHandler;
import java.io.IOException;
import java.time.Duration;
import java.util.Optional;
import java.util.concurrent.atomic.AtomicLong;
import javax.net.ssl.SSLPeerUnverifiedException;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/// TLS of a server's connections, or none. **Threads:** any may call.
///
/// A handshake has as long as the hello behind it: what the server says of a late hello waits for its end.
final class Handshakes {
    private static final Logger RECORDS = LoggerFactory.getLogger(Handshakes.class);

    /// `null` without TLS.
    private final Tls tls;
    private final Duration timeout;
    private final AtomicLong failed = new AtomicLong();
    private final Seldom records = new Seldom();

    /// Reads the files of TLS.
    ///
    /// @param isRequired whether each client has to show a certificate
    /// @throws IOException if one of them cannot be used
    Handshakes(Optional<TlsOptions> options, boolean isRequired, Duration timeout) throws IOException {
        this.timeout = timeout;
        tls = options.isPresent() ? Tls.server(options.get(), isRequired) : null;
    }

    /// Returns the number of handshakes that have failed.
    long failed() {
        return failed.get();
    }

    /// Puts TLS before all other handlers of a connection.
    void begin(Channel channel) {
        if (tls == null) {
            return;
        }
        try {
            tls.refresh();
        } catch (IOException problem) {
            RECORDS.atWarn().setCause(problem).log("changed TLS files cannot be used; those from before still are");
        }
        SslHandler handler = tls.handler(channel);
        handler.setHandshakeTimeoutMillis(timeout.toMillis());
        handler.handshakeFuture().addListener(done -> {
            if (!done.isSuccess()) {
                failed(channel, done.cause());
            }
        });
        channel.pipeline().addLast(handler);
    }

    /// Returns the name in the certificate that the client of a connection has shown, as RFC 2253 writes it; empty
    /// if it has shown none.
    static String name(Channel channel) {
        SslHandler handler = channel.pipeline().get(SslHandler.class);
        if (handler == null) {
            return "";
        }
        try {
            return handler.engine().getSession().getPeerPrincipal().getName();
        } catch (SSLPeerUnverifiedException none) {
            return "";
        }
    }

    private void failed(Channel channel, Throwable cause) {
        long count = failed.incrementAndGet();
        if (records.isDue()) {
            RECORDS.atWarn()
                    .addKeyValue("peer", channel.remoteAddress())
                    .addKeyValue("failed", count)
                    .addKeyValue("reason", cause.getMessage())
                    .log("a TLS handshake has failed");
        }
    }
}
