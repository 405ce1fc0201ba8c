package cedrat.persist.libraries;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.io.File;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/// J1, J6: a program whose classes Lombok has changed, which keeps their objects in a store.
class LombokTest {
    @TempDir
    Path folder;

    @Test
    void generatedMembersAreStored() throws Exception {
        compile(Path.of("src/test/lombok/Orders.java"));
        String lines =
                "Orders.Order(lines=[Orders.Line(item=pen, count=2), Orders.Line(item=ink, count=3)], state=open)";
        assertEquals("1 " + lines + " true true report 1 1", run("create"));
        assertEquals("2 " + lines + " true true report 1 2", run("open"));
    }

    private void compile(Path file) throws Exception {
        String classPath = System.getProperty("java.class.path");
        Process javac = new ProcessBuilder(
                        Path.of(System.getProperty("java.home"), "bin", "javac").toString(),
                        "-proc:full",
                        "-processorpath",
                        Path.of(lombok.Data.class
                                        .getProtectionDomain()
                                        .getCodeSource()
                                        .getLocation()
                                        .toURI())
                                .toString(),
                        "-cp",
                        classPath,
                        "-d",
                        folder.resolve("classes").toString(),
                        file.toString())
                .redirectErrorStream(true)
                .start();
        String said = new String(javac.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
        assertEquals(0, javac.waitFor(), said);
    }

    private String run(String mode) throws Exception {
        String classPath = folder.resolve("classes") + File.pathSeparator + System.getProperty("java.class.path");
        return AgentCommand.lastLine(
                classPath, "Orders", folder.resolve("store").toString(), mode);
    }
}
