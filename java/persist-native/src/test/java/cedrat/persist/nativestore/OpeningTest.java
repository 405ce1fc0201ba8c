package cedrat.persist.nativestore;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cedrat.persist.Persistence;
import cedrat.persist.PersistenceException;
import cedrat.persist.PersistenceOptions;
import java.io.File;
import java.nio.file.Files;
import java.nio.file.Path;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/// Error messages of a program whose store does not open.
class OpeningTest {
    @TempDir
    Path folder;

    @Test
    void theStoreIsNamedOnce() {
        try (Persistence store = Persistence.open(folder, new PersistenceOptions())) {
            PersistenceException thrown =
                    assertThrows(PersistenceException.class, () -> Persistence.open(folder, new PersistenceOptions()));
            String message = thrown.getMessage();
            String begin = "cannot open the store in " + folder + ": CEDRAT_IN_USE: ";
            assertTrue(message.startsWith(begin), message);
            assertFalse(message.substring(begin.length()).contains("open:"), message);
            assertFalse(store.restarted());
        }
    }

    /// Opens a store.
    static final class Program {
        private Program() {}

        public static void main(String[] arguments) {
            try {
                Persistence.open(Path.of(arguments[0]), new PersistenceOptions())
                        .close();
                System.out.println("opened");
            } catch (PersistenceException e) {
                System.out.println("refused: " + e.getMessage());
            }
        }
    }

    @Test
    void aJarThatIsMissingIsNamed() throws Exception {
        String classes = Path.of("target", "classes").toAbsolutePath()
                + File.pathSeparator
                + Path.of("target", "test-classes").toAbsolutePath();
        Path said = folder.resolve("said");
        Process process = new ProcessBuilder(
                        Path.of(System.getProperty("java.home"), "bin", "java").toString(),
                        "-javaagent:" + System.getProperty("cedrat.agent"),
                        "-cp",
                        classes,
                        Program.class.getName(),
                        folder.resolve("store").toString())
                .redirectErrorStream(true)
                .redirectOutput(said.toFile())
                .start();
        int status = process.waitFor();
        String text = Files.readString(said);
        assertTrue(text.contains("refused: cannot open the store in "), text);
        assertTrue(text.contains("add libcedrat"), text);
        assertEquals(0, status, text);
    }
}
