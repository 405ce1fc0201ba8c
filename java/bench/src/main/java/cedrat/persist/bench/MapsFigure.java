package cedrat.persist.bench;

import cedrat.bench.figures.Figures;
import cedrat.persist.bench.maps.LargeMap;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.OptionalDouble;
import java.util.concurrent.Callable;
import java.util.stream.Stream;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;

/// A large persistent `HashMap`: its first read, its walks, also in a heap that is smaller than the map, and its
/// memory. Each of these is a process.
@Command(name = "maps", description = "A large persistent HashMap: first read, walks, memory.")
final class MapsFigure implements Callable<Integer> {
    private static final int ENTRIES = 2_000_000;
    private static final int QUICK_ENTRIES = 100_000;
    private static final String SYSTEM = "cedrat";
    private static final double FIRST_GET_MS_MAX = 50;
    private static final double WALK_PER_S_MIN = 1e6;

    @Mixin
    private FigureOptions options;

    @Mixin
    private StoreFiles files;

    @Override
    public Integer call() throws IOException, InterruptedException {
        int entries = options.quick ? QUICK_ENTRIES : ENTRIES;
        int heapOfWalk = entries / 8_000;
        Figures figures = new Figures("maps", options.json);
        Path home = files.newHome("maps");
        try {
            run(figures, home, "fill", entries, 4096);
            run(figures, home, "get", entries, 4096);
            run(figures, home, "walk", entries, 4096);
            run(figures, home, "walk", entries, Math.max(48, heapOfWalk));
        } finally {
            delete(home);
        }
        figures.atMost("first get, ms", best(figures, "first_get_ms", entries), FIRST_GET_MS_MAX);
        figures.atLeast("second walk, entries/s", best(figures, "walk_2_per_s", entries), WALK_PER_S_MIN);
        figures.printGoals();
        return 0;
    }

    private static Map<String, Object> params(int entries, int heap) {
        return Map.of("entries", entries, "heap_mb", heap);
    }

    private static OptionalDouble best(Figures figures, String metric, int entries) {
        return figures.best(SYSTEM, metric, params(entries, 4096));
    }

    private void run(Figures figures, Path home, String what, int entries, int heap)
            throws IOException, InterruptedException {
        options.progress("maps: " + what + ", " + entries + " entries, heap of " + heap + " MiB");
        List<String> command = new ArrayList<>();
        command.add(ProcessHandle.current().info().command().orElse("java"));
        command.addAll(List.of("-Xmx" + heap + "m", "-XX:+UseParallelGC", "--enable-native-access=ALL-UNNAMED"));
        command.addAll(List.of("--sun-misc-unsafe-memory-access=allow", "-javaagent:" + options.agent));
        command.addAll(List.of("-Dcedrat.library=" + files.library, "-cp", System.getProperty("java.class.path")));
        command.addAll(List.of(LargeMap.class.getName(), home.resolve("store").toString(), what, "" + entries));
        Process process = new ProcessBuilder(command)
                .redirectError(ProcessBuilder.Redirect.INHERIT)
                .start();
        String said = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
        if (process.waitFor() != 0) {
            throw new IOException(String.join(" ", command) + " has failed");
        }
        for (String line : said.lines().toList()) {
            String[] words = line.split(" ");
            figures.add(SYSTEM, params(entries, heap), words[0], Double.parseDouble(words[1]), "");
        }
    }

    private static void delete(Path tree) throws IOException {
        try (Stream<Path> files = Files.walk(tree)) {
            for (Path file : files.sorted(java.util.Comparator.reverseOrder()).toList()) {
                Files.delete(file);
            }
        }
    }
}
