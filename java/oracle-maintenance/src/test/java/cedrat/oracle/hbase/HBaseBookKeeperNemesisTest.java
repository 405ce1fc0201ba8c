package cedrat.oracle.hbase;

import cedrat.oracle.log.Log;
import cedrat.oracle.tables.BookKeeperFaults;
import cedrat.oracle.tables.NemesisWorld;
import cedrat.oracle.tables.TestStore;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.random.RandomGenerator;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/// Histories of HBase and an oracle with its log in BookKeeper, which fails over, under random faults of both, as
/// [HBaseNemesisTest].
@Tag("services")
@Tag("soak")
class HBaseBookKeeperNemesisTest {
    private static final int STEPS = 60;
    private static final int POLLS = 100;

    /// Time for which new histories begin.
    private static final Duration TIME = Duration.ofSeconds(Long.getLong("cedrat.nemesis.seconds", 15));

    @TempDir
    private Path folder;

    /// O1, O3, O4, O5, O6, O7, O8, O9.
    /// One history at least of each isolation level.
    @Test
    void historiesHoldUnderRandomFaults() throws Exception {
        long end = System.nanoTime() + TIME.toNanos();
        long seed = NemesisWorld.seed();
        int count = 0;
        try (BookKeeperFaults.Services services = BookKeeperFaults.start(folder.resolve("services"))) {
            do {
                run(services, seed + count++);
            } while (!NemesisWorld.isRepeated() && (System.nanoTime() - end < 0 || count < 2));
        }
    }

    private void run(BookKeeperFaults.Services services, long seed) throws Exception {
        HBaseNetwork network = new HBaseNetwork(seed);
        List<TestStore> stores =
                List.of(new HBaseStore(network.configuration()), new HBaseStore(network.configuration()));
        HBaseFaults ofTables = new HBaseFaults(stores, network);
        try (BookKeeperFaults ofLog = new BookKeeperFaults(services, folder, seed)) {
            NemesisWorld.Setting setting = new NemesisWorld.Setting(
                    HBaseBookKeeperNemesisTest.class,
                    stores,
                    ofLog::log,
                    true,
                    folder,
                    POLLS,
                    new Both(ofTables, ofLog));
            NemesisWorld.run(seed, setting, STEPS, "nemesis-bookkeeper");
        } finally {
            ofTables.heal();
            stores.forEach(TestStore::close);
            network.close();
        }
    }

    /// Faults of the tables and of the log.
    private record Both(HBaseFaults ofTables, BookKeeperFaults ofLog) implements NemesisWorld.OtherFaults {
        @Override
        public void inject(RandomGenerator random) throws Exception {
            if (random.nextInt(4) == 0) {
                ofTables.inject(random);
            } else {
                ofLog.inject(random);
            }
        }

        @Override
        public void heal() throws Exception {
            ofTables.heal();
            ofLog.heal();
        }

        @Override
        public int perCent() {
            return ofLog.perCent();
        }

        @Override
        public void cutOff(Log log) {
            ofLog.cutOff(log);
        }

        @Override
        public String toString() {
            return ofTables + ", " + ofLog;
        }
    }
}
