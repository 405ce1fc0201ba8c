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

/// Cost of barriers in javac's own classes when it compiles a library, and no transaction lives
/// (Transactions for Java, §5): virtual machines with and without the agent, alternating.
@Command(name = "javac", description = "javac compiles a library, with barriers in its classes and without.")
final class JavacFigure implements Callable<Integer> {
    private static final int TURNS = 5;
    private static final int COMPILATIONS = 24;
    /// Spans of a machine's compilations: the first one, which also weaves; the warm-up, in which much is still
    /// compiled, and more with barriers; and the last ones, in the steady state.
    private static final List<Span> SPANS = List.of(new Span(1, 1), new Span(7, 12), new Span(17, COMPILATIONS));
    private static final double WARM_MAX = 1.05;

    @Mixin
    private FigureOptions options;

    @Option(names = "--sources", required = true, paramLabel = "JAR", description = "The sources of the library.")
    private String sources;

    /// Compilations of one machine, counted from one.
    private record Span(int first, int last) {
        double medianOf(List<Double> all) {
            int end = Math.min(last, all.size());
            return Medians.of(all.subList(Math.min(first - 1, end - 1), end));
        }

        @Override
        public String toString() {
            return first == last ? "" + first : first + "-" + last;
        }
    }

    @Override
    public Integer call() throws IOException, InterruptedException {
        List<List<Double>> plain = new ArrayList<>();
        List<List<Double>> woven = new ArrayList<>();
        for (int turn = 0; turn < (options.quick ? 1 : TURNS); turn++) {
            options.progress("javac: turn " + (turn + 1));
            plain.add(run(List.of()));
            woven.add(run(List.of(options.agentWith("include=com.sun.tools.javac"))));
        }
        Figures figures = new Figures("javac", options.json);
        double warm = 0;
        for (Span span : SPANS) {
            warm = add(figures, span, plain, woven);
        }
        if (!options.hasUnlockedReads()) {
            figures.atMost("woven / plain, warm", OptionalDouble.of(warm), WARM_MAX);
            figures.printGoals();
        }
        return 0;
    }

    private double add(Figures figures, Span span, List<List<Double>> plain, List<List<Double>> woven) {
        double without = median(span, plain);
        double with = median(span, woven);
        figures.add("cedrat", params(span, false), "ms_per_compile", without, "ms");
        figures.add("cedrat", params(span, true), "ms_per_compile", with, "ms");
        figures.add("cedrat", params(span, true), "of_plain", with / without, "ratio");
        return with / without;
    }

    /// The median machine's.
    private static double median(Span span, List<List<Double>> machines) {
        return Medians.of(machines.stream().map(span::medianOf).toList());
    }

    private Map<String, Object> params(Span span, boolean isWoven) {
        Map<String, Object> params = new LinkedHashMap<>();
        params.put("compilations", span);
        params.put("woven", isWoven);
        if (isWoven) {
            options.describe(params);
        }
        return params;
    }

    private List<Double> run(List<String> agent) throws IOException, InterruptedException {
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
        return all;
    }
}
