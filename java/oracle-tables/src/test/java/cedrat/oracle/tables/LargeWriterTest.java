package cedrat.oracle.tables;

import static org.junit.jupiter.api.Assertions.assertTrue;

import cedrat.oracle.log.VolatileLog;
import java.nio.file.Path;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/// O7m: write sets larger than the heap of the client.
class LargeWriterTest {
    private static final int ROWS = 100;
    private static final String HEAP = "-Xmx64m";

    @TempDir
    private Path folder;

    private String run(World world, long bufferBytes) throws Exception {
        Process process = new ProcessBuilder(List.of(
                        Path.of(System.getProperty("java.home"), "bin", "java").toString(),
                        HEAP,
                        "-Djava.io.tmpdir=" + folder,
                        "-cp",
                        System.getProperty("surefire.test.class.path", System.getProperty("java.class.path")),
                        LargeWriter.class.getName(),
                        "" + world.server.address().getPort(),
                        "" + bufferBytes,
                        "" + ROWS))
                .redirectErrorStream(true)
                .start();
        String said = new String(process.getInputStream().readAllBytes());
        assertTrue(process.waitFor(60, TimeUnit.SECONDS), "still runs: " + said);
        return said;
    }

    @Test
    void writeSetExceedsHeapOfClient() throws Exception {
        try (World world = new World(TestStore.memory(), 1000, new VolatileLog())) {
            String said = run(world, TransactionManager.Options.DEFAULTS.writeBufferBytes());
            assertTrue(said.contains("committed " + ROWS), said);
            said = run(world, Long.MAX_VALUE);
            assertTrue(said.contains("OutOfMemoryError"), "would be noticed: " + said);
        }
    }
}
