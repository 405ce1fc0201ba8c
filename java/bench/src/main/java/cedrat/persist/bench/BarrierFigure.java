package cedrat.persist.bench;

import cedrat.bench.figures.Figures;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.OptionalDouble;
import java.util.TreeMap;
import java.util.concurrent.Callable;
import org.openjdk.jmh.results.RunResult;
import org.openjdk.jmh.runner.Runner;
import org.openjdk.jmh.runner.RunnerException;
import org.openjdk.jmh.runner.options.OptionsBuilder;
import org.openjdk.jmh.runner.options.TimeValue;
import org.openjdk.jmh.runner.options.VerboseMode;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;

/// Cost of barriers while no transaction lives (Transactions for Java, §5): [Kernels] in a virtual machine
/// with the agent and in one without, alternating.
@Command(name = "barrier", description = "Short loops of stores, with barriers and without.")
final class BarrierFigure implements Callable<Integer> {
    private static final int TURNS = 5;
    private static final double MEAN_MAX = 1.10;
    private static final double WORST_MAX = 1.50;

    @Mixin
    private FigureOptions options;

    @Override
    public Integer call() throws RunnerException {
        Map<String, List<Double>> plain = new TreeMap<>();
        Map<String, List<Double>> woven = new TreeMap<>();
        for (int turn = 0; turn < (options.quick ? 1 : TURNS); turn++) {
            options.progress("barrier: turn " + (turn + 1));
            run(plain, List.of());
            run(woven, List.of(options.agentWith("exclude=org.openjdk.jmh")));
        }
        Figures figures = new Figures("barrier", options.json);
        double product = 1;
        double worst = 0;
        for (String kernel : plain.keySet()) {
            double without = Medians.of(plain.get(kernel));
            double with = Medians.of(woven.get(kernel));
            figures.add("cedrat", params(kernel, false), "ns_per_store", without, "ns");
            figures.add("cedrat", params(kernel, true), "ns_per_store", with, "ns");
            figures.add("cedrat", params(kernel, true), "of_plain", with / without, "ratio");
            product *= with / without;
            worst = Math.max(worst, with / without);
        }
        double mean = Math.pow(product, 1.0 / plain.size());
        if (options.hasUnlockedReads()) {
            figures.add("cedrat", params("the geometric mean of all kernels", true), "of_plain", mean, "ratio");
            return 0;
        }
        figures.atMost("woven / plain, the geometric mean of all kernels", OptionalDouble.of(mean), MEAN_MAX);
        figures.atMost("woven / plain, the worst kernel", OptionalDouble.of(worst), WORST_MAX);
        figures.printGoals();
        return 0;
    }

    private Map<String, Object> params(String kernel, boolean isWoven) {
        Map<String, Object> params = new LinkedHashMap<>();
        params.put("kernel", kernel);
        params.put("woven", isWoven);
        if (isWoven) {
            options.describe(params);
        }
        return params;
    }

    /// One virtual machine for each kernel.
    private void run(Map<String, List<Double>> results, List<String> agent) throws RunnerException {
        TimeValue time = TimeValue.milliseconds(options.quick ? 100 : 500);
        List<String> arguments = new ArrayList<>(
                List.of("-Xms1g", "-Xmx1g", "-XX:+UseG1GC", "-Xshare:off", "--sun-misc-unsafe-memory-access=allow"));
        arguments.addAll(agent);
        var settings = new OptionsBuilder()
                .include(Kernels.class.getName() + "\\." + options.only.getOrDefault("kernel", ".*") + "$")
                .forks(1)
                .warmupIterations(4)
                .warmupTime(time)
                .measurementIterations(5)
                .measurementTime(time)
                .shouldFailOnError(true)
                .verbosity(VerboseMode.SILENT)
                .jvmArgs(arguments.toArray(String[]::new))
                .build();
        for (RunResult result : new Runner(settings).run()) {
            String name = result.getParams().getBenchmark();
            results.computeIfAbsent(name.substring(name.lastIndexOf('.') + 1), first -> new ArrayList<>())
                    .add(result.getPrimaryResult().getScore());
        }
    }
}
