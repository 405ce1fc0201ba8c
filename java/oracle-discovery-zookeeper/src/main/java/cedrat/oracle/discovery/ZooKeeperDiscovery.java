package cedrat.oracle.discovery;

import cedrat.oracle.client.ServerDiscovery;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Objects;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.Watcher;
import org.apache.zookeeper.ZooKeeper;

/// Finds the servers of an oracle whose log is in BookKeeper, in the ZooKeeper through which they elect the one that
/// serves. That one comes first, then those that stand by.
///
/// Each search has a session of ZooKeeper of its own, so a client that is connected to the oracle has none. The address
/// of a server is that of its options `--host` and `--port`: clients have to reach it, and with TLS its certificate
/// names it.
///
/// **Threads:** any may call.
public final class ZooKeeperDiscovery implements ServerDiscovery {
    /// Path of an oracle whose servers have no other.
    private static final String DEFAULT_PATH = "/cedrat/oracle";

    private static final int SESSION_MS = 10_000;
    private static final String NODE = "latch-";
    private static final Pattern SERVER = Pattern.compile("\\[?(\\S+?)]?:(\\d{1,5})(?: .*)?", Pattern.DOTALL);

    private final String zooKeeper;
    private final String path;

    /// Finds the servers of the oracle with the default path.
    ///
    /// @param zooKeeper `HOST:PORT,…`, as the servers have it
    public ZooKeeperDiscovery(String zooKeeper) {
        this(zooKeeper, DEFAULT_PATH);
    }

    /// The same, with the path that the servers have.
    public ZooKeeperDiscovery(String zooKeeper, String path) {
        this.zooKeeper = Objects.requireNonNull(zooKeeper);
        this.path = Objects.requireNonNull(path);
    }

    @Override
    public List<InetSocketAddress> find() throws IOException {
        try {
            return search();
        } catch (KeeperException problem) {
            throw new IOException("cannot read the servers from ZooKeeper: " + problem.getMessage(), problem);
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
            throw new IOException("the thread was interrupted while it read from ZooKeeper", interrupted);
        }
    }

    private List<InetSocketAddress> search() throws IOException, KeeperException, InterruptedException {
        CountDownLatch connected = new CountDownLatch(1);
        ZooKeeper client = new ZooKeeper(zooKeeper, SESSION_MS, event -> {
            if (event.getState() == Watcher.Event.KeeperState.SyncConnected) {
                connected.countDown();
            }
        });
        try {
            if (!connected.await(SESSION_MS, TimeUnit.MILLISECONDS)) {
                throw new IOException("cannot reach ZooKeeper at " + zooKeeper);
            }
            return servers(client);
        } finally {
            client.close();
        }
    }

    private List<InetSocketAddress> servers(ZooKeeper client) throws KeeperException, InterruptedException {
        String election = path + "/election";
        List<String> nodes = new ArrayList<>(client.getChildren(election, false));
        nodes.removeIf(node -> !node.contains(NODE));
        nodes.sort(Comparator.comparing(node -> node.substring(node.indexOf(NODE))));
        List<InetSocketAddress> servers = new ArrayList<>();
        for (String node : nodes) {
            try {
                byte[] text = client.getData(election + "/" + node, false, null);
                Matcher server = SERVER.matcher(new String(text, StandardCharsets.UTF_8));
                if (server.matches()) {
                    servers.add(InetSocketAddress.createUnresolved(server.group(1), Integer.parseInt(server.group(2))));
                }
            } catch (KeeperException.NoNodeException ended) {
                // the server has ended meanwhile
            }
        }
        return servers;
    }

    @Override
    public String toString() {
        return "ZooKeeper at " + zooKeeper + path;
    }
}
