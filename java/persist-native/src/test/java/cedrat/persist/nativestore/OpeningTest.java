package cedrat.persist.nativestore;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cedrat.persist.Store;
import cedrat.persist.StoreException;
import cedrat.persist.StoreOptions;
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
        try (Store store = Store.open(folder, new StoreOptions())) {
            StoreException thrown = assertThrows(StoreException.class, () -> Store.open(folder, new StoreOptions()));
            String message = thrown.getMessage();
            String begin = "cannot open the store in " + folder + ": CEDRAT_IN_USE: ";
            assertTrue(message.startsWith(begin), message);
            assertFalse(message.substring(begin.length()).contains("open:"), message);
            assertTrue(store.isNew());
        }
    }

    /// Opens a store.
    static final class Program {
        private Program() {}

        public static void main(String[] arguments) {
            try {
                Store.open(Path.of(arguments[0]), new StoreOptions()).close();
                System.out.println("opened");
            } catch (StoreException e) {
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
