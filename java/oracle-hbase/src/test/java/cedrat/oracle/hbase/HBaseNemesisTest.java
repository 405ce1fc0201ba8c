package cedrat.oracle.hbase;

import cedrat.oracle.log.Log;
import cedrat.oracle.log.SharedLogs.Place;
import cedrat.oracle.log.bookkeeper.BookKeeperLog;
import cedrat.oracle.log.embedded.EmbeddedLog;
import cedrat.oracle.server.CrashableServer;
import cedrat.oracle.tables.NemesisWorld;
import cedrat.oracle.tables.TestStore;
import cedrat.services.Bookies;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.function.Supplier;
import java.util.random.RandomGenerator;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/// Histories of HBase and an oracle with a durable log under random faults, with a new seed in each run. A failure
/// names the seed, and `-Dcedrat.nemesis.seed=` repeats its faults.
@Tag("services")
class HBaseNemesisTest {
    private static final int STEPS = Integer.getInteger("cedrat.nemesis.hbase.steps", 120);
    private static final int POLLS = 100;
    private static final int BOOKIES = 3;

    /// So short that ledgers are rolled all the time.
    private static final int LEDGER_BYTES_MAX = 64 << 10;

    private static final Duration ZOOKEEPER_SESSION = Duration.ofSeconds(4);

    /// Time for which new histories begin.
    private static final Duration TIME = Duration.ofSeconds(Long.getLong("cedrat.nemesis.seconds", 15));

    @TempDir
    private Path folder;

    private static void run(Supplier<Log> logs, NemesisWorld.OtherFaults ofLog, String name, long seed)
            throws Exception {
        List<TestStore> stores = List.of(new HBaseStore(), new HBaseStore());
        NemesisWorld.OtherFaults ofStores = new HBaseFaults(stores);
        NemesisWorld.OtherFaults both = new NemesisWorld.OtherFaults() {
            @Override
            public void inject(RandomGenerator random) throws Exception {
                (random.nextBoolean() ? ofLog : ofStores).inject(random);
            }

            @Override
            public void heal() throws Exception {
                ofLog.heal();
                ofStores.heal();
            }

            @Override
            public String toString() {
                return ofLog + ", " + ofStores;
            }
        };
        try {
            NemesisWorld.run(seed, new NemesisWorld.Setting(stores, logs, POLLS, both), STEPS, name);
        } finally {
            both.heal();
            stores.forEach(TestStore::close);
        }
    }

    private interface Histories {
        void run(long seed) throws Exception;
    }

    /// Both isolation levels at least once.
    private static void repeat(Histories histories) throws Exception {
        long end = System.nanoTime() + TIME.toNanos();
        long seed = NemesisWorld.seed();
        int count = 0;
        do {
            histories.run(seed + count++);
        } while (!NemesisWorld.isRepeated() && (System.nanoTime() - end < 0 || count < 2));
    }

    /// O1, O3, O4, O5, O6, O7, O8, O9.
    @Test
    void historiesHoldOverTheEmbeddedLog() throws Exception {
        repeat(seed -> {
            Path data = folder.resolve("log-" + seed);
            run(
                    () -> new EmbeddedLog(EmbeddedLog.Options.keeping(data, CrashableServer.LOG_BYTES_MAX)),
                    NemesisWorld.OtherFaults.NONE,
                    "nemesis-embedded",
                    seed);
        });
    }

    /// O1, O3, O4, O5, O6, O7, O8, O9.
    @Test
    void historiesHoldOverBookKeeper() throws Exception {
        try (Bookies bookies = Bookies.start(folder.resolve("services"), BOOKIES)) {
            repeat(seed -> {
                Place place = new Place(
                        bookies.zooKeeper().address(),
                        "/cedrat/nemesis-" + (seed & Long.MAX_VALUE),
                        ZOOKEEPER_SESSION,
                        LEDGER_BYTES_MAX,
                        "127.0.0.1:1");
                run(() -> new BookKeeperLog(place), new BookieFaults(bookies), "nemesis-bookkeeper", seed);
            });
        }
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
