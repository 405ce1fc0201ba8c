package cedrat.oracle.tables;

import cedrat.oracle.log.SharedLogs.Place;
import cedrat.oracle.log.bookkeeper.BookKeeperLog;
import cedrat.services.Bookies;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.random.RandomGenerator;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/// Histories of an oracle with its log in BookKeeper under random faults, as [NemesisTest].
@Tag("services")
class BookKeeperNemesisTest {
    private static final int STEPS = 50;
    private static final int POLLS = 30;
    private static final int BOOKIES = 3;

    /// So short that ledgers are rolled all the time.
    private static final int LEDGER_BYTES_MAX = 64 << 10;

    private static final Duration ZOOKEEPER_SESSION = Duration.ofSeconds(4);

    /// Time for which new histories begin.
    private static final Duration TIME = Duration.ofSeconds(Long.getLong("cedrat.nemesis.seconds", 15));

    @TempDir
    private Path folder;

    /// O1, O3, O4, O5, O6, O8, O9.
    /// One history at least of each isolation level.
    @Test
    void historiesHoldUnderRandomFaults() throws Exception {
        long end = System.nanoTime() + TIME.toNanos();
        long seed = NemesisWorld.seed();
        int count = 0;
        try (Bookies bookies = Bookies.start(folder.resolve("services"), BOOKIES)) {
            do {
                run(bookies, seed + count++);
            } while (!NemesisWorld.isRepeated() && (System.nanoTime() - end < 0 || count < 2));
        }
    }

    private static void run(Bookies bookies, long seed) throws Exception {
        Place place = new Place(
                bookies.zooKeeper().address(),
                "/cedrat/nemesis-" + Long.toHexString(seed),
                ZOOKEEPER_SESSION,
                LEDGER_BYTES_MAX,
                "127.0.0.1:1");
        NemesisWorld.Setting setting = new NemesisWorld.Setting(
                BookKeeperNemesisTest.class,
                List.of(TestStore.memory(), TestStore.memory()),
                () -> new BookKeeperLog(place),
                POLLS,
                new BookieFaults(bookies));
        NemesisWorld.run(seed, setting, STEPS, "nemesis-bookkeeper");
    }

    /// A bookie that is suspended, or killed and started again, at a time.
    private static final class BookieFaults implements NemesisWorld.OtherFaults {
        private final Bookies bookies;
        private int suspended = -1;
        private int killed = -1;
        private int count;

        BookieFaults(Bookies bookies) {
            this.bookies = bookies;
        }

        @Override
        public String toString() {
            return count + " faults of bookies";
        }

        @Override
        public void inject(RandomGenerator random) throws Exception {
            count++;
            int number = random.nextInt(BOOKIES);
            boolean isKilled = random.nextBoolean();
            if (suspended >= 0 || killed >= 0) {
                heal();
            } else if (isKilled) {
                killed = number;
                bookies.get(number).service().kill();
            } else {
                suspended = number;
                bookies.get(number).service().pause();
            }
        }

        @Override
        public void heal() throws Exception {
            if (suspended >= 0) {
                bookies.get(suspended).service().resume();
                suspended = -1;
            }
            if (killed >= 0) {
                bookies.restart(killed);
                killed = -1;
            }
        }
    }
}
