package cedrat.oracle.log.bookkeeper;

import java.io.IOException;
import java.net.ConnectException;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.util.Comparator;
import java.util.Optional;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.curator.framework.CuratorFramework;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.data.Stat;

/// Ends the leadership of a server whose process has ended, before ZooKeeper expires its session.
///
/// A server that stands by holds a connection to the leader's [LivenessSocket]. When the connection is closed, and
/// the host refuses another one, it deletes the leader's node of the election. A host that is silent, or was never
/// reached, proves nothing: then the session decides (O6h).
///
/// A leader that runs nevertheless is replaced without need, as one whose session expires too early. The log protects
/// itself (L4).
final class LeaderWatch implements AutoCloseable {
    private static final String LIVENESS = " liveness ";
    private static final Pattern ID = Pattern.compile(".*" + LIVENESS + "(.+):(\\d{1,5})", Pattern.DOTALL);
    private static final String NODE = "latch-";
    private static final int CONNECT_MS = 1000;
    private static final int PAUSE_MS = 50;

    /// Node of the election that belongs to the leader, and the address of the leader's liveness socket.
    private record Leader(String path, int version, InetSocketAddress address) {}

    private final CuratorFramework zooKeeper;
    private final String election;
    private final String own;
    private final Thread thread;
    private final CountDownLatch closed = new CountDownLatch(1);
    // What follows is guarded by this object's monitor.
    private Socket connection = new Socket();
    private int connections;
    private int refusals;

    /// A watch that has begun, on a thread of its own.
    ///
    /// @param own the id of this server
    LeaderWatch(CuratorFramework zooKeeper, String election, String own) {
        this.zooKeeper = zooKeeper;
        this.election = election;
        this.own = own;
        thread = Thread.ofVirtual().name("leader watch").start(this::run);
    }

    /// Returns the id of a server in the election.
    static String id(String server, LivenessSocket socket) {
        return server + LIVENESS + socket.address().getHostString() + ":"
                + socket.address().getPort();
    }

    private void run() {
        Leader reached = null;
        try {
            do {
                try {
                    reached = watch(reached);
                } catch (IOException | KeeperException later) {
                    // As long as ZooKeeper cannot be reached, only the session of the leader can end.
                }
            } while (!closed.await(PAUSE_MS, TimeUnit.MILLISECONDS));
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
        } catch (Exception problem) {
            throw new IllegalStateException(problem);
        }
    }

    /// Waits until the connection to the leader ends, or cannot be made.
    ///
    /// @param reached the leader that was connected to before; `null` if none was
    /// @return the one that was connected to; `null` if none was
    private Leader watch(Leader reached) throws Exception {
        Leader leader = leader().orElse(null);
        if (leader == null) {
            return null;
        }
        try {
            hold(leader.address);
            return leader;
        } catch (ConnectException refused) {
            if (leader.equals(reached)) {
                delete(leader);
            }
            synchronized (this) {
                refusals++;
                notifyAll();
            }
            return null;
        }
    }

    /// Returns the leader, if it is another server and has a liveness socket.
    private Optional<Leader> leader() throws Exception {
        Optional<String> first = zooKeeper.getChildren().forPath(election).stream()
                .filter(name -> name.contains(NODE))
                .min(Comparator.comparing(name -> name.substring(name.indexOf(NODE))));
        if (first.isEmpty()) {
            return Optional.empty();
        }
        String path = election + "/" + first.get();
        Stat stat = new Stat();
        String id = new String(zooKeeper.getData().storingStatIn(stat).forPath(path), StandardCharsets.UTF_8);
        Matcher matcher = ID.matcher(id);
        if (id.equals(own) || !matcher.matches()) {
            return Optional.empty();
        }
        InetSocketAddress address = new InetSocketAddress(matcher.group(1), Integer.parseInt(matcher.group(2)));
        return Optional.of(new Leader(path, stat.getVersion(), address));
    }

    /// Connects, and returns when the connection has ended.
    ///
    /// @throws ConnectException if the host refuses it
    private void hold(InetSocketAddress address) throws IOException {
        try (Socket socket = new Socket()) {
            synchronized (this) {
                connection = socket;
            }
            if (closed.getCount() == 0) {
                return;
            }
            socket.connect(address, CONNECT_MS);
            synchronized (this) {
                connections++;
                notifyAll();
            }
            try {
                while (socket.getInputStream().read() >= 0) {
                    // the leader sends nothing
                }
            } catch (IOException reset) {
                // it has ended, as with the end of the stream
            }
        }
    }

    private void delete(Leader leader) throws Exception {
        try {
            zooKeeper.delete().withVersion(leader.version).forPath(leader.path);
        } catch (KeeperException.NoNodeException | KeeperException.BadVersionException another) {
            // of the servers that stand by has deleted it, or the session is over
        }
    }

    /// Waits until leaders were connected to so often. For tests.
    synchronized void awaitConnections(int count) throws InterruptedException {
        while (connections < count) {
            wait();
        }
    }

    /// Waits until so many connections were refused. For tests.
    synchronized void awaitRefusals(int count) throws InterruptedException {
        while (refusals < count) {
            wait();
        }
    }

    @Override
    public void close() throws IOException {
        closed.countDown();
        Socket held;
        synchronized (this) {
            held = connection;
        }
        held.close();
        try {
            thread.join();
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
        }
    }
}
