package cedrat.oracle.log.bookkeeper;

import cedrat.oracle.log.LogAbsentException;
import java.io.IOException;
import java.util.Arrays;
import org.apache.curator.framework.CuratorFramework;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.data.Stat;

/// ZooKeeper node that holds the list of ledgers. For one thread at a time.
///
/// The node is changed only by compare-and-set on its version. So a change succeeds only if no other server
/// has changed it since it was read; otherwise the writer gets an error, and the other server owns the log.
final class ListNode implements OwnedList {
    private static final int ATTEMPTS_MAX = 100;

    private final CuratorFramework zooKeeper;
    private final String oracle;
    private final String path;
    private LedgerList list;
    private int version;
    /// The transaction of ZooKeeper that has made the node: one that is made again is of another log.
    private long made;

    /// That of the oracle with this path.
    ListNode(CuratorFramework zooKeeper, String oracle) {
        this.zooKeeper = zooKeeper;
        this.oracle = oracle;
        path = oracle + "/ledgers";
    }

    @Override
    public LedgerList list() {
        return list;
    }

    @Override
    public Origin origin() {
        return new Origin(oracle, made, list.openings());
    }

    /// Whether it is there: whether the log was ever taken.
    boolean exists() throws IOException {
        try {
            zooKeeper.sync().forPath(path); // it may have been made just now, through another server of ZooKeeper
            return zooKeeper.checkExists().forPath(path) != null;
        } catch (Exception problem) {
            throw unavailable(problem);
        }
    }

    /// The place of the log, for error messages.
    String where() {
        return "at " + oracle + " of the ZooKeeper "
                + zooKeeper.getZookeeperClient().getCurrentConnectionString();
    }

    /// Whether servers have the log, or wait for it: they have nodes below the one of this path.
    boolean hasServers(String election) throws IOException {
        try {
            return !zooKeeper.getChildren().forPath(election).isEmpty();
        } catch (KeeperException.NoNodeException none) {
            return false;
        } catch (Exception problem) {
            throw unavailable(problem);
        }
    }

    /// Reads it.
    ///
    /// @throws LogAbsentException if it does not exist
    LedgerList read() throws IOException {
        try {
            zooKeeper.sync().forPath(path);
            Stat stat = new Stat();
            list = LedgerList.of(zooKeeper.getData().storingStatIn(stat).forPath(path));
            version = stat.getVersion();
            made = stat.getCzxid();
            return list;
        } catch (KeeperException.NoNodeException gone) {
            throw new LogAbsentException(where(), true);
        } catch (IOException problem) {
            throw new IOException("the ZooKeeper node " + path + ": " + problem.getMessage(), problem);
        } catch (Exception problem) {
            throw unavailable(problem);
        }
    }

    /// Creates it, with an empty list, unless it exists.
    void create() throws IOException {
        try {
            zooKeeper.create().creatingParentsIfNeeded().forPath(path, LedgerList.EMPTY.toBytes());
        } catch (KeeperException.NodeExistsException another) {
            // another process has created it
        } catch (Exception problem) {
            throw unavailable(problem);
        }
    }

    /// Takes the log: no former owner can change the list any more.
    LedgerList take(long owner) throws IOException {
        for (int attempt = 0; attempt < ATTEMPTS_MAX; attempt++) {
            LedgerList found = read();
            try {
                change(found.takenBy(owner));
                return list;
            } catch (ReplacedException another) {
                // has changed it since: perhaps the one that is about to be replaced
            }
        }
        throw new IOException("cannot write the ZooKeeper node " + path + ", because other processes change it "
                + "continually: give its path to servers of this oracle only");
    }

    @Override
    public void change(LedgerList other) throws IOException {
        byte[] bytes = other.toBytes();
        try {
            version = zooKeeper
                    .setData()
                    .withVersion(version)
                    .forPath(path, bytes)
                    .getVersion();
        } catch (KeeperException.BadVersionException changed) {
            // By us, if the answer to an attempt was lost: all others write another owner.
            if (!isWritten(bytes)) {
                throw new ReplacedException("another server has taken over the log", changed);
            }
            version++;
        } catch (Exception problem) {
            throw unavailable(problem);
        }
        list = other;
    }

    private boolean isWritten(byte[] bytes) throws IOException {
        try {
            zooKeeper.sync().forPath(path);
            Stat stat = new Stat();
            byte[] found = zooKeeper.getData().storingStatIn(stat).forPath(path);
            return stat.getVersion() == version + 1 && Arrays.equals(found, bytes);
        } catch (Exception problem) {
            throw unavailable(problem);
        }
    }

    private static IOException unavailable(Exception problem) {
        if (problem instanceof InterruptedException) {
            Thread.currentThread().interrupt();
        }
        if (problem instanceof KeeperException.NoAuthException refused) {
            return new IOException(
                    "ZooKeeper does not admit these credentials to the node " + refused.getPath()
                            + ": give those of the oracle that made it, with --zookeeper-credentials",
                    problem);
        }
        return new IOException("cannot reach ZooKeeper: " + problem.getMessage(), problem);
    }
}
