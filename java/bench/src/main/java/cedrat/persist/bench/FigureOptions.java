package cedrat.persist.bench;

import java.nio.file.Path;
import java.util.HashMap;
import java.util.Map;
import picocli.CommandLine.Option;

/// Options of all figures.
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

    /// Returns whether the agent omits the barriers of read locks: `--only reads=unlocked`. No goal applies then.
    boolean hasUnlockedReads() {
        return "unlocked".equals(only.get("reads"));
    }

    /// Returns the virtual machine's option for the agent.
    String agentWith(String argument) {
        return "-javaagent:" + agent + "=" + (hasUnlockedReads() ? "reads=unlocked," : "") + argument;
    }

    /// Describes the options of the woven program's points.
    void describe(Map<String, Object> params) {
        if (hasUnlockedReads()) {
            params.put("reads", "unlocked");
        }
    }

    /// Prints progress to stderr.
    void progress(String what) {
        System.err.println(what);
    }
}
