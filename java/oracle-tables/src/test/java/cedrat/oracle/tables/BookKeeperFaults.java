package cedrat.oracle.tables;

import cedrat.oracle.log.Log;
import cedrat.oracle.log.SharedLogs.Place;
import cedrat.oracle.log.bookkeeper.BookKeeperLog;
import cedrat.oracle.server.cluster.Journal;
import cedrat.oracle.server.cluster.Links;
import cedrat.services.Bookies;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.ConcurrentHashMap;
import java.util.random.RandomGenerator;
import org.apache.bookkeeper.proto.DataFormats.BookieServiceInfoFormat;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.retry.RetryOneTime;

/// Faults below a log in BookKeeper: bookies and a ZooKeeper that are suspended, bookies that are killed and started
/// again, and a network between servers of the oracle, bookies and ZooKeeper that is cut in either direction.
///
/// Bookies publish their address in ZooKeeper. It is replaced there by that of a link, so that servers connect over
/// it. A bookie that was started again publishes its own: until the faults end, its connections have none.
@SuppressWarnings("exports") // bookies and logs are those of tests
public final class BookKeeperFaults implements NemesisWorld.OtherFaults, AutoCloseable {
    /// Number of bookies.
    public static final int BOOKIES = 3;

    /// So short that ledgers are rolled all the time.
    private static final int LEDGER_BYTES_MAX = 64 << 10;

    private static final Duration SESSION = Duration.ofSeconds(2);
    private static final String AVAILABLE = "/ledgers/available/";

    /// Bookies are silent for longer than this in most faults.
    private static final String CLIENT = """
            addEntryTimeoutSec=1
            readEntryTimeoutSec=1
            """;

    private final Bookies bookies;
    private final Path properties;
    private final String path;
    private final Links toZooKeeper;
    private final List<Links> toBookies = new ArrayList<>();
    private final List<Links.Link> bookieLinks = new ArrayList<>();
    /// The way of each server to ZooKeeper.
    private final Map<Log, Links.Link> zooKeeperLinks = new ConcurrentHashMap<>();
    /// Number of the suspended bookie; below 0 if none is.
    private int suspended = -1;
    /// Number of the killed one; below 0 if none is.
    private int killed = -1;

    private boolean isZooKeeperSuspended;
    private boolean isCut;
    private int count;

    /// Faults of these bookies, below an oracle of this seed.
    public BookKeeperFaults(Bookies bookies, Path folder, long seed) throws IOException {
        this.bookies = bookies;
        properties = folder.resolve("bookkeeper.properties");
        Files.writeString(properties, CLIENT);
        path = "/cedrat/nemesis-" + Long.toHexString(seed);
        toZooKeeper = links(bookies.zooKeeper().port(), seed);
        for (int number = 0; number < BOOKIES; number++) {
            Links links = links(bookies.get(number).port(), seed + number);
            toBookies.add(links);
            bookieLinks.add(links.link());
        }
        publish();
    }

    private static Links links(int port, long seed) {
        return Links.to(new InetSocketAddress(InetAddress.getLoopbackAddress(), port), seed, new Journal());
    }

    /// Returns an instance of the log, with a way of its own to ZooKeeper.
    public Log log() {
        try {
            Links.Link link = toZooKeeper.link();
            Place place = new Place(
                    "127.0.0.1:" + link.addresses()[0].getPort(),
                    path,
                    SESSION,
                    LEDGER_BYTES_MAX,
                    "127.0.0.1:1",
                    Optional.empty(),
                    Optional.of(properties),
                    Optional.empty());
            Log log = new BookKeeperLog(place);
            zooKeeperLinks.put(log, link);
            return log;
        } catch (IOException problem) {
            throw new IllegalStateException(problem);
        }
    }

    /// Writes the addresses of the links into ZooKeeper.
    private void publish() throws IOException {
        try (CuratorFramework zooKeeper =
                CuratorFrameworkFactory.newClient(bookies.zooKeeper().address(), new RetryOneTime(100))) {
            zooKeeper.start();
            for (int number = 0; number < BOOKIES; number++) {
                String node = AVAILABLE + "127.0.0.1:" + bookies.get(number).port();
                BookieServiceInfoFormat.Builder info =
                        BookieServiceInfoFormat.parseFrom(zooKeeper.getData().forPath(node)).toBuilder();
                for (BookieServiceInfoFormat.Endpoint.Builder endpoint : info.getEndpointsBuilderList()) {
                    endpoint.setPort(bookieLinks.get(number).addresses()[0].getPort());
                }
                zooKeeper.setData().forPath(node, info.build().toByteArray());
            }
        } catch (Exception problem) {
            throw new IOException("cannot publish the links of bookies", problem);
        }
    }

    @Override
    public int perCent() {
        return 20;
    }

    @Override
    public String toString() {
        return count + " faults below the log";
    }

    @Override
    public void inject(RandomGenerator random) throws Exception {
        count++;
        int drawn = random.nextInt(16);
        int number = random.nextInt(BOOKIES);
        boolean isHealed = random.nextBoolean();
        if (hasFault() && isHealed) {
            heal();
            return;
        }
        switch (drawn) {
            case 0 -> kill(number);
            case 1 -> suspend(number);
            case 2 -> suspendZooKeeper();
            case 3, 4, 5, 6, 7, 8, 9 -> cut(bookieLinks.get(number), random);
            default -> cutServers(random);
        }
    }

    private boolean hasFault() {
        return suspended >= 0 || killed >= 0 || isZooKeeperSuspended || isCut;
    }

    private void kill(int number) {
        if (suspended < 0 && killed < 0) {
            killed = number;
            bookies.get(number).service().kill();
        }
    }

    private void suspend(int number) throws IOException {
        if (suspended < 0 && killed < 0) {
            suspended = number;
            bookies.get(number).service().pause();
        }
    }

    private void suspendZooKeeper() throws IOException {
        isZooKeeperSuspended = true;
        bookies.zooKeeper().service().pause();
    }

    private void cutServers(RandomGenerator random) {
        for (Links.Link link : List.copyOf(zooKeeperLinks.values())) {
            cut(link, random);
        }
    }

    private void cut(Links.Link link, RandomGenerator random) {
        isCut = true;
        switch (random.nextInt(6)) {
            case 0 -> link.hold(Links.Direction.REQUESTS);
            case 1 -> link.hold(Links.Direction.REPLIES);
            case 2 -> link.refuse();
            case 3 -> link.cut();
            case 4 -> link.cutAfter(random.nextInt(1, 2000));
            default -> {
                link.hold(Links.Direction.REQUESTS);
                link.hold(Links.Direction.REPLIES);
            }
        }
    }

    @Override
    public void cutOff(Log log) {
        count++;
        isCut = true;
        Links.Link link = zooKeeperLinks.get(log);
        link.hold(Links.Direction.REQUESTS);
        link.hold(Links.Direction.REPLIES);
    }

    @Override
    public void heal() throws IOException {
        if (isZooKeeperSuspended) {
            bookies.zooKeeper().service().resume();
            isZooKeeperSuspended = false;
        }
        toZooKeeper.heal();
        toBookies.forEach(Links::heal);
        isCut = false;
        if (suspended >= 0) {
            bookies.get(suspended).service().resume();
            suspended = -1;
        }
        if (killed >= 0) {
            bookies.restart(killed);
            killed = -1;
            publish();
        }
    }

    @Override
    public void close() throws IOException {
        heal();
        toZooKeeper.close();
        for (Links links : toBookies) {
            links.close();
        }
    }
}
