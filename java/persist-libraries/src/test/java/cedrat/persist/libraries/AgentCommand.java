package cedrat.persist.libraries;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;

/// The command of a Java program with the agent.
final class AgentCommand {
    private AgentCommand() {}

    /// Returns the command of a program of this class path.
    static List<String> of(String classPath, String... arguments) {
        List<String> command = new ArrayList<>();
        command.add(ProcessHandle.current().info().command().orElse("java"));
        command.addAll(List.of("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto"));
        command.add("-javaagent:" + System.getProperty("cedrat.agent"));
        command.add("-Dcedrat.library=" + System.getProperty("cedrat.library"));
        command.add("--enable-native-access=ALL-UNNAMED");
        command.addAll(List.of("-cp", classPath));
        command.addAll(List.of(arguments));
        return command;
    }

    /// Runs such a program, and returns the last line that it prints.
    static String lastLine(String classPath, String... arguments) throws IOException, InterruptedException {
        Process process = new ProcessBuilder(of(classPath, arguments))
                .redirectErrorStream(true)
                .start();
        String said = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
        assertEquals(0, process.waitFor(), said);
        return said.lines().reduce("", (before, line) -> line);
    }
}
