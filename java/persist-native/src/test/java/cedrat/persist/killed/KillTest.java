package cedrat.persist.killed;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assertions.fail;

import java.io.BufferedReader;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.EnumMap;
import java.util.List;
import java.util.Map;
import java.util.SplittableRandom;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/// Processes that change random graphs are killed, in each [Phase] as often as in the others, and after a
/// hundred commits at least. Afterwards every acknowledged commit is there, and the graph is one that the
/// program could have made.
class KillTest {
    /// `-Dcedrat.kills=…`: how often.
    private static final int KILLS = Integer.getInteger("cedrat.kills", 40);

    private static final int THREADS = 2;
    private static final int STORES = 4;
    /// When a process has begun so many transfers, it has acknowledged enough of them.
    private static final int ENOUGH = Killed.ACKNOWLEDGED_MIN + THREADS;

    @TempDir
    Path folder;

    private Programs programs;

    /// Kills in a phase.
    private static final class Count {
        int kills;
        /// The process had not said that the phase was over.
        int within;
        long acks;
        /// Of branches that the next process has found in doubt.
        int committed;
        int rolledBack;
    }

    private final Map<Phase, Count> counts = new EnumMap<>(Phase.class);

    @BeforeEach
    void programsAreCompiled() throws IOException {
        programs = new Programs(folder.resolve("programs"));
    }

    /// J11.
    @Test
    void acknowledgedCommitsSurviveAndNothingIsHalf() throws IOException, InterruptedException {
        long seed = Long.getLong("cedrat.seed", System.nanoTime());
        SplittableRandom random = new SplittableRandom(seed);
        for (int store = 0; store < STORES; store++) {
            Child child = new Child(Killed.class, folder.resolve("store" + store), seed + store);
            for (int kill = store; kill < KILLS; kill += STORES) {
                Phase phase = Phase.values()[kill / STORES % Phase.values().length];
                if (phase == Phase.CLASS_CHANGE) {
                    child.version = (child.version + 1 + random.nextInt(programs.versions() - 1)) % programs.versions();
                }
                child.run(phase, 1 + random.nextInt(begins(phase)));
            }
            // What the last one has left.
            child.run(Phase.APPEND, 1);
        }
        printCounts(seed);
    }

    /// J16: each transfer moves money between an object, a record and a word, as a whole or not at all.
    @Test
    void moneyIsConservedAcrossObjectsRecordsWords() throws IOException, InterruptedException {
        long seed = Long.getLong("cedrat.seed", System.nanoTime());
        SplittableRandom random = new SplittableRandom(seed);
        Child child = new Child(Transfers.class, folder.resolve("bank"), seed);
        for (int kill = 0; kill < KILLS / 2; kill++) {
            child.run(Phase.APPEND, ENOUGH + random.nextInt(begins(Phase.APPEND)));
        }
        // What the last one has left.
        child.run(Phase.APPEND, ENOUGH);
        printCounts(seed);
    }

    private void printCounts(long seed) {
        int kills = 0;
        for (Map.Entry<Phase, Count> entry : counts.entrySet()) {
            Count count = entry.getValue();
            String branches = entry.getKey().hasBranches()
                    ? ", of branches in doubt " + count.committed + " committed and " + count.rolledBack
                            + " rolled back"
                    : "";
            System.out.println(entry.getKey() + ": " + count.kills + " processes killed, " + count.within
                    + " within it, " + count.acks + " commits acknowledged" + branches);
            kills += count.kills;
        }
        System.out.println(kills + " processes killed in all, seed " + seed);
    }

    /// How often a process enters a phase at most until it is killed.
    private static int begins(Phase phase) {
        return switch (phase) {
            case APPEND, LETTING_GO -> 200;
            case PREPARE, PREPARED, OUTCOME -> 50;
            case COLLECTION -> 300;
            case FLUSH -> 4;
            // The opening, and the first transactions.
            case CLASS_CHANGE -> 12;
        };
    }

    /// Processes over one store, one after the other.
    private final class Child {
        private final Class<?> program;
        private final Path directory;
        private final long seed;
        /// The newest steps of each thread that were acknowledged, or found.
        private final long[] acknowledged = new long[THREADS];
        /// Number of commits that all of them have acknowledged.
        private long acks;
        /// Version of the class that changes.
        int version;
        /// In which phase branches were left that no process has said that it has ended, or null.
        private Phase doubted;
        /// There is one at least.
        private boolean isInDoubt;

        Child(Class<?> program, Path directory, long seed) {
            this.program = program;
            this.directory = directory;
            this.seed = seed;
        }

        /// Runs a process until it has entered the phase so often; there it is killed.
        void run(Phase phase, int begins) throws IOException, InterruptedException {
            Path errors = Files.createTempFile("killed", ".err");
            Process process = start(phase, begins, errors);
            Count count = counts.computeIfAbsent(phase, key -> new Count());
            long acksBefore = count.acks;
            int begun = 0;
            int ended = 0;
            try (BufferedReader said = process.inputReader(StandardCharsets.UTF_8)) {
                for (String line; (line = said.readLine()) != null; ) {
                    if (line.equals("end")) {
                        // What was entered before enough was acknowledged does not count.
                        ended = Math.min(ended + 1, begun);
                    } else if (line.startsWith("doubt ")) {
                        inDoubt(line);
                    } else if (!line.equals("begin")) {
                        count.acks += steps(line);
                    } else if (++begun == begins) {
                        // Here it dies. By its handle: what it has said before is still to be read.
                        process.toHandle().destroyForcibly();
                    }
                }
            } finally {
                process.destroyForcibly();
            }
            process.waitFor();
            if (begun < begins) {
                fail("seed " + seed + ", " + phase + ": the process has ended by itself: " + Files.readString(errors));
            }
            acks += count.acks - acksBefore;
            long counted = phase == Phase.CLASS_CHANGE ? acks : count.acks - acksBefore;
            assertTrue(counted >= Killed.ACKNOWLEDGED_MIN, phase + ": killed after " + counted + " commits");
            count.kills++;
            count.within += ended < begun ? 1 : 0;
            if (phase.hasBranches()) {
                doubted = phase;
            }
            isInDoubt = phase == Phase.PREPARED;
            Files.delete(errors);
        }

        /// Takes what a process says of branches that it has found.
        private void inDoubt(String line) {
            String[] words = line.split(" ");
            int committed = Integer.parseInt(words[1]);
            int rolledBack = Integer.parseInt(words[2]);
            if (doubted == null) {
                assertEquals(0, committed + rolledBack, "nothing was prepared, seed " + seed);
                return;
            }
            if (isInDoubt && committed + rolledBack == 0) {
                fail("a branch was in doubt and is unknown, seed " + seed);
            }
            Count count = counts.get(doubted);
            count.committed += committed;
            count.rolledBack += rolledBack;
            doubted = null;
            isInDoubt = false;
        }

        /// Takes what a process says of the steps of a thread; returns how many were acknowledged by it.
        private int steps(String line) {
            String[] words = line.split(" ");
            int thread = Integer.parseInt(words[1]);
            long steps = Long.parseLong(words[2]);
            if (steps < acknowledged[thread]) {
                fail(line + ", but " + Arrays.toString(acknowledged) + " were acknowledged, seed " + seed);
            }
            acknowledged[thread] = steps;
            return words[0].equals("ack") ? 1 : 0;
        }

        private Process start(Phase phase, int begins, Path errors) throws IOException {
            List<String> arguments = List.of(directory.toString(), "" + seed, "" + THREADS, phase.name(), "" + begins);
            return programs.start(program, version, List.of(), arguments, errors);
        }
    }
}
