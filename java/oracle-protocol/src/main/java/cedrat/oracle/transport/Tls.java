package cedrat.oracle.transport;

import cedrat.oracle.tls.TlsOptions;
import io.netty.channel.Channel;
import io.netty.handler.ssl.ClientAuth;
import io.netty.handler.ssl.JdkSslContext;
import io.netty.handler.ssl.SslContext;
import io.netty.handler.ssl.SslContextBuilder;
import io.netty.handler.ssl.SslHandler;
import io.netty.handler.ssl.SslProvider;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.FileTime;
import java.util.ArrayList;
import java.util.List;
import javax.net.ssl.SSLParameters;
import javax.net.ssl.SSLSocket;
import javax.net.ssl.SSLSocketFactory;

/// TLS of the connections of one side. **Threads:** any may call.
public final class Tls {
    private static final String[] PROTOCOLS = {"TLSv1.3", "TLSv1.2"};
    /// Compares the certificate of the server with its name as RFC 2818 says.
    private static final String HOST_CHECK = "HTTPS";

    private final TlsOptions options;
    private final Side side;
    private volatile Loaded loaded;

    /// The content of the files, and the times of their last changes. After a failure it is older than the times say.
    private static final class Loaded {
        final SslContext context;
        final List<FileTime> times;

        Loaded(SslContext context, List<FileTime> times) {
            this.context = context;
            this.times = times;
        }
    }

    private enum Side {
        CLIENT,
        /// A server, each of whose clients shows a certificate.
        SERVER,
        /// A server whose clients may show none.
        SERVER_OF_ANY
    }

    private Tls(TlsOptions options, Side side) throws IOException {
        this.options = options;
        this.side = side;
        List<FileTime> times = times();
        loaded = new Loaded(load(), times);
    }

    /// TLS of a server, which asks each client for its certificate.
    ///
    /// @param isRequired whether a client must show one. If not, one that is shown must be valid nevertheless
    /// @throws IOException if a file cannot be used
    public static Tls server(TlsOptions options, boolean isRequired) throws IOException {
        return new Tls(options, isRequired ? Side.SERVER : Side.SERVER_OF_ANY);
    }

    /// TLS of a client, which checks that the certificate of the server names the host that it connects to.
    ///
    /// @throws IOException if a file cannot be used
    public static Tls client(TlsOptions options) throws IOException {
        return new Tls(options, Side.CLIENT);
    }

    /// Reads the files again if one has changed.
    ///
    /// @throws IOException if a file cannot be used. What was read before stays in use until they change again
    public synchronized void refresh() throws IOException {
        List<FileTime> times = times();
        if (times.equals(loaded.times)) {
            return;
        }
        SslContext context = loaded.context;
        try {
            context = load();
        } finally {
            loaded = new Loaded(context, times);
        }
    }

    /// Returns the first handler of the channel of a connection from a client.
    public SslHandler handler(Channel channel) {
        return loaded.context.newHandler(channel.alloc());
    }

    /// Returns the first handler of the channel of a connection to this server.
    public SslHandler handler(Channel channel, InetSocketAddress server) {
        return loaded.context.newHandler(channel.alloc(), server.getHostString(), server.getPort());
    }

    /// Returns a connection to this server over TLS, after the handshake.
    ///
    /// @throws IOException if the handshake fails
    public Socket over(Socket connection, InetSocketAddress server) throws IOException {
        SSLSocketFactory sockets = ((JdkSslContext) loaded.context).context().getSocketFactory();
        SSLSocket socket = (SSLSocket) sockets.createSocket(connection, server.getHostString(), server.getPort(), true);
        SSLParameters parameters = socket.getSSLParameters();
        parameters.setProtocols(PROTOCOLS);
        parameters.setEndpointIdentificationAlgorithm(HOST_CHECK);
        socket.setSSLParameters(parameters);
        socket.startHandshake();
        return socket;
    }

    private List<Path> files() {
        return options.hasCertificate()
                ? List.of(options.certificate(), options.key(), options.authorities())
                : List.of(options.authorities());
    }

    /// Returns the times of the last changes. That of a file that cannot be read is `null`: reading it says why.
    private List<FileTime> times() {
        List<FileTime> times = new ArrayList<>();
        for (Path file : files()) {
            FileTime time;
            try {
                time = Files.getLastModifiedTime(file);
            } catch (IOException unreadable) {
                time = null;
            }
            times.add(time);
        }
        return times;
    }

    private SslContextBuilder server() {
        return SslContextBuilder.forServer(
                        options.certificate().toFile(), options.key().toFile())
                .clientAuth(side == Side.SERVER ? ClientAuth.REQUIRE : ClientAuth.OPTIONAL);
    }

    private SslContextBuilder client() {
        SslContextBuilder builder = SslContextBuilder.forClient().endpointIdentificationAlgorithm(HOST_CHECK);
        return options.hasCertificate()
                ? builder.keyManager(
                        options.certificate().toFile(), options.key().toFile())
                : builder;
    }

    private SslContext load() throws IOException {
        try {
            SslContextBuilder builder = side == Side.CLIENT ? client() : server();
            return builder.sslProvider(SslProvider.JDK)
                    .protocols(PROTOCOLS)
                    .trustManager(options.authorities().toFile())
                    .build();
        } catch (IllegalArgumentException invalid) {
            // It names the file, or says what the key is not.
            throw new IOException("cannot use the TLS files " + files() + ": " + invalid.getMessage(), invalid);
        }
    }
}
