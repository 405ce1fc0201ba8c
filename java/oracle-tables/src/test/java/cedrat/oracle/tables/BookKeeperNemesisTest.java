package cedrat.oracle.tables;

import cedrat.services.Bookies;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/// Histories of an oracle with its log in BookKeeper under random faults, as [NemesisTest].
@Tag("services")
class BookKeeperNemesisTest {
    private static final int STEPS = 50;
    private static final int POLLS = 30;

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
        try (Bookies bookies = BookKeeperFaults.start(folder.resolve("services"))) {
            do {
                run(bookies, seed + count++);
            } while (!NemesisWorld.isRepeated() && (System.nanoTime() - end < 0 || count < 2));
        }
    }

    private void run(Bookies bookies, long seed) throws Exception {
        try (BookKeeperFaults faults = new BookKeeperFaults(bookies, folder, seed)) {
            NemesisWorld.Setting setting = new NemesisWorld.Setting(
                    BookKeeperNemesisTest.class,
                    List.of(TestStore.memory(), TestStore.memory()),
                    faults::log,
                    true,
                    folder,
                    POLLS,
                    faults);
            NemesisWorld.run(seed, setting, STEPS, "nemesis-bookkeeper");
        }
    }
}
