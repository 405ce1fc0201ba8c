package cedrat.oracle.bench;

import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import picocli.CommandLine.Option;

/// Options of a benchmark that measures points: which ones, for how long, and how they are reported.
final class PointOptions {
    /// An older Netty, which Omid uses, would be slowed down by warnings.
    static final String UNSAFE = "--sun-misc-unsafe-memory-access=allow";

    /// Omid's conflict map takes 1.6 GB, of which a collector that marks in the background would never let go.
    static final List<String> OMID_JVM = List.of("-XX:+UseParallelGC", "-Xms4g", "-Xmx4g", UNSAFE);

    /// The map of rows, and half as much for all else.
    private static final List<String> HEAP = List.of("-Xms768m", "-Xmx768m");

    @Option(names = "--quick", description = "Short points: to see that all works, not to be quoted.")
    boolean quick;

    @Option(names = "--json", description = "One JSON object a line on the standard output, and nothing else there.")
    boolean json;

    @Option(
            names = "--only",
            paramLabel = "NAME=VALUE",
            description = "Only points with this parameter, or `system=NAME`. May be given more than once.")
    private Map<String, String> only = new HashMap<>();

    @Option(names = "--warm-up", paramLabel = "S", description = "Seconds before a point is measured.")
    Integer warmUp;

    @Option(names = "--seconds", paramLabel = "S", description = "Seconds of a point.")
    Integer seconds;

    @Option(
            names = "--server-options",
            paramLabel = "FILE",
            required = true,
            description = "Arguments of the oracle's virtual machine.")
    private Path serverOptions;

    @Option(names = "--library", paramLabel = "FILE", required = true, description = "libcedrat.")
    private Path library;

    @Option(
            names = "--omid",
            paramLabel = "CLASSPATH",
            description = "The class path of Apache Omid; without it, Omid is left out.")
    String omid;

    PointOptions() {}

    /// Whether a point with these parameters is wanted.
    boolean wants(Map<String, Object> all) {
        return only.entrySet().stream()
                .allMatch(param -> !all.containsKey(param.getKey())
                        || all.get(param.getKey()).toString().equals(param.getValue()));
    }

    /// Returns the arguments of the oracle's virtual machine.
    List<String> oracleJvm() {
        List<String> jvm = new ArrayList<>(HEAP);
        jvm.add("@" + serverOptions.toAbsolutePath());
        jvm.add("-Dcedrat.library=" + library);
        return jvm;
    }
}
