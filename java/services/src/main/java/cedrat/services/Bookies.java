package cedrat.services;

import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;

/// A ZooKeeper and bookies that it knows. **Threads:** one at a time.
public final class Bookies implements AutoCloseable {
    private final Path folder;
    private final ZooKeeper zooKeeper;
    private final List<Bookie> bookies = new ArrayList<>();

    private Bookies(Path folder, ZooKeeper zooKeeper) {
        this.folder = folder;
        this.zooKeeper = zooKeeper;
    }

    /// Starts so many bookies with their data below this folder, on free ports; returns when they serve. The
    /// folder is fresh: for those that were there before, start each again by itself.
    public static Bookies start(Path folder, int count) throws IOException {
        return start(folder, count, ZooKeeper.start(folder.resolve("zookeeper"), FreePorts.next()));
    }

    /// The same, with an ensemble of so many servers of ZooKeeper.
    public static Bookies startOverEnsemble(Path folder, int count, int servers) throws IOException {
        return start(folder, count, ZooKeeper.startEnsemble(folder.resolve("zookeeper"), servers));
    }

    private static Bookies start(Path folder, int count, ZooKeeper zooKeeper) throws IOException {
        Bookies bookies = new Bookies(folder, zooKeeper);
        try {
            Bookie.format(folder.resolve("format"), bookies.zooKeeper);
            for (int number = 0; number < count; number++) {
                bookies.bookies.add(Bookie.start(bookies.folderOf(number), FreePorts.next(), bookies.zooKeeper));
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
        Bookie again = Bookie.start(folderOf(number), bookies.get(number).port(), zooKeeper);
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
