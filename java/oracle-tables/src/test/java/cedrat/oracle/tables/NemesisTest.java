package cedrat.oracle.tables;

import static org.junit.jupiter.api.Assertions.fail;

import java.nio.file.Path;
import java.security.SecureRandom;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/// Histories under random faults, with a new seed in each run. A failure names the seed, and
/// `-Dcedrat.nemesis.seed=` repeats its faults.
class NemesisTest {
    private static final String SEED = "cedrat.nemesis.seed";
    private static final int STEPS = 200;

    /// Time for which new histories begin.
    private static final Duration TIME = Duration.ofSeconds(Long.getLong("cedrat.nemesis.seconds", 15));

    /// Number of histories in which a planted fault is looked for: half of them are serialisable, and some
    /// faults need a rare moment.
    private static final int HISTORIES_MAX = 100;

    /// Planted faults that no history here can show.
    private static final Set<Fault> INVISIBLE = Set.of(
            Fault.NONE,
            Fault.LARGEST_START, // all writers of a cell conflict, so that commits have the order of starts
            Fault.SWEEP_EARLY, // a write in memory arrives before its thread goes on
            Fault.UNCHECKED_CLEANER); // what it restores is below a newer version, as nothing is deleted

    private static final List<String> SERVER_FAULTS = List.of(
            "REPLIES_BEFORE_THE_LOG",
            "STARTS_BEFORE_THE_LOG",
            "APPENDS_FROM_BEFORE_ANSWER",
            "RESENT_COMMITS_CONFLICT",
            "FORGETS_NAMESPACES",
            "KEEPS_VOLATILE_NAMESPACES",
            "KEEPS_UNANNOUNCED",
            "KEEPS_RECOVERED",
            "KEEPS_SILENT",
            "COMMITS_PRUNED_READERS");

    @TempDir
    private Path folder;

    private static long seed() {
        return Long.getLong(SEED, new SecureRandom().nextLong());
    }

    private static Isolation isolation(long seed) {
        return seed % 2 == 0 ? Isolation.SNAPSHOT : Isolation.SERIALISABLE;
    }

    /// Fails if the history of this seed, or what follows it, is not as promised.
    private AppendHistory run(long seed, NemesisWorld.Plan plan) throws Exception {
        Path data = folder.resolve(plan.fault() + "-" + plan.serverFault() + "-" + seed);
        try (NemesisWorld world = new NemesisWorld(seed, data, plan, isolation(seed))) {
            try {
                world.run(STEPS);
                world.heal();
                world.check();
                return world.history();
            } catch (Exception | AssertionError problem) {
                throw new AssertionError(
                        "-D" + SEED + "=" + seed + " (" + world + "): " + problem.getMessage(), problem);
            } finally {
                System.out.println("seed " + seed + ", " + plan + ", " + isolation(seed) + ": " + world);
            }
        }
    }

    /// O1, O3, O4, O5, O6, O8, O9.
    @Test
    void historiesHoldUnderRandomFaults() throws Exception {
        long end = System.nanoTime() + TIME.toNanos();
        boolean isRepeated = System.getProperty(SEED) != null;
        long seed = seed();
        do {
            AppendHistory history = run(seed, NemesisWorld.Plan.NONE);
            history.write(
                    isolation(seed) == Isolation.SNAPSHOT ? "strong-snapshot-isolation" : "strict-serializable",
                    "nemesis");
            seed++;
        } while (!isRepeated && (System.nanoTime() - end < 0 || isolation(seed) == Isolation.SNAPSHOT));
    }

    private boolean isFound(NemesisWorld.Plan plan) {
        for (int count = 1; count <= HISTORIES_MAX; count++) {
            try {
                run(seed(), plan);
            } catch (Exception | AssertionError found) {
                System.out.println(plan + " found in history " + count + ": " + found.getMessage());
                return true;
            }
        }
        return false;
    }

    @Test
    void plantedFaultsAreFound() {
        List<NemesisWorld.Plan> plans = new ArrayList<>();
        for (Fault fault : Fault.values()) {
            if (!INVISIBLE.contains(fault)) {
                plans.add(new NemesisWorld.Plan(fault));
            }
        }
        SERVER_FAULTS.forEach(fault -> plans.add(new NemesisWorld.Plan(fault)));
        for (NemesisWorld.Plan plan : plans) {
            if (!isFound(plan)) {
                fail(plan + " is found in none of " + HISTORIES_MAX + " histories");
            }
        }
    }
}
