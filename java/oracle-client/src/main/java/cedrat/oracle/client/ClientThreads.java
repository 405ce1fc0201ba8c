package cedrat.oracle.client;

import cedrat.oracle.transport.Transport;
import io.netty.channel.EventLoop;
import io.netty.channel.EventLoopGroup;
import java.util.concurrent.TimeUnit;

/// Threads that pipelines live on. **Threads:** any may call.
public final class ClientThreads implements AutoCloseable {
    private final Transport transport = Transport.best();
    private final EventLoopGroup loops;

    /// Starts this number of threads; pipelines are spread over them in turn.
    public ClientThreads(int threads) {
        loops = transport.loops(threads, "oracle-client");
    }

    /// A pipeline of its own session. It connects at once and takes requests meanwhile.
    ///
    /// @throws java.io.UncheckedIOException if a file of [ClientOptions#tls] cannot be used
    public <T> Pipeline<T> open(ClientOptions options, Replies<T> replies) {
        return open(options, replies, Connector.Resolver.SYSTEM);
    }

    <T> Pipeline<T> open(ClientOptions options, Replies<T> replies, Connector.Resolver resolver) {
        EventLoop loop = loops.next();
        Connector connector = new Connector(transport, loop, options, resolver);
        Pipeline<T> pipeline = new Pipeline<>(loop, options, replies, connector);
        pipeline.execute(pipeline::connect);
        return pipeline;
    }

    /// Ends the threads. Pipelines that were not closed before hear nothing any more, and their sessions
    /// expire.
    @Override
    public void close() {
        loops.shutdownGracefully(0, 1, TimeUnit.SECONDS).awaitUninterruptibly();
    }
}
