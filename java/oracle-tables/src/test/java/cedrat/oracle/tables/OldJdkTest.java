package cedrat.oracle.tables;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cedrat.oracle.log.VolatileLog;
import java.io.ByteArrayOutputStream;
import java.io.File;
import java.io.IOException;
import java.io.PrintStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.spi.ToolProvider;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/// Programs on JDK 11 embed the client, its tables, and all that they need.
class OldJdkTest {
    private static final Path PROGRAM = Path.of("../samples/tables-quick-start/src/main/java/Transfer.java");

    @Test
    void dependenciesLoadOnJdk11() throws IOException {
        ClassVersions.checkJdk11();
    }

    /// The program of the quick start, compiled for 11.
    @Test
    void quickStartRunsOnJdk11(@TempDir Path folder) throws Exception {
        Path java = Path.of(System.getProperty("cedrat.jdk11"), "bin", "java");
        assertTrue(
                Files.isExecutable(java),
                "there is no JDK 11 at " + java + ": `./x test oracle-tables` installs one; another is named by "
                        + "-Dcedrat.jdk11=DIRECTORY");
        assertTrue(run(List.of(java.toString(), "-version")).contains("version \"11."), "not a JDK 11: " + java);
        String path = String.join(
                File.pathSeparator,
                ClassVersions.classPath().stream().map(Path::toString).toList());
        ByteArrayOutputStream complaints = new ByteArrayOutputStream();
        PrintStream to = new PrintStream(complaints);
        int status = ToolProvider.findFirst("javac")
                .orElseThrow()
                .run(to, to, "--release", "11", "-cp", path, "-d", folder.toString(), PROGRAM.toString());
        assertEquals(0, status, complaints.toString());
        try (World world = new World(TestStore.memory(), 10, new VolatileLog())) {
            String said = run(List.of(
                    java.toString(),
                    "-cp",
                    folder + File.pathSeparator + path,
                    "Transfer",
                    "127.0.0.1",
                    "" + world.server.address().getPort()));
            assertTrue(said.contains("70 and 30"), said);
        }
    }

    private static String run(List<String> command) throws Exception {
        Process process = new ProcessBuilder(command).redirectErrorStream(true).start();
        String said = new String(process.getInputStream().readAllBytes());
        assertTrue(process.waitFor(60, TimeUnit.SECONDS), "still runs: " + said);
        return said;
    }
}
