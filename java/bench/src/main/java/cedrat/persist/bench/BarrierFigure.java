package cedrat.persist.bench;

import cedrat.bench.figures.Figures;
import cedrat.persist.bench.Kernels.Setting;
import java.util.ArrayList;
import java.util.EnumMap;
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

/// Cost of barriers in code outside of transactions (Transactions for Java, §5): [Kernels] in a virtual machine without
/// the agent, and in ones with it: alone, beside an open store, and beside a transaction of another thread.
@Command(name = "barrier", description = "Short loops of stores and reads, with barriers and without.")
final class BarrierFigure implements Callable<Integer> {
    private static final int TURNS = 3;

    @Mixin
    private FigureOptions options;

    @Override
    public Integer call() throws RunnerException {
        Map<String, List<Double>> plain = new TreeMap<>();
        Map<Setting, Map<String, List<Double>>> woven = new EnumMap<>(Setting.class);
        for (int turn = 0; turn < (options.quick ? 1 : TURNS); turn++) {
            options.progress("barrier: turn " + (turn + 1));
            run(plain, Setting.NONE, List.of());
            for (Setting setting : Setting.values()) {
                List<String> agent = new ArrayList<>(List.of(options.agentWith("exclude=org.openjdk.jmh")));
                if (options.hasUnlockedReads()) {
                    agent.add("-D" + Kernels.UNLOCKED + "=true");
                }
                run(woven.computeIfAbsent(setting, first -> new TreeMap<>()), setting, agent);
            }
        }
        Figures figures = new Figures("barrier", options.json);
        for (String kernel : plain.keySet()) {
            figures.add("cedrat", params(kernel, null), "ns_each", Medians.of(plain.get(kernel)), "ns");
        }
        woven.forEach((setting, results) -> compare(figures, plain, setting, results));
        figures.printGoals();
        return 0;
    }

    private void compare(
            Figures figures, Map<String, List<Double>> plain, Setting setting, Map<String, List<Double>> woven) {
        double product = 1;
        double worst = 0;
        for (String kernel : plain.keySet()) {
            double with = Medians.of(woven.get(kernel));
            double ratio = with / Medians.of(plain.get(kernel));
            figures.add("cedrat", params(kernel, setting), "ns_each", with, "ns");
            figures.add("cedrat", params(kernel, setting), "of_plain", ratio, "ratio");
            product *= ratio;
            worst = Math.max(worst, ratio);
        }
        double mean = Math.pow(product, 1.0 / plain.size());
        if (options.hasUnlockedReads()) {
            figures.add("cedrat", params("geometric mean", setting), "of_plain", mean, "ratio");
            return;
        }
        String ratio = "woven / plain, " + setting.words + ": ";
        figures.atMost(ratio + "geometric mean", OptionalDouble.of(mean), setting.meanMax);
        figures.atMost(ratio + "worst", OptionalDouble.of(worst), setting.worstMax);
    }

    /// @param setting null without the agent
    private Map<String, Object> params(String kernel, Setting setting) {
        Map<String, Object> params = new LinkedHashMap<>();
        params.put("kernel", kernel);
        params.put("woven", setting != null);
        if (setting != null) {
            params.put("setting", setting.words);
            options.describe(params);
        }
        return params;
    }

    /// One virtual machine for each kernel.
    private void run(Map<String, List<Double>> results, Setting setting, List<String> agent) throws RunnerException {
        TimeValue time = TimeValue.milliseconds(options.quick ? 100 : 500);
        List<String> arguments = new ArrayList<>(
                List.of("-Xms1g", "-Xmx1g", "-XX:+UseG1GC", "-Xshare:off", "--sun-misc-unsafe-memory-access=allow"));
        arguments.addAll(agent);
        var settings = new OptionsBuilder()
                .include(Kernels.class.getName() + "\\." + options.only.getOrDefault("kernel", ".*") + "$")
                .param("setting", setting.name())
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
