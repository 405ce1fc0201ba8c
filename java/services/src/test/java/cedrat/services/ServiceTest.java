package cedrat.services;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/// With this class as the service.
@Timeout(300)
class ServiceTest {
    private static final int FAILED = 7;

    @TempDir
    private Path folder;

    /// Prints that it is there, and its arguments.
    public static void main(String[] arguments) throws InterruptedException {
        System.out.println("here " + String.join(" ", arguments));
        if (arguments[0].equals("stay")) {
            Thread.currentThread().join();
        }
        System.exit(Integer.parseInt(arguments[0]));
    }

    private Command command(String... arguments) throws Exception {
        Path classes = Path.of(ServiceTest.class
                .getProtectionDomain()
                .getCodeSource()
                .getLocation()
                .toURI());
        return Command.of(
                "a test",
                folder.resolve("own"),
                List.of("-Xmx32m", "-XX:+UseSerialGC"),
                classes.toString(),
                ServiceTest.class.getName(),
                List.of(arguments));
    }

    private static boolean said(Service service, String text) throws IOException {
        return Files.readString(service.log()).contains(text);
    }

    private static char state(Service service) throws IOException {
        String stat = Files.readString(Path.of("/proc/" + service.pid() + "/stat"));
        return stat.charAt(stat.lastIndexOf(')') + 2);
    }

    @Test
    void itRunsUntilItIsKilled() throws Exception {
        try (Service service = command("stay", "please").start()) {
            service.awaitReady(() -> said(service, "here stay please"));
            assertTrue(service.isAlive());
            service.pause();
            service.awaitReady(() -> state(service) == 'T');
            service.resume();
            service.awaitReady(() -> state(service) != 'T');
            service.pause();
            service.kill();
            assertFalse(service.isAlive());
        }
    }

    @Test
    void fullDiskLimitsFiles() throws Exception {
        try (Service service = command("stay").start()) {
            service.fillDisk();
            String limits = Files.readString(Path.of("/proc/" + service.pid() + "/limits"));
            assertTrue(limits.matches("(?s).*Max file size +1 .*"), limits);
        }
    }

    @Test
    void stopEndsService() throws Exception {
        try (Service service = command("stay").start()) {
            service.awaitReady(() -> said(service, "here"));
            service.stop();
            assertEquals(128 + 15, service.awaitEnd(), "it has ended by the signal");
        }
    }

    /// A wait for a service that has failed ends with the cause.
    @Test
    void failedServiceErrorIncludesItsOutput() throws Exception {
        try (Service service = command("" + FAILED).start()) {
            IOException problem = assertThrows(IOException.class, () -> service.awaitReady(() -> false));
            assertTrue(problem.getMessage().contains("exit code " + FAILED), problem.getMessage());
            assertTrue(problem.getMessage().contains("here " + FAILED), problem.getMessage());
        }
        assertThrows(IOException.class, () -> command("" + FAILED).run());
        command("0").run();
    }
}
