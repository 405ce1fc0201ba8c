package cedrat.oracle.hbase;

import cedrat.oracle.server.cluster.Journal;
import cedrat.oracle.server.cluster.Links;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.SocketAddress;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.random.RandomGenerator;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hbase.ipc.NettyRpcClientConfigHelper;
import org.apache.hbase.thirdparty.io.netty.channel.nio.NioEventLoopGroup;
import org.apache.hbase.thirdparty.io.netty.channel.socket.nio.NioSocketChannel;

/// The network between clients of HBase and its master and region servers. Connections lead over links, which can be
/// cut and held. HBase gives its clients the addresses of its servers, so a connection is redirected to its link
/// when it is opened. **Threads:** any may call.
final class HBaseNetwork implements AutoCloseable {
    private final long seed;
    private final Loops loops = new Loops();
    private final Map<Integer, Links> byPort = new ConcurrentHashMap<>();
    private final Map<Integer, Links.Link> links = new ConcurrentHashMap<>();

    /// A network whose choices this seed determines.
    HBaseNetwork(long seed) {
        this.seed = seed;
    }

    /// Returns the configuration of clients whose connections lead over it.
    Configuration configuration() {
        Configuration configuration = new Configuration(Cluster.get().configuration());
        NettyRpcClientConfigHelper.setEventLoopConfig(configuration, loops, Channel.class);
        return configuration;
    }

    /// Cuts or holds the link between the clients and one server.
    void cut(RandomGenerator random) {
        List<Links.Link> all = links.entrySet().stream()
                .sorted(Map.Entry.comparingByKey())
                .map(Map.Entry::getValue)
                .toList();
        if (all.isEmpty()) {
            return;
        }
        all.get(random.nextInt(all.size())).fail(random, 4000);
    }

    /// Lets everything pass.
    void heal() {
        byPort.values().forEach(Links::heal);
    }

    private InetSocketAddress address(InetSocketAddress server) {
        return links.computeIfAbsent(server.getPort(), this::link).addresses()[0];
    }

    private Links.Link link(int port) {
        InetSocketAddress server = new InetSocketAddress(InetAddress.getLoopbackAddress(), port);
        Links toServer = byPort.computeIfAbsent(port, of -> Links.to(server, seed + of, new Journal()));
        try {
            return toServer.link();
        } catch (IOException problem) {
            throw new UncheckedIOException(problem);
        }
    }

    @Override
    public void close() throws IOException {
        for (Links toServer : byPort.values()) {
            toServer.close();
        }
        loops.shutdownGracefully();
    }

    /// The threads of the connections. A channel finds its network by them: HBase creates it without arguments.
    private final class Loops extends NioEventLoopGroup {
        Loops() {
            super(2);
        }

        InetSocketAddress address(InetSocketAddress server) {
            return HBaseNetwork.this.address(server);
        }
    }

    /// A connection that leads over the network of its threads.
    public static final class Channel extends NioSocketChannel {
        @Override
        protected boolean doConnect(SocketAddress server, SocketAddress local) throws Exception {
            Loops loops = (Loops) eventLoop().parent();
            return super.doConnect(loops.address((InetSocketAddress) server), local);
        }
    }
}
