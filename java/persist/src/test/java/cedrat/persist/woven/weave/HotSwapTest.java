package cedrat.persist.woven.weave;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.io.File;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.jar.Attributes;
import java.util.jar.JarOutputStream;
import java.util.jar.Manifest;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/// Classes that a debugger, or another agent, redefines while their objects are in use (HotSwap).
class HotSwapTest {
    private static final String AGENT = System.getProperty("cedrat.agent");
    private static final Path CLASSES = Path.of("target", "test-classes").toAbsolutePath();

    @TempDir
    Path folder;

    /// Runs versions of a method of a persistent object.
    ///
    /// @param isBuilt whether a build has woven the first version
    private String shown(boolean isBuilt, String... versions) throws Exception {
        Manifest manifest = new Manifest();
        Attributes attributes = manifest.getMainAttributes();
        attributes.put(Attributes.Name.MANIFEST_VERSION, "1.0");
        attributes.putValue("Premain-Class", HotSwapped.class.getName());
        attributes.putValue("Can-Redefine-Classes", "true");
        Path jar = folder.resolve("redefining.jar");
        try (OutputStream out = Files.newOutputStream(jar)) {
            new JarOutputStream(out, manifest).close();
        }
        List<String> line = new ArrayList<>(List.of(
                Path.of(System.getProperty("java.home"), "bin", "java").toString(),
                "-javaagent:" + AGENT,
                "-javaagent:" + jar,
                "-Dbuilt=" + isBuilt,
                "-cp",
                CLASSES + File.pathSeparator + AGENT,
                HotSwapped.class.getName(),
                folder.toString()));
        line.addAll(List.of(versions));
        Process process = new ProcessBuilder(line).redirectErrorStream(true).start();
        String said = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
        assertEquals(0, process.waitFor(), said);
        return String.join(
                "\n", said.lines().filter(text -> text.startsWith("version")).toList());
    }

    /// J1.
    @ParameterizedTest
    @ValueSource(booleans = {false, true})
    void editedMethodReadsOtherFields(boolean isBuilt) throws Exception {
        String[] versions = {"customer", "customer + \" \" + item + \" \" + count", "note", "maker + count + customer"};
        assertEquals("""
                version 1: Anna
                version 2: Anna pens 3
                version 3: urgent
                version 4: Bic3Anna""", shown(isBuilt, versions));
    }
}
