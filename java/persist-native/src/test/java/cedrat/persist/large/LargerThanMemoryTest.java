package cedrat.persist.large;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.io.IOException;
import java.lang.ProcessBuilder.Redirect;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/// A graph of more objects than fit into memory is opened and walked.
class LargerThanMemoryTest {
    /// `-Dcedrat.objects=…`: how many. Ten million take 256 MiB, fewer in proportion.
    private static final int OBJECTS = Integer.getInteger("cedrat.objects", 600_000);

    private static final int OBJECTS_OF_A_MEGABYTE = 10_000_000 / 256;
    /// Heap that a virtual machine with the agent needs for itself.
    private static final int MEGABYTES_MIN = 64;
    /// `-Dcedrat.page-bytes=…`: so much of the store's pages is in memory; by default all of it, when it was read once.
    private static final long PAGE_BYTES = Long.getLong("cedrat.page-bytes", Math.max(16 << 20, 128L * OBJECTS));

    @TempDir
    Path folder;

    @Test
    void itIsWalkedTwice() throws IOException, InterruptedException {
        run("build", 2048);
        System.out.print(run("walk", Math.max(MEGABYTES_MIN, OBJECTS / OBJECTS_OF_A_MEGABYTE)));
    }

    private String run(String what, int megabytes) throws IOException, InterruptedException {
        List<String> command = new ArrayList<>();
        command.add(ProcessHandle.current().info().command().orElse("java"));
        command.addAll(List.of("-Xmx" + megabytes + "m", "-Xss16m", "-XX:+UseSerialGC"));
        command.addAll(List.of("-javaagent:" + System.getProperty("cedrat.agent")));
        command.add("--enable-native-access=ALL-UNNAMED");
        command.add("-Dcedrat.library=" + System.getProperty("cedrat.library"));
        command.addAll(List.of("-cp", System.getProperty("java.class.path"), Large.class.getName()));
        command.addAll(List.of(what, folder.resolve("store").toString(), "" + OBJECTS, "" + PAGE_BYTES));
        Process process =
                new ProcessBuilder(command).redirectError(Redirect.INHERIT).start();
        String said = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
        assertEquals(0, process.waitFor(), () -> "with " + megabytes + " MiB");
        return said;
    }
}
