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

/// The network between clients of HBase and its master and region servers: connections lead over links, which can be
/// cut and held. HBase tells its clients where its servers are, so connections find their way where they are made.
/// **Threads:** any may call.
final class HBaseNetwork implements AutoCloseable {
    private final long seed;
    private final Loops loops = new Loops();
    private final Map<Integer, Links> byPort = new ConcurrentHashMap<>();
    private final Map<Integer, Links.Link> ways = new ConcurrentHashMap<>();

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

    /// Cuts or holds what is between the clients and one server.
    void cut(RandomGenerator random) {
        List<Links.Link> all = ways.entrySet().stream()
                .sorted(Map.Entry.comparingByKey())
                .map(Map.Entry::getValue)
                .toList();
        if (all.isEmpty()) {
            return;
        }
        Links.Link way = all.get(random.nextInt(all.size()));
        switch (random.nextInt(6)) {
            case 0 -> way.hold(Links.Direction.REQUESTS);
            case 1 -> way.hold(Links.Direction.REPLIES);
            case 2 -> way.refuse();
            case 3 -> way.cut();
            case 4 -> way.cutAfter(random.nextInt(1, 4000));
            default -> {
                way.hold(Links.Direction.REQUESTS);
                way.hold(Links.Direction.REPLIES);
            }
        }
    }

    /// Lets everything pass.
    void heal() {
        byPort.values().forEach(Links::heal);
    }

    private InetSocketAddress way(InetSocketAddress server) {
        return ways.computeIfAbsent(server.getPort(), this::link).addresses()[0];
    }

    private Links.Link link(int port) {
        InetSocketAddress server = new InetSocketAddress(InetAddress.getLoopbackAddress(), port);
        Links links = byPort.computeIfAbsent(port, of -> Links.to(server, seed + of, new Journal()));
        try {
            return links.link();
        } catch (IOException problem) {
            throw new UncheckedIOException(problem);
        }
    }

    @Override
    public void close() throws IOException {
        for (Links links : byPort.values()) {
            links.close();
        }
        loops.shutdownGracefully();
    }

    /// The threads of its connections, by which a channel finds its network: HBase makes channels without arguments.
    private final class Loops extends NioEventLoopGroup {
        Loops() {
            super(2);
        }

        InetSocketAddress way(InetSocketAddress server) {
            return HBaseNetwork.this.way(server);
        }
    }

    /// A connection that leads over the network of its threads.
    public static final class Channel extends NioSocketChannel {
        @Override
        protected boolean doConnect(SocketAddress server, SocketAddress local) throws Exception {
            Loops loops = (Loops) eventLoop().parent();
            return super.doConnect(loops.way((InetSocketAddress) server), local);
        }
    }
}
