package cedrat.oracle.tables;

import cedrat.oracle.log.Log;
import cedrat.oracle.log.SharedLogs.Place;
import cedrat.oracle.log.bookkeeper.BookKeeperLog;
import cedrat.oracle.server.cluster.Journal;
import cedrat.oracle.server.cluster.Links;
import cedrat.services.Bookies;
import cedrat.services.Service;
import cedrat.services.ZooKeeper;
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
import java.util.stream.Collectors;
import org.apache.bookkeeper.proto.DataFormats.BookieServiceInfoFormat;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.retry.RetryOneTime;
import org.apache.zookeeper.KeeperException;

/// Faults below a log in BookKeeper: bookies and servers of ZooKeeper that are suspended, killed and started again,
/// or whose disk is full; and a network between them and the servers of the oracle that is cut in either direction.
///
/// Bookies publish their address in ZooKeeper. It is replaced there by that of a link, so that servers connect over
/// it. A bookie that was started again publishes its own: until the faults end, its connections have none.
@SuppressWarnings("exports") // bookies and logs are those of tests
public final class BookKeeperFaults implements NemesisWorld.OtherFaults, AutoCloseable {
    private static final int BOOKIES = 3;

    private static final int ZOOKEEPERS = 3;

    /// So short that ledgers are rolled all the time.
    private static final int LEDGER_BYTES_MAX = 64 << 10;

    private static final Duration SESSION = Duration.ofSeconds(2);
    private static final String AVAILABLE = "/ledgers/available/";

    /// Bookies are silent for longer than this in most faults.
    private static final String CLIENT = """
            addEntryTimeoutSec=1
            readEntryTimeoutSec=1
            """;

    /// Bookies and an ensemble of ZooKeeper, with the links between them.
    public static final class Services implements AutoCloseable {
        private final List<Links> toZooKeepers = new ArrayList<>();
        /// For each bookie, its links to the servers of ZooKeeper.
        private final List<List<Links.Link>> linksByBookie = new ArrayList<>();
        private final Bookies bookies;

        private Services(Path folder) throws IOException {
            bookies = Bookies.startOverEnsemble(folder, BOOKIES, ZOOKEEPERS, this::addLinks);
        }

        private String addLinks(int bookie, ZooKeeper zooKeeper) throws IOException {
            if (toZooKeepers.isEmpty()) {
                zooKeeper.ports().forEach(port -> toZooKeepers.add(links(port, port)));
            }
            List<Links.Link> added = newLinks(toZooKeepers);
            linksByBookie.add(added);
            return addresses(added);
        }

        @Override
        public void close() throws IOException {
            bookies.close();
            for (Links links : toZooKeepers) {
                links.close();
            }
        }
    }

    private final Services services;
    private final Bookies bookies;
    private final Path properties;
    private final String path;
    /// Links of the servers of the oracle.
    private final List<Links> toZooKeepers = new ArrayList<>();
    private final List<Links> toBookies = new ArrayList<>();
    private final List<Links.Link> bookieLinks = new ArrayList<>();
    /// The links of each server to those of ZooKeeper.
    private final Map<Log, List<Links.Link>> zooKeeperLinks = new ConcurrentHashMap<>();
    /// Number of the suspended bookie; below 0 if none is.
    private int suspended = -1;
    /// Number of the one that was killed, or whose disk is full; below 0 if none is.
    private int killed = -1;

    /// Number of the suspended server of ZooKeeper; below 0 if none is.
    private int suspendedZooKeeper = -1;
    /// Number of the killed one; below 0 if none is.
    private int killedZooKeeper = -1;

    private boolean isCut;
    private int count;

    /// Starts the services below a log.
    public static Services start(Path folder) throws IOException {
        return new Services(folder);
    }

    /// Faults of these services, below the log of one oracle.
    public BookKeeperFaults(Services services, Path folder, long seed) throws IOException {
        this.services = services;
        bookies = services.bookies;
        properties = folder.resolve("bookkeeper.properties");
        Files.writeString(properties, CLIENT);
        path = "/cedrat/nemesis-" + Long.toHexString(seed);
        for (int port : bookies.zooKeeper().ports()) {
            toZooKeepers.add(links(port, seed + port));
        }
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

    private static List<Links.Link> newLinks(List<Links> servers) throws IOException {
        List<Links.Link> added = new ArrayList<>();
        for (Links each : servers) {
            added.add(each.link());
        }
        return added;
    }

    private static String addresses(List<Links.Link> links) {
        return links.stream()
                .map(link -> "127.0.0.1:" + link.addresses()[0].getPort())
                .collect(Collectors.joining(","));
    }

    /// Returns an instance of the log, with links of its own to ZooKeeper.
    public Log log() {
        try {
            List<Links.Link> links = newLinks(toZooKeepers);
            Place place = new Place(
                    addresses(links),
                    path,
                    SESSION,
                    LEDGER_BYTES_MAX,
                    "127.0.0.1:1",
                    Optional.empty(),
                    Optional.of(properties),
                    Optional.empty());
            Log log = new BookKeeperLog(place);
            zooKeeperLinks.put(log, links);
            return log;
        } catch (IOException problem) {
            throw new IllegalStateException(problem);
        }
    }

    /// Writes the addresses of the links into ZooKeeper. A bookie that is just registering again keeps its own.
    private void publish() throws IOException {
        try (CuratorFramework zooKeeper =
                CuratorFrameworkFactory.newClient(bookies.zooKeeper().address(), new RetryOneTime(100))) {
            zooKeeper.start();
            for (int number = 0; number < BOOKIES; number++) {
                try {
                    publish(zooKeeper, number);
                } catch (KeeperException.NoNodeException expired) {
                    // it registers again
                }
            }
        } catch (Exception problem) {
            throw new IOException("cannot publish the links of bookies", problem);
        }
    }

    private void publish(CuratorFramework zooKeeper, int number) throws Exception {
        String node = AVAILABLE + "127.0.0.1:" + bookies.get(number).port();
        BookieServiceInfoFormat.Builder info =
                BookieServiceInfoFormat.parseFrom(zooKeeper.getData().forPath(node)).toBuilder();
        for (BookieServiceInfoFormat.Endpoint.Builder endpoint : info.getEndpointsBuilderList()) {
            endpoint.setPort(bookieLinks.get(number).addresses()[0].getPort());
        }
        zooKeeper.setData().forPath(node, info.build().toByteArray());
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
        int drawn = random.nextInt(18);
        int number = random.nextInt(BOOKIES);
        boolean isHealed = random.nextBoolean();
        if (hasFault() && isHealed) {
            heal();
            return;
        }
        switch (drawn) {
            case 0 -> kill(number);
            case 1 -> suspend(number);
            case 2 -> breakZooKeeper(number, random.nextInt(3));
            case 3 -> fill(number);
            case 4, 5 -> cutZooKeeper(services.linksByBookie.subList(number, number + 1), random);
            case 6, 7, 8, 9, 10, 11 -> cut(bookieLinks.get(number), random);
            default -> cutZooKeeper(List.copyOf(zooKeeperLinks.values()), random);
        }
    }

    private boolean hasFault() {
        return suspended >= 0 || killed >= 0 || suspendedZooKeeper >= 0 || killedZooKeeper >= 0 || isCut;
    }

    private void kill(int number) {
        if (suspended < 0 && killed < 0) {
            killed = number;
            bookies.get(number).service().kill();
        }
    }

    /// A bookie that cannot write ends.
    private void fill(int number) throws IOException {
        if (suspended < 0 && killed < 0) {
            killed = number;
            bookies.get(number).service().fillDisk();
        }
    }

    private void suspend(int number) throws IOException {
        if (suspended < 0 && killed < 0) {
            suspended = number;
            bookies.get(number).service().pause();
        }
    }

    private void breakZooKeeper(int number, int drawn) throws IOException {
        if (suspendedZooKeeper >= 0 || killedZooKeeper >= 0) {
            return;
        }
        Service server = bookies.zooKeeper().service(number);
        if (drawn == 0) {
            suspendedZooKeeper = number;
            server.pause();
            return;
        }
        killedZooKeeper = number;
        if (drawn == 1) {
            server.kill();
        } else {
            server.fillDisk();
        }
    }

    /// Cuts or holds links to one server of ZooKeeper, or to all.
    private void cutZooKeeper(List<List<Links.Link>> all, RandomGenerator random) {
        int only = random.nextInt(2 * ZOOKEEPERS);
        for (List<Links.Link> links : all) {
            for (int number = 0; number < ZOOKEEPERS; number++) {
                if (only == number || only >= ZOOKEEPERS) {
                    cut(links.get(number), random);
                }
            }
        }
    }

    private void cut(Links.Link link, RandomGenerator random) {
        isCut = true;
        link.fail(random, 2000);
    }

    @Override
    public void cutOff(Log log) {
        count++;
        isCut = true;
        zooKeeperLinks.get(log).forEach(Links.Link::hold);
    }

    @Override
    public void heal() throws IOException {
        if (suspendedZooKeeper >= 0) {
            bookies.zooKeeper().service(suspendedZooKeeper).resume();
            suspendedZooKeeper = -1;
        }
        if (killedZooKeeper >= 0) {
            bookies.zooKeeper().restart(killedZooKeeper);
            killedZooKeeper = -1;
        }
        services.toZooKeepers.forEach(Links::heal);
        toZooKeepers.forEach(Links::heal);
        toBookies.forEach(Links::heal);
        isCut = false;
        if (suspended >= 0) {
            bookies.get(suspended).service().resume();
            suspended = -1;
        }
        if (killed >= 0) {
            bookies.restart(killed);
            killed = -1;
        }
        for (int number = 0; number < BOOKIES; number++) {
            if (bookies.get(number).service().isAlive()) {
                bookies.get(number).awaitReady(bookies.zooKeeper());
            } else { // it has lost its session with ZooKeeper
                bookies.restart(number);
            }
        }
        publish();
    }

    @Override
    public void close() throws IOException {
        heal();
        for (Links links : toZooKeepers) {
            links.close();
        }
        for (Links links : toBookies) {
            links.close();
        }
    }
}
