package cedrat.samples.debitcredit;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.BufferedReader;
import java.io.IOException;
import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class DebitCreditTest {
    private static final String FOREVER = "1000000000";

    @TempDir
    Path folder;

    /// The program, started as its page says, and killed.
    @Test
    void bookingsSurviveKillAndBooksAgree() throws Exception {
        List<String> first = run("2", "500").inputReader().lines().toList();
        assertEquals("so far 0 transfers of 0 cents; the books agree", first.getFirst());
        assertTrue(first.getLast().startsWith("now 500 transfers of "), first.getLast());

        Process killed = run("4", FOREVER);
        try (BufferedReader said = killed.inputReader()) {
            assertEquals(first.getLast().replaceFirst("now", "so far"), said.readLine());
            assertEquals("1000 booked", said.readLine());
            assertEquals("2000 booked", said.readLine());
        } finally {
            killed.destroyForcibly().waitFor();
        }

        List<String> last = run("1", "1").inputReader().lines().toList();
        long found = Long.parseLong(last.getFirst().split(" ")[2]);
        assertTrue(found >= 500 + 2000, last.getFirst());
        assertTrue(last.getLast().startsWith("now " + (found + 1) + " transfers of "), last.getLast());
    }

    private Process run(String... more) throws IOException {
        String java = Path.of(System.getProperty("java.home"), "bin", "java").toString();
        return new ProcessBuilder(
                        java,
                        "-javaagent:" + System.getProperty("cedrat.agent"),
                        "--enable-native-access=ALL-UNNAMED",
                        "-Dcedrat.library=" + System.getProperty("cedrat.library"),
                        "-cp",
                        System.getProperty("java.class.path"),
                        "cedrat.samples.debitcredit.Main",
                        folder.resolve("bank").toString(),
                        more[0],
                        more[1])
                .redirectError(ProcessBuilder.Redirect.INHERIT)
                .start();
    }
}
