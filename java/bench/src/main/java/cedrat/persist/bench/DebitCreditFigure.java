package cedrat.persist.bench;

import cedrat.bench.figures.Figures;
import cedrat.persist.bench.bank.Run;
import java.io.File;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.FileVisitResult;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.SimpleFileVisitor;
import java.nio.file.attribute.BasicFileAttributes;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.OptionalDouble;
import java.util.concurrent.Callable;
import java.util.stream.Stream;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Option;

/// Debit-Credit in memory, one commit each (Transactions for Java, §4.1.1 and Table 1), beside other stores and
/// beside the bare disk. Each point is a process; after each the store is opened again and compared.
@Command(name = "debit-credit", description = "A bank in memory: transfers per second, one commit each.")
final class DebitCreditFigure implements Callable<Integer> {
    private static final int TURNS = 3;
    /// Of Table 1, what is left when the store, persistence, or transactions are left out.
    private static final List<String> STAGES = List.of("cedrat:no-store", "cedrat:memory", "cedrat:plain");

    private static final List<String> PEERS = List.of("je", "mvstore", "eclipsestore");
    /// Bytes of a transfer in Cedrat's log.
    private static final int RAW_BYTES = 320;

    private static final double OF_RAW_MIN = 0.90;
    private static final double OF_RAW_BY_EIGHT_MIN = 0.80;
    private static final double OF_JE_BY_EIGHT_MIN = 1.5;
    private static final double OF_BEST_UNSYNCED_MIN = 5;

    @Mixin
    private FigureOptions options;

    @Option(names = "--peers", required = true, paramLabel = "CLASSPATH", description = "The other stores.")
    private String peers;

    @Mixin
    private StoreFiles files;

    private record Place(String system, int threads, boolean isDurable) {
        Map<String, Object> params() {
            Map<String, Object> params = new LinkedHashMap<>();
            params.put("threads", threads);
            params.put("durable", isDurable);
            return params;
        }
    }

    @Override
    public Integer call() throws IOException, InterruptedException {
        List<Place> places = places();
        Map<Place, List<Double>> commits = new LinkedHashMap<>();
        for (int turn = 0; turn < (options.quick ? 1 : TURNS); turn++) {
            for (Place place : places) {
                options.progress("debit-credit: turn " + (turn + 1) + ", " + place);
                double best = 0;
                for (String engine : engines(place)) {
                    best = Math.max(best, run(place, engine, List.of()));
                }
                commits.computeIfAbsent(place, first -> new ArrayList<>()).add(best);
            }
        }
        Figures figures = new Figures("debit-credit", options.json);
        for (Map.Entry<Place, List<Double>> point : commits.entrySet()) {
            Place place = point.getKey();
            figures.add(place.system, place.params(), "commits_per_s", Medians.of(point.getValue()), "1/s");
            if (place.isDurable && place.threads == 1) {
                figures.add(place.system, place.params(), "syncs_per_commit", syncsPerCommit(place), "1");
            }
        }
        goals(figures);
        return 0;
    }

    private List<Place> places() {
        List<Place> all = new ArrayList<>();
        for (int threads : new int[] {1, 2, 8}) {
            for (String system : systems()) {
                all.add(new Place(system, threads, true));
            }
        }
        for (String system : systems()) {
            if (!system.equals("raw")) {
                all.add(new Place(system, 1, false));
            }
        }
        for (String stage : STAGES) {
            all.add(new Place(stage, 1, false));
        }
        all.removeIf(place -> !isWanted("system", place.system)
                || place.params().entrySet().stream().anyMatch(param -> !isWanted(param.getKey(), param.getValue())));
        return all;
    }

    private static List<String> systems() {
        return Stream.concat(Stream.of("cedrat", "raw"), PEERS.stream()).toList();
    }

    private boolean isWanted(String name, Object value) {
        return options.only.getOrDefault(name, value.toString()).equals(value.toString());
    }

    /// The raw log waits in several ways, of which the best counts.
    private static List<String> engines(Place place) {
        if (!place.system.equals("raw")) {
            return List.of(place.system);
        }
        String raw = "raw:" + RAW_BYTES;
        return place.threads == 1
                ? List.of(raw + ":1:sleep")
                : List.of(raw + ":1:sleep", raw + ":2:sleep", raw + ":1:spin", raw + ":2:spin");
    }

    private double run(Place place, String engine, List<String> before) throws IOException, InterruptedException {
        Path home = files.newHome("debit-credit");
        try {
            List<String> command = new ArrayList<>(before);
            command.add(ProcessHandle.current().info().command().orElse("java"));
            command.addAll(List.of("-Xms2g", "-Xmx2g", "-XX:+UseParallelGC", "--enable-native-access=ALL-UNNAMED"));
            command.add("--sun-misc-unsafe-memory-access=allow");
            if (place.system.startsWith("cedrat")) {
                command.add("-javaagent:" + options.agent);
                command.add("-Dcedrat.library=" + files.library);
            }
            if (place.system.equals("eclipsestore")) {
                command.add("--add-exports=java.base/jdk.internal.misc=ALL-UNNAMED");
                command.add("-Dslf4j.provider=org.slf4j.helpers.NOP_FallbackServiceProvider");
                command.add("-Dslf4j.internal.verbosity=WARN");
            }
            String own = System.getProperty("java.class.path");
            command.addAll(List.of("-cp", PEERS.contains(place.system) ? peers + File.pathSeparator + own : own));
            command.addAll(List.of(Run.class.getName(), "--engine", engine, "--directory", home.toString()));
            command.addAll(List.of("--threads", "" + place.threads, "--seconds", "" + seconds()));
            if (place.isDurable) {
                command.add("--durable");
            }
            Process process = new ProcessBuilder(command)
                    .redirectError(ProcessBuilder.Redirect.INHERIT)
                    .start();
            String said = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
            int code = process.waitFor();
            if (code != 0) {
                throw new IOException(String.join(" ", command) + " has ended with exit code " + code);
            }
            return Double.parseDouble(said.strip());
        } finally {
            delete(home);
        }
    }

    private int seconds() {
        return options.quick ? 1 : 5;
    }

    private static void delete(Path tree) throws IOException {
        Files.walkFileTree(tree, new SimpleFileVisitor<>() {
            @Override
            public FileVisitResult visitFile(Path file, BasicFileAttributes attributes) throws IOException {
                Files.delete(file);
                return FileVisitResult.CONTINUE;
            }

            @Override
            public FileVisitResult postVisitDirectory(Path folder, IOException problem) throws IOException {
                if (problem != null) {
                    throw problem;
                }
                Files.delete(folder);
                return FileVisitResult.CONTINUE;
            }
        });
    }

    /// Returns the forced writes per commit that the operating system saw in a separate run, which tracing slows down.
    private double syncsPerCommit(Place place) throws IOException, InterruptedException {
        Path trace = Files.createTempFile("debit-credit", ".trace");
        try {
            List<String> strace = List.of("strace", "-f", "-qq", "-o", trace.toString(), "-e", "trace=" + Syncs.CALLS);
            double commits = run(place, engines(place).getFirst(), strace);
            return Syncs.count(trace) / (commits * seconds());
        } finally {
            Files.delete(trace);
        }
    }

    private static void goals(Figures figures) {
        OptionalDouble one = best(figures, "cedrat", 1, true);
        OptionalDouble eight = best(figures, "cedrat", 8, true);
        figures.atLeast("cedrat / raw, one thread", ratio(one, best(figures, "raw", 1, true)), OF_RAW_MIN);
        figures.atLeast(
                "cedrat / raw with group commit, eight threads",
                ratio(eight, best(figures, "raw", 8, true)),
                OF_RAW_BY_EIGHT_MIN);
        figures.atLeast("cedrat / je, eight threads", ratio(eight, best(figures, "je", 8, true)), OF_JE_BY_EIGHT_MIN);
        OptionalDouble peer = PEERS.stream()
                .map(system -> best(figures, system, 1, false))
                .flatMapToDouble(OptionalDouble::stream)
                .max();
        figures.atLeast(
                "cedrat / the best peer, without sync",
                ratio(best(figures, "cedrat", 1, false), peer),
                OF_BEST_UNSYNCED_MIN);
        figures.printGoals();
    }

    private static OptionalDouble best(Figures figures, String system, int threads, boolean isDurable) {
        return figures.best(system, "commits_per_s", new Place(system, threads, isDurable).params());
    }

    private static OptionalDouble ratio(OptionalDouble part, OptionalDouble whole) {
        return part.isPresent() && whole.isPresent()
                ? OptionalDouble.of(part.getAsDouble() / whole.getAsDouble())
                : OptionalDouble.empty();
    }
}
