package cedrat.persist.killed;

import static org.junit.jupiter.api.Assertions.fail;

import java.io.BufferedReader;
import java.io.IOException;
import java.lang.ProcessBuilder.Redirect;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.SplittableRandom;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/// Processes that change random graphs are killed at random moments. What was acknowledged is there afterwards,
/// and what is there is what the program would have made.
class KillTest {
    /// `-Dcedrat.kills=…`: how often.
    private static final int KILLS = Integer.getInteger("cedrat.kills", 40);

    private static final int THREADS = 2;
    private static final int STORES = 4;
    private static final int ACKS_MIN = 100;

    @TempDir
    Path folder;

    @Test
    void whatWasAcknowledgedIsThereAndNothingIsHalf() throws IOException, InterruptedException {
        long seed = Long.getLong("cedrat.seed", System.nanoTime());
        SplittableRandom random = new SplittableRandom(seed);
        long acks = 0;
        for (int store = 0; store < STORES; store++) {
            long[] acknowledged = new long[THREADS];
            for (int kill = 0; kill < KILLS / STORES; kill++) {
                acks += run(Killed.class, folder.resolve("store" + store), seed + store, random, acknowledged);
            }
        }
        System.out.println(KILLS + " processes killed, " + acks + " commits acknowledged (seed " + seed + ")");
    }

    /// Each transfer moves money between an object, a record and a word, as a whole or not at all.
    @Test
    void noMoneyIsLostBetweenObjectsRecordsAndWords() throws IOException, InterruptedException {
        long seed = Long.getLong("cedrat.seed", System.nanoTime());
        SplittableRandom random = new SplittableRandom(seed);
        long acks = 0;
        long[] acknowledged = new long[1];
        for (int kill = 0; kill < KILLS / 2; kill++) {
            acks += run(Transfers.class, folder.resolve("bank"), seed, random, acknowledged);
        }
        System.out.println(KILLS / 2 + " processes killed, " + acks + " transfers acknowledged (seed " + seed + ")");
    }

    /// Runs a process until it has acknowledged enough, and then for a moment more.
    ///
    /// @param acknowledged the newest steps of each thread, old and then new
    private static long run(Class<?> program, Path directory, long seed, SplittableRandom random, long[] acknowledged)
            throws IOException, InterruptedException {
        Path errors = Files.createTempFile("killed", ".err");
        Process process = start(program, directory, seed, errors);
        long acks = 0;
        long wanted = ACKS_MIN + random.nextInt(100);
        try (BufferedReader said = process.inputReader(StandardCharsets.UTF_8)) {
            for (String line; (line = said.readLine()) != null; ) {
                String[] words = line.split(" ");
                int thread = Integer.parseInt(words[1]);
                long steps = Long.parseLong(words[2]);
                if (steps < acknowledged[thread]) {
                    fail(line + ", but " + Arrays.toString(acknowledged) + " were acknowledged, seed " + seed);
                }
                acknowledged[thread] = steps;
                if (words[0].equals("ack") && ++acks == wanted) {
                    // Here it dies, wherever its threads are. By its handle: what it has said before is still to be
                    // read.
                    process.toHandle().destroyForcibly();
                }
            }
        } finally {
            process.destroyForcibly();
        }
        process.waitFor();
        if (acks < wanted) {
            fail("seed " + seed + ": the process has ended by itself: " + Files.readString(errors));
        }
        Files.delete(errors);
        return acks;
    }

    private static Process start(Class<?> program, Path directory, long seed, Path errors) throws IOException {
        String agent = System.getProperty("cedrat.agent");
        List<String> command = new ArrayList<>();
        command.add(ProcessHandle.current().info().command().orElse("java"));
        command.addAll(List.of("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"));
        command.addAll(List.of("-javaagent:" + agent, "--enable-native-access=ALL-UNNAMED"));
        command.add("-Dcedrat.library=" + System.getProperty("cedrat.library"));
        command.addAll(List.of("-cp", System.getProperty("java.class.path"), program.getName()));
        command.addAll(List.of(directory.toString(), "" + seed, "" + THREADS));
        return new ProcessBuilder(command)
                .redirectError(Redirect.to(errors.toFile()))
                .start();
    }
}
