package cedrat.oracle.hbase;

import cedrat.oracle.log.embedded.EmbeddedLog;
import cedrat.oracle.server.CrashableServer;
import cedrat.oracle.tables.NemesisWorld;
import cedrat.oracle.tables.TestStore;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/// Histories of HBase and an oracle with a durable log under random faults, with a new seed in each run. A failure
/// names the seed, and `-Dcedrat.nemesis.seed=` repeats its faults.
@Tag("services")
class HBaseNemesisTest {
    private static final int STEPS = 80;
    private static final int POLLS = 100;

    /// Time for which new histories begin.
    private static final Duration TIME = Duration.ofSeconds(Long.getLong("cedrat.nemesis.seconds", 15));

    @TempDir
    private Path folder;

    private void run(long seed) throws Exception {
        Path data = folder.resolve("log-" + seed);
        HBaseNetwork network = new HBaseNetwork(seed);
        List<TestStore> stores =
                List.of(new HBaseStore(network.configuration()), new HBaseStore(network.configuration()));
        HBaseFaults faults = new HBaseFaults(stores, network);
        NemesisWorld.Setting setting = new NemesisWorld.Setting(
                HBaseNemesisTest.class,
                stores,
                () -> new EmbeddedLog(EmbeddedLog.Options.keeping(data, CrashableServer.LOG_BYTES_MAX)),
                false,
                folder,
                POLLS,
                faults);
        try {
            NemesisWorld.run(seed, setting, STEPS, "nemesis");
        } finally {
            faults.heal();
            stores.forEach(TestStore::close);
            network.close();
        }
    }

    /// O1, O3, O4, O5, O6, O7, O8, O9.
    /// One history at least of each isolation level.
    @Test
    void historiesHoldUnderRandomFaults() throws Exception {
        long end = System.nanoTime() + TIME.toNanos();
        long seed = NemesisWorld.seed();
        int count = 0;
        do {
            run(seed + count++);
        } while (!NemesisWorld.isRepeated() && (System.nanoTime() - end < 0 || count < 2));
    }
}
