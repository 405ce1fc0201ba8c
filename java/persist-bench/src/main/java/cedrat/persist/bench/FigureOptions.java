package cedrat.persist.bench;

import java.nio.file.Path;
import java.util.HashMap;
import java.util.Map;
import picocli.CommandLine.Option;

/// What all figures are told.
final class FigureOptions {
    @Option(names = "--quick", description = "Short points: to see that all works, not to be quoted.")
    boolean quick;

    @Option(names = "--json", description = "One JSON object a line on the standard output, and nothing else there.")
    boolean json;

    @Option(
            names = "--only",
            paramLabel = "NAME=VALUE",
            description = "Only points with this parameter. May be given more than once.")
    Map<String, String> only = new HashMap<>();

    @Option(names = "--agent", required = true, paramLabel = "JAR", description = "The agent that is measured.")
    Path agent;

    /// Whether reads are woven as `reads=lock` says: `--only reads=lock`. No goal is meant for that.
    boolean locksReads() {
        return "lock".equals(only.get("reads"));
    }

    /// What the virtual machine is told of the agent.
    String agentWith(String argument) {
        return "-javaagent:" + agent + "=" + (locksReads() ? "reads=lock," : "") + argument;
    }

    /// Of the woven program's points.
    void describe(Map<String, Object> params) {
        if (locksReads()) {
            params.put("reads", "lock");
        }
    }

    /// For those who wait.
    void progress(String what) {
        System.err.println(what);
    }
}
