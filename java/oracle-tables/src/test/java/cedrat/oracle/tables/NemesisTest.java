package cedrat.oracle.tables;

import static org.junit.jupiter.api.Assertions.fail;

import cedrat.oracle.log.embedded.EmbeddedLog;
import cedrat.oracle.server.CrashableServer;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.api.parallel.Execution;
import org.junit.jupiter.api.parallel.ExecutionMode;

/// Histories under random faults, with a new seed in each run. A failure names the seed, and
/// `-Dcedrat.nemesis.seed=` repeats its faults.
class NemesisTest {
    private static final int STEPS = 200;
    private static final int POLLS = 10;

    /// Time for which new histories begin.
    private static final Duration TIME = Duration.ofSeconds(Long.getLong("cedrat.nemesis.seconds", 15));

    /// Number of histories in which a planted fault is looked for: half of them are serialisable, and some
    /// faults need a rare moment.
    private static final int HISTORIES_MAX = 100;

    /// Planted faults that no history here can show, or few of them.
    private static final Set<Fault> INVISIBLE = Set.of(
            Fault.NONE,
            Fault.FEW_VERSIONS, // many writers of a row at a time are rare: `VersionsContract` has them
            Fault.FEW_STAMPS, // so are many writers of one column of a row, and none of another
            Fault.LARGEST_START, // all writers of a cell conflict, so that commits have the order of starts
            Fault.FORGET_LIMIT, // no transaction writes so many rows
            Fault.SWEEP_EARLY, // a write in memory arrives before its thread goes on
            Fault.UNCHECKED_CLEANER); // it erases only what another stamps, and the oracle forgets, while it waits

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
            "IGNORES_FAILURES",
            "SERVES_OTHERS");

    /// Faults that about one history of twenty shows. Tests of their own notice them at once: `StampsContract` the
    /// first, `ClientAndServerTest` the second.
    private static final List<NemesisWorld.Plan> RARE = List.of(
            new NemesisWorld.Plan(Fault.SETTLE_ABOVE_THE_MARK), new NemesisWorld.Plan("COMMITS_PRUNED_READERS"));

    @TempDir
    private Path folder;

    private NemesisWorld.Setting setting(String name) {
        Path data = folder.resolve(name);
        return new NemesisWorld.Setting(
                NemesisTest.class,
                List.of(TestStore.memory(), TestStore.memory()),
                () -> new EmbeddedLog(EmbeddedLog.Options.keeping(data, CrashableServer.LOG_BYTES_MAX)),
                false,
                folder,
                POLLS,
                NemesisWorld.OtherFaults.NONE);
    }

    /// Fails if the history of this seed, or what follows it, is not as promised.
    private void run(long seed, NemesisWorld.Plan plan) throws Exception {
        NemesisWorld.run(seed, setting(plan.fault() + "-" + plan.serverFault() + "-" + seed), plan, STEPS, "nemesis");
    }

    /// O1, O3, O4, O5, O6, O8, O9.
    /// One history at least of each isolation level.
    @Test
    @Execution(ExecutionMode.CONCURRENT)
    void historiesHoldUnderRandomFaults() throws Exception {
        long end = System.nanoTime() + TIME.toNanos();
        long seed = NemesisWorld.seed();
        int count = 0;
        do {
            run(seed + count++, NemesisWorld.Plan.NONE);
        } while (!NemesisWorld.isRepeated() && (System.nanoTime() - end < 0 || count < 2));
    }

    private boolean isFound(NemesisWorld.Plan plan) {
        for (int count = 1; count <= HISTORIES_MAX; count++) {
            try {
                run(NemesisWorld.seed(), plan);
            } catch (Exception | AssertionError found) {
                System.out.println(plan + " found in history " + count + ": " + found.getMessage());
                return true;
            }
        }
        return false;
    }

    private void find(List<NemesisWorld.Plan> plans) {
        for (NemesisWorld.Plan plan : plans) {
            if (!isFound(plan)) {
                fail(plan + " is found in none of " + HISTORIES_MAX + " histories");
            }
        }
    }

    @Test
    @Execution(ExecutionMode.CONCURRENT)
    void plantedFaultsAreFound() {
        List<NemesisWorld.Plan> plans = new ArrayList<>();
        for (Fault fault : Fault.values()) {
            if (!INVISIBLE.contains(fault)) {
                plans.add(new NemesisWorld.Plan(fault));
            }
        }
        SERVER_FAULTS.forEach(fault -> plans.add(new NemesisWorld.Plan(fault)));
        plans.removeAll(RARE);
        find(plans);
    }

    @Test
    @Tag("soak")
    void rarePlantedFaultsAreFound() {
        find(RARE);
    }
}
