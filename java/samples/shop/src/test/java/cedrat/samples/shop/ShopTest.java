package cedrat.samples.shop;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class ShopTest {
    @TempDir
    Path folder;

    /// The program, started as its page says.
    @Test
    void crashDuringSaleUndoesOnlyThatSale() throws IOException, InterruptedException {
        assertEquals("""
                so far 0 cents earned, of []
                four tables: refused
                crash, with 45690 cents in memory
                """, run(3, "crash"));
        assertEquals("""
                so far 20790 cents earned, of [Ada]
                four tables: refused
                now 66480 cents earned, of [Ada, Grace]
                """, run(0));
        assertEquals(
                "so far 66480 cents earned, of [Ada, Grace]",
                run(0).lines().findFirst().orElseThrow());
    }

    private String run(int status, String... more) throws IOException, InterruptedException {
        List<String> command = new ArrayList<>();
        command.add(Path.of(System.getProperty("java.home"), "bin", "java").toString());
        command.add("-javaagent:" + System.getProperty("cedrat.agent"));
        command.add("--enable-native-access=ALL-UNNAMED");
        command.add("-Dcedrat.library=" + System.getProperty("cedrat.library"));
        command.addAll(List.of("-cp", System.getProperty("java.class.path"), "cedrat.samples.shop.Main"));
        command.add(folder.resolve("shop").toString());
        command.addAll(List.of(more));
        Process process = new ProcessBuilder(command)
                .redirectError(ProcessBuilder.Redirect.INHERIT)
                .start();
        String said = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
        assertEquals(status, process.waitFor());
        return said;
    }
}
