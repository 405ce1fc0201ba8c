package cedrat.oracle.server;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;

/// The shell script that starts the command cedrat-oracle.
class LauncherTest {
    private static final Path JDKS = Path.of("/usr/lib/jvm");

    private static String complaint(String javaHome) throws Exception {
        ProcessBuilder command = new ProcessBuilder("/bin/sh", "cedrat-oracle", "--help").redirectErrorStream(true);
        command.environment().put("JAVA_HOME", javaHome);
        Process process = command.start();
        String said = new String(process.getInputStream().readAllBytes());
        assertEquals(1, process.waitFor(), said);
        return said;
    }

    /// With the JDK that HBase runs on.
    @Test
    void oldJdkIsRefusedByVersion() throws Exception {
        Path old;
        try (Stream<Path> all = Files.list(JDKS)) {
            old = all.filter(each -> each.getFileName().toString().startsWith("java-17-openjdk-"))
                    .findFirst()
                    .orElseThrow(() -> new AssertionError("there is no JDK 17 in " + JDKS + ": ./x test installs it"));
        }
        assertEquals(
                "cedrat-oracle needs a JDK of version 25 or later, and JAVA_HOME (" + old
                        + ") has version 17: name a later one in JAVA_HOME",
                complaint(old.toString()).strip());
    }

    @Test
    void missingJdkIsRefused() throws Exception {
        String said = complaint("/nowhere");
        assertTrue(said.contains("needs a JDK of version 25 or later, and there is no /nowhere/bin/java"), said);
    }
}
