package cedrat.persist.libraries;

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
}
