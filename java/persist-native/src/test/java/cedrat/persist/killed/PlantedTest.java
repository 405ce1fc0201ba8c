package cedrat.persist.killed;

import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assertions.fail;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.jar.Attributes;
import java.util.jar.JarOutputStream;
import java.util.jar.Manifest;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/// Proof that the checks of [KillTest] find faults: each [Fault] ends the process that has it.
class PlantedTest {
    /// So often a process enters its phase, that is killed to leave a store behind.
    private static final int BEGINS = 60;

    /// Maximum number of output lines: the fault should have shown long before.
    private static final int LINES = 10_000;

    @TempDir
    Path folder;

    private Programs programs;

    @BeforeEach
    void programsAreCompiled() throws IOException {
        programs = new Programs(folder.resolve("programs"));
    }

    @Test
    void collectedHeldObjectIsNoticed() throws IOException, InterruptedException {
        String said = end(Phase.COLLECTION, Fault.HELD_COLLECTED, List.of());
        // The status is of this call, and the text of the graph's last failed call: another thread may have asked for a
        // class meanwhile.
        boolean isOfOtherCall = said.matches("(?s).*cannot commit: CEDRAT_UNKNOWN: class \\d+ is not defined.*");
        assertTrue(said.contains("has no object") || isOfOtherCall, said);
    }

    @Test
    void rawHashTableIsFound() throws IOException, InterruptedException {
        kill(Fault.RAW_TABLES);
        String said = end(Phase.APPEND, Fault.RAW_TABLES, List.of());
        assertTrue(said.contains("null is found for it"), said);
    }

    @Test
    void aReadSkipsItsGuard() throws IOException, InterruptedException {
        kill(Fault.NONE);
        String said = end(Phase.APPEND, Fault.GUARD_SKIPPED, List.of("-javaagent:" + jarOfNoGuards()));
        assertTrue(said.contains("instead of"), said);
    }

    private Path store() {
        return folder.resolve("store");
    }

    private Process start(Phase phase, Fault fault, List<String> options, Path errors) throws IOException {
        List<String> all = new ArrayList<>(options);
        all.add("-Dcedrat.fault=" + fault);
        return programs.start(
                Killed.class,
                0,
                all,
                List.of(store().toString(), "1", "2", phase.name(), "" + Integer.MAX_VALUE),
                errors);
    }

    /// Lets a process make a store, and kills it.
    private void kill(Fault fault) throws IOException, InterruptedException {
        Path errors = Files.createTempFile(folder, "killed", ".err");
        Process process = start(Phase.APPEND, fault, List.of(), errors);
        int begun = 0;
        try (BufferedReader said = process.inputReader(StandardCharsets.UTF_8)) {
            for (String line; begun < BEGINS && (line = said.readLine()) != null; ) {
                begun += line.equals("begin") ? 1 : 0;
            }
        } finally {
            process.destroyForcibly();
        }
        process.waitFor();
        if (begun < BEGINS) {
            fail("the process has ended by itself: " + Files.readString(errors));
        }
    }

    /// Lets a process go on until it ends by itself, and returns what it says of that.
    private String end(Phase phase, Fault fault, List<String> options) throws IOException, InterruptedException {
        Path errors = Files.createTempFile(folder, "killed", ".err");
        Process process = start(phase, fault, options, errors);
        int lines = 0;
        try (BufferedReader said = process.inputReader(StandardCharsets.UTF_8)) {
            while (said.readLine() != null) {
                assertTrue(++lines < LINES, "the fault was not found");
            }
        } finally {
            process.destroyForcibly();
        }
        process.waitFor();
        return Files.readString(errors);
    }

    private Path jarOfNoGuards() throws IOException {
        Path jar = folder.resolve("no-guards.jar");
        Manifest manifest = new Manifest();
        manifest.getMainAttributes().put(Attributes.Name.MANIFEST_VERSION, "1.0");
        manifest.getMainAttributes().putValue("Premain-Class", NoGuards.class.getName());
        manifest.getMainAttributes().putValue("Can-Retransform-Classes", "true");
        try (OutputStream file = Files.newOutputStream(jar);
                JarOutputStream out = new JarOutputStream(file, manifest)) {
            out.finish(); // the class itself is on the class path
        }
        return jar;
    }
}
