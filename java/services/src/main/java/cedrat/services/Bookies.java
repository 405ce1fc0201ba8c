package cedrat.services;

import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;

/// A ZooKeeper and bookies that it knows. **Threads:** one at a time.
public final class Bookies implements AutoCloseable {
    /// Addresses at which bookies reach ZooKeeper.
    public interface Addresses {
        /// Returns the addresses of the servers, `HOST:PORT,…`, for the bookie of this number.
        String of(int bookie, ZooKeeper zooKeeper) throws IOException;
    }

    private final Path folder;
    private final ZooKeeper zooKeeper;
    private final List<String> addresses = new ArrayList<>();
    private final List<Bookie> bookies = new ArrayList<>();

    private Bookies(Path folder, ZooKeeper zooKeeper) {
        this.folder = folder;
        this.zooKeeper = zooKeeper;
    }

    /// Starts so many bookies with their data below this folder, on free ports; returns when they serve. The
    /// folder is fresh: for those that were there before, start each again by itself.
    public static Bookies start(Path folder, int count) throws IOException {
        return start(
                folder,
                count,
                ZooKeeper.start(folder.resolve("zookeeper"), FreePorts.next()),
                (bookie, zooKeeper) -> zooKeeper.address());
    }

    /// The same, with an ensemble of so many servers of ZooKeeper.
    public static Bookies startOverEnsemble(Path folder, int count, int servers) throws IOException {
        return startOverEnsemble(folder, count, servers, (bookie, zooKeeper) -> zooKeeper.address());
    }

    /// The same, with bookies that reach the ensemble at these addresses.
    public static Bookies startOverEnsemble(Path folder, int count, int servers, Addresses addresses)
            throws IOException {
        return start(folder, count, ZooKeeper.startEnsemble(folder.resolve("zookeeper"), servers), addresses);
    }

    private static Bookies start(Path folder, int count, ZooKeeper zooKeeper, Addresses addresses) throws IOException {
        Bookies bookies = new Bookies(folder, zooKeeper);
        try {
            Bookie.format(folder.resolve("format"), bookies.zooKeeper);
            for (int number = 0; number < count; number++) {
                String address = addresses.of(number, zooKeeper);
                bookies.addresses.add(address);
                bookies.bookies.add(Bookie.start(bookies.folderOf(number), FreePorts.next(), address));
            }
            for (Bookie bookie : bookies.bookies) {
                bookie.awaitReady(bookies.zooKeeper);
            }
        } catch (IOException problem) {
            bookies.close();
            throw problem;
        }
        return bookies;
    }

    private Path folderOf(int number) {
        return folder.resolve("bookie-" + number);
    }

    /// The ZooKeeper.
    public ZooKeeper zooKeeper() {
        return zooKeeper;
    }

    /// The bookie of this number, from 0 on.
    public Bookie get(int number) {
        return bookies.get(number);
    }

    /// Starts a bookie that has ended again, where it was; returns when it serves.
    public void restart(int number) throws IOException {
        bookies.get(number).close();
        Bookie again = Bookie.start(folderOf(number), bookies.get(number).port(), addresses.get(number));
        bookies.set(number, again);
        again.awaitReady(zooKeeper);
    }

    /// Kills them all. Their folders stay.
    @Override
    public void close() {
        bookies.forEach(Bookie::close);
        zooKeeper.close();
    }
}
