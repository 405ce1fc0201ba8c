package cedrat.maven;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cedrat.persist.Transaction;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.jar.Attributes;
import java.util.jar.JarOutputStream;
import java.util.jar.Manifest;
import java.util.zip.CRC32;
import java.util.zip.ZipEntry;
import java.util.zip.ZipFile;
import java.util.zip.ZipOutputStream;
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
        return run("-jar", jar.toString());
    }

    private static String run(String... arguments) throws IOException, InterruptedException {
        List<String> line = new ArrayList<>();
        line.add(ProcessHandle.current().info().command().orElse("java"));
        line.add("-XX:TieredStopAtLevel=1");
        line.addAll(List.of(arguments));
        Process process = new ProcessBuilder(line).redirectErrorStream(true).start();
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

    /// Adds an entry to the jar of a program, at its end.
    private Path jarWith(ZipEntry added) throws IOException {
        Path jar = jar("Main-Class", Program.class.getName());
        Path with = folder.resolve("with.jar");
        try (ZipFile in = new ZipFile(jar.toFile());
                OutputStream file = Files.newOutputStream(with);
                ZipOutputStream out = new ZipOutputStream(file)) {
            for (ZipEntry entry : Collections.list(in.entries())) {
                out.putNextEntry(new ZipEntry(entry.getName()));
                in.getInputStream(entry).transferTo(out);
            }
            out.putNextEntry(added);
        }
        return Files.move(with, jar, StandardCopyOption.REPLACE_EXISTING);
    }

    /// Its signature would not fit any more.
    @Test
    void signedJarIsRefused() throws IOException {
        jarWith(new ZipEntry("META-INF/ACME.SF"));
        assertRefused("it is signed: sign it after this goal");
    }

    /// Spring Boot unpacks such entries.
    @Test
    void commentsOfEntriesAreKept() throws IOException {
        ZipEntry unpacked = new ZipEntry("lib/unpacked.jar");
        unpacked.setComment("UNPACK:1234");
        Path jar = jarWith(unpacked);
        new ExecutableJar(jar).addAgent(null);
        try (ZipFile changed = new ZipFile(jar.toFile())) {
            assertEquals("UNPACK:1234", changed.getEntry("lib/unpacked.jar").getComment());
        }
    }

    /// The script would be lost.
    @Test
    void jarBehindScriptIsRefused() throws IOException {
        Path jar = jar("Main-Class", Program.class.getName());
        byte[] content = Files.readAllBytes(jar);
        Files.writeString(jar, "#!/bin/sh\nexec java -jar \"$0\"\n");
        Files.write(jar, content, StandardOpenOption.APPEND);
        assertRefused("a script stands before its entries");
    }

    @Test
    void agentBesideThatOfJarIsRefused() throws Exception {
        String agentClass = "cedrat.persist.weave.Agent";
        Path jar = jar("Main-Class", Program.class.getName(), "Premain-Class", agentClass);
        new ExecutableJar(jar).addAgent(null);
        Path agent = Files.copy(jar, folder.resolve("agent.jar"));
        String said = run("-javaagent:" + agent, "-jar", jar.toString());
        assertTrue(said.contains("the agent is loaded already"), said);
        assertFalse(said.contains("count"), said);
    }

    private void assertRefused(String reason) {
        ExecutableJar jar = new ExecutableJar(folder.resolve("program.jar"));
        var refused = assertThrows(IllegalArgumentException.class, () -> jar.addAgent(null));
        assertTrue(refused.getMessage().contains(reason), refused.getMessage());
    }
}
