package cedrat.persist.bench;

import cedrat.bench.figures.Figures;
import java.io.BufferedReader;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.OptionalDouble;
import java.util.concurrent.Callable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Option;

/// What barriers in javac's own classes cost when it compiles a library, and no transaction lives
/// (Transactions for Java, §5): virtual machines with and without the agent, by turns.
@Command(name = "javac", description = "javac compiles a library, with barriers in its classes and without.")
final class JavacFigure implements Callable<Integer> {
    private static final int TURNS = 5;
    private static final int COMPILATIONS = 12;
    /// So many of them, the last ones, are warm.
    private static final int WARM = 6;
    private static final double WARM_MAX = 1.05;

    @Mixin
    private FigureOptions options;

    @Option(names = "--sources", required = true, paramLabel = "JAR", description = "The sources of the library.")
    private String sources;

    /// Of each turn the first compilation, which also weaves, and the median of the last ones.
    private static final class Times {
        final List<Double> cold = new ArrayList<>();
        final List<Double> warm = new ArrayList<>();
    }

    @Override
    public Integer call() throws IOException, InterruptedException {
        Times plain = new Times();
        Times woven = new Times();
        for (int turn = 0; turn < (options.quick ? 1 : TURNS); turn++) {
            options.progress("javac: turn " + (turn + 1));
            run(plain, List.of());
            run(woven, List.of(options.agentWith("include=com.sun.tools.javac")));
        }
        Figures figures = new Figures("javac", options.json);
        double warm = add(figures, true, plain.warm, woven.warm);
        add(figures, false, plain.cold, woven.cold);
        if (!options.locksReads()) {
            figures.atMost("woven / plain, warm", OptionalDouble.of(warm), WARM_MAX);
            figures.printGoals();
        }
        return 0;
    }

    private double add(Figures figures, boolean isWarm, List<Double> plain, List<Double> woven) {
        double without = Medians.of(plain);
        double with = Medians.of(woven);
        figures.add("cedrat", params(isWarm, false), "ms_per_compile", without, "ms");
        figures.add("cedrat", params(isWarm, true), "ms_per_compile", with, "ms");
        figures.add("cedrat", params(isWarm, true), "of_plain", with / without, "ratio");
        return with / without;
    }

    private Map<String, Object> params(boolean isWarm, boolean isWoven) {
        Map<String, Object> params = new LinkedHashMap<>();
        params.put("warm", isWarm);
        params.put("woven", isWoven);
        if (isWoven) {
            options.describe(params);
        }
        return params;
    }

    private void run(Times times, List<String> agent) throws IOException, InterruptedException {
        List<String> command = new ArrayList<>(List.of(
                ProcessHandle.current().info().command().orElse("java"),
                "-Xms2g",
                "-Xmx2g",
                "-XX:+UseG1GC",
                "-Xshare:auto"));
        command.addAll(agent);
        command.addAll(List.of(
                "-cp",
                System.getProperty("java.class.path"),
                Compilations.class.getName(),
                sources,
                "" + (options.quick ? 2 : COMPILATIONS)));
        Process process = new ProcessBuilder(command)
                .redirectError(ProcessBuilder.Redirect.INHERIT)
                .start();
        List<Double> all = new ArrayList<>();
        try (BufferedReader said = process.inputReader(StandardCharsets.UTF_8)) {
            said.lines().forEach(line -> all.add(Double.parseDouble(line)));
        }
        int code = process.waitFor();
        if (code != 0) {
            throw new IOException(String.join(" ", command) + " has ended with exit code " + code);
        }
        times.cold.add(all.getFirst());
        times.warm.add(Medians.of(all.subList(Math.max(1, all.size() - WARM), all.size())));
    }
}
