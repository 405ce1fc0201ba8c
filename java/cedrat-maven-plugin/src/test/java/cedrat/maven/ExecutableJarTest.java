package cedrat.maven;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cedrat.persist.Transaction;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.jar.Attributes;
import java.util.jar.JarOutputStream;
import java.util.jar.Manifest;
import java.util.zip.CRC32;
import java.util.zip.ZipEntry;
import java.util.zip.ZipFile;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/// Executable jars with the agent.
class ExecutableJarTest {
    private static final byte[] INNER = {'P', 'K', 1, 2, 3};

    @TempDir
    Path folder;

    /// A program that rolls back.
    static final class Program {
        private static int count;

        private Program() {}

        public static void main(String[] arguments) {
            List<String> list = new ArrayList<>();
            try (var transaction = Transaction.begin()) {
                count++;
                list.add("lost");
                transaction.rollback();
            }
            System.out.println("count " + count + ", list " + list);
        }
    }

    /// Makes a jar with the program and a stored entry.
    ///
    /// @param attributes of its manifest, each followed by its value
    private Path jar(String... attributes) throws IOException {
        Manifest manifest = new Manifest();
        manifest.getMainAttributes().put(Attributes.Name.MANIFEST_VERSION, "1.0");
        for (int i = 0; i < attributes.length; i += 2) {
            manifest.getMainAttributes().putValue(attributes[i], attributes[i + 1]);
        }
        Path path = folder.resolve("program.jar");
        String name = Program.class.getName().replace('.', '/') + ".class";
        try (OutputStream file = Files.newOutputStream(path);
                JarOutputStream out = new JarOutputStream(file, manifest);
                InputStream in = Program.class.getResourceAsStream("/" + name)) {
            out.putNextEntry(new ZipEntry(name));
            in.transferTo(out);
            ZipEntry stored = new ZipEntry("lib/inner.jar");
            CRC32 checksum = new CRC32();
            checksum.update(INNER);
            stored.setMethod(ZipEntry.STORED);
            stored.setSize(INNER.length);
            stored.setCrc(checksum.getValue());
            out.putNextEntry(stored);
            out.write(INNER);
        }
        return path;
    }

    private static String run(Path jar) throws IOException, InterruptedException {
        Process process = new ProcessBuilder(
                        ProcessHandle.current().info().command().orElse("java"),
                        "-XX:TieredStopAtLevel=1",
                        "-jar",
                        jar.toString())
                .redirectErrorStream(true)
                .start();
        String said = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
        process.waitFor();
        return said;
    }

    @Test
    void jarStartsAgentItself() throws Exception {
        Path jar = jar("Main-Class", Program.class.getName());
        new ExecutableJar(jar).addAgent(null);
        assertTrue(run(jar).contains("count 0, list []"), run(jar));
    }

    @Test
    void agentTakesArgumentsOfJar() throws Exception {
        Path jar = jar("Main-Class", Program.class.getName());
        new ExecutableJar(jar).addAgent("exclude=cedrat.maven");
        assertTrue(run(jar).contains("the calling class has no write barriers"), run(jar));
        // The arguments are replaced.
        new ExecutableJar(jar).addAgent("reads=unlocked");
        assertTrue(run(jar).contains("count 0, list []"), run(jar));
    }

    /// Spring Boot reads such jars in place.
    @Test
    void storedEntriesStayStored() throws IOException {
        Path jar = jar("Main-Class", Program.class.getName());
        new ExecutableJar(jar).addAgent(null);
        try (ZipFile changed = new ZipFile(jar.toFile())) {
            ZipEntry inner = changed.getEntry("lib/inner.jar");
            assertEquals(ZipEntry.STORED, inner.getMethod());
            assertArrayEquals(INNER, changed.getInputStream(inner).readAllBytes());
        }
    }

    @Test
    void otherJarsAreRefused() throws IOException {
        byte[] library = Files.readAllBytes(jar("Automatic-Module-Name", "library"));
        assertRefused("no Main-Class");
        assertArrayEquals(library, Files.readAllBytes(folder.resolve("program.jar")));
        jar("Main-Class", Program.class.getName(), "Launcher-Agent-Class", "org.example.Agent");
        assertRefused("another agent, org.example.Agent");
    }

    private void assertRefused(String reason) {
        ExecutableJar jar = new ExecutableJar(folder.resolve("program.jar"));
        var refused = assertThrows(IllegalArgumentException.class, () -> jar.addAgent(null));
        assertTrue(refused.getMessage().contains(reason), refused.getMessage());
    }
}
