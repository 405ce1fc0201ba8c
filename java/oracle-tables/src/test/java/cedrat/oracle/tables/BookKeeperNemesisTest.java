package cedrat.oracle.tables;

import static org.junit.jupiter.api.Assertions.assertTrue;

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

    /// Number of histories in which a planted fault is looked for.
    private static final int HISTORIES_MAX = 20;

    /// Time for a fail-over.
    private static final Duration LIMIT = Duration.ofSeconds(40);

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
        try (BookKeeperFaults.Services services = BookKeeperFaults.start(folder.resolve("services"))) {
            do {
                run(services, seed + count++, NemesisWorld.Plan.NONE);
            } while (!NemesisWorld.isRepeated() && (System.nanoTime() - end < 0 || count < 2));
        }
    }

    /// The faults that only a server shows which was cut off, or has lost its log.
    @Test
    @Tag("soak")
    void plantedFaultsAreFound() throws Exception {
        try (BookKeeperFaults.Services services = BookKeeperFaults.start(folder.resolve("services"))) {
            for (String fault : List.of("REPLIES_BEFORE_THE_LOG", "STARTS_BEFORE_THE_LOG", "IGNORES_FAILURES")) {
                NemesisWorld.Plan plan = new NemesisWorld.Plan(Fault.NONE, fault, LIMIT);
                assertTrue(isFound(services, plan), plan + " is found in none of " + HISTORIES_MAX + " histories");
            }
        }
    }

    private boolean isFound(BookKeeperFaults.Services services, NemesisWorld.Plan plan) {
        for (int count = 1; count <= HISTORIES_MAX; count++) {
            try {
                run(services, NemesisWorld.seed(), plan);
            } catch (Exception | AssertionError found) {
                System.out.println(plan + " found in history " + count + ": " + found.getMessage());
                return true;
            }
        }
        return false;
    }

    private void run(BookKeeperFaults.Services services, long seed, NemesisWorld.Plan plan) throws Exception {
        try (BookKeeperFaults faults = new BookKeeperFaults(services, folder, seed)) {
            NemesisWorld.Setting setting = new NemesisWorld.Setting(
                    BookKeeperNemesisTest.class,
                    List.of(TestStore.memory(), TestStore.memory()),
                    faults::log,
                    true,
                    folder,
                    POLLS,
                    faults);
            NemesisWorld.run(seed, setting, plan, STEPS, "nemesis-bookkeeper");
        }
    }
}
