package cedrat.oracle.tables;

import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Path;
import java.security.SecureRandom;
import java.time.Duration;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/// Histories under random faults. Each run prints its seed; `-Dcedrat.nemesis.seed=` repeats it.
class NemesisTest {
    private static final String SEED = "cedrat.nemesis.seed";
    private static final int STEPS = Integer.getInteger("cedrat.nemesis.steps", 400);
    private static final Duration TIME = Duration.ofSeconds(Long.getLong("cedrat.nemesis.seconds", 20));

    private static final int SEEDS_MAX = 6;

    @TempDir
    private Path folder;

    private long seed() {
        return Long.getLong(SEED, new SecureRandom().nextLong());
    }

    private void run(long seed, NemesisWorld.Plan plan) throws Exception {
        Isolation isolation = seed % 2 == 0 ? Isolation.SNAPSHOT : Isolation.SERIALISABLE;
        try (NemesisWorld world = new NemesisWorld(seed, folder.resolve(plan.fault() + "-" + plan.serverFault() + "-" + seed), plan, isolation)) {
            try {
                world.run(STEPS);
                world.heal();
                world.check();
            } catch (Throwable problem) {
                throw new AssertionError("-D" + SEED + "=" + seed + " (" + world + "): " + problem, problem);
            } finally {
                System.out.println("seed " + seed + ", " + plan + ", " + isolation + ": " + world);
            }
        }
    }

    /// O1, O3, O4, O5, O8, O9.
    @Test
    void historiesHoldUnderRandomFaults() throws Exception {
        long end = System.nanoTime() + TIME.toNanos();
        long seed = seed();
        do {
            run(seed++, NemesisWorld.Plan.NONE);
        } while (System.nanoTime() - end < 0 && System.getProperty(SEED) == null);
    }

    private void find(NemesisWorld.Plan plan) {
        for (int count = 1; count <= SEEDS_MAX; count++) {
            long seed = seed();
            try {
                run(seed, plan);
            } catch (Throwable found) {
                System.out.println("found " + plan + " by seed " + count + ": " + found.getMessage());
                return;
            }
        }
        System.out.println("NOT FOUND " + plan);
    }

    @Test
    void plantedFaultsAreFound() {
        for (String fault : System.getProperty("cedrat.nemesis.faults", "SWEEP").split(",")) {
            find(fault.startsWith("t.") ? new NemesisWorld.Plan(Fault.valueOf(fault.substring(2))) : new NemesisWorld.Plan(fault));
        }
    }
}
