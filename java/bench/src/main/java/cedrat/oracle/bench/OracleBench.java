package cedrat.oracle.bench;

import cedrat.bench.figures.Figures;
import cedrat.oracle.bench.Child.Program;
import cedrat.oracle.server.Main;
import java.io.DataInputStream;
import java.io.IOException;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.OptionalDouble;
import java.util.concurrent.Callable;
import picocli.CommandLine;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Option;

/// `./x bench oracle`: the load of the paper (ReTSO §4), on the status oracle and beside it on others, by
/// turns.
@Command(
        name = "bench oracle",
        mixinStandardHelpOptions = true,
        description = "Transactions of 0 to 20 random rows out of 20 million, begun and committed by client processes.")
public final class OracleBench implements Callable<Integer> {
    /// Of two cores the server has one at least.
    private static final int CLIENT_PROCESSES_MAX = 2;

    private static final long KEY_SPACE = 20_000_000;
    private static final int OUTSTANDING_WARM = 100;
    private static final int BOOKIES_WARM_UP_S = 60;
    private static final int ROWS_LOG2 = 25;
    private static final List<String> CLIENT_JVM =
            List.of("-XX:+UseSerialGC", "-Xmx512m", "--enable-native-access=ALL-UNNAMED", PointOptions.UNSAFE);

    private static final String OMID_HBASE = "omid-hbase";

    /// Number of clients, and of requests in flight of each.
    record Pressure(int clients, int outstanding) {}

    private static final Pressure ALONE = new Pressure(1, 1);

    /// As the paper: one transaction at a time; Figure 3; and three clients that keep the server's buffer
    /// full. One client with as many as each of these is what suits Omid best.
    private static final List<Pressure> PRESSURES = List.of(
            ALONE,
            new Pressure(1, 100),
            new Pressure(2, 100),
            new Pressure(4, 100),
            new Pressure(8, 100),
            new Pressure(16, 100),
            new Pressure(1, 1000),
            new Pressure(3, 1000));

    /// Fills the processors, so that what runs often is compiled soon.
    private static final Pressure WARMING = new Pressure(3, 1000);

    private static final String SERVER = "server";

    /// Load of `--steady`, first at full rate.
    private static final Pressure STEADY = new Pressure(16, 100);

    private static final List<Pressure> QUICK = List.of(ALONE, new Pressure(4, 100));

    /// A system in a setting.
    ///
    /// @param params parameters that distinguish it from the same system in another setting
    /// @param server what its server runs
    /// @param arguments the server's arguments
    /// @param peer its clients' class
    /// @param clientClassPath where that is
    /// @param logs whether it leaves a log that can be replayed
    record Target(
            String system,
            Map<String, Object> params,
            Program server,
            List<String> arguments,
            String peer,
            String clientClassPath,
            boolean logs) {}

    @Mixin
    private PointOptions options;

    @Option(
            names = "--steady",
            paramLabel = "MINUTES",
            description =
                    "For so long, four fifths of what 16 clients with 100 transactions each can get: the longest gap"
                            + " between replies, and the collector's pauses.")
    private Integer steadyMinutes;

    private final Logs logs = new Logs();
    private final SharedHBase hbase = new SharedHBase();
    private boolean bookiesAreWarm;
    private Figures figures;

    OracleBench() {}

    /// The command.
    public static void main(String[] arguments) {
        System.exit(new CommandLine(new OracleBench()).execute(arguments));
    }

    @Override
    public Integer call() throws IOException, InterruptedException {
        figures = new Figures("oracle", options.json);
        try (logs;
                hbase) {
            return steadyMinutes == null ? points() : steadiness();
        }
    }

    private int steadiness() throws IOException, InterruptedException {
        boolean right = true;
        for (Target target : targets()) {
            right &= !wants(target, STEADY) || steady(target);
        }
        return right ? 0 : 1;
    }

    private int points() throws IOException, InterruptedException {
        boolean right = true;
        List<Target> targets = targets();
        for (Pressure pressure : options.quick ? QUICK : PRESSURES) {
            for (Target target : targets) {
                right &= !wants(target, pressure) || run(target, pressure);
            }
        }
        if (options.wants(Map.of("system", "cedrat", "log", "bookkeeper", "metric", "failover_ms"))) {
            right &= failOver();
        }
        if (options.wants(Map.of("system", "log", "log", "bookkeeper"))) {
            System.err.println("log {log=bookkeeper}");
            new LogAlone(logs.make("bookkeeper"), options.oracleJvm()).measure(options.quick ? 2 : 8, figures);
        }
        goals();
        return right ? 0 : 1;
    }

    private boolean failOver() throws IOException, InterruptedException {
        System.err.println("cedrat: a server is killed, and another takes over");
        Path data = Logs.newDirectory();
        try {
            return new FailOver(logs.bookies(), data, options.oracleJvm()).measure(options.quick ? 5 : 15, figures);
        } finally {
            Logs.delete(data);
        }
    }

    // ---- what is measured ----

    private List<Target> targets() throws IOException {
        List<Target> targets = new ArrayList<>();
        for (String log : Logs.KINDS) {
            targets.add(new Target(
                    "cedrat",
                    Map.of("log", log),
                    new Program(options.oracleJvm(), Main.class.getName()),
                    List.of("serve", "--port", "0", "--rows-log2", "" + ROWS_LOG2, "--log", log),
                    CedratPeer.class.getName(),
                    System.getProperty("java.class.path"),
                    Logs.keeps(log)));
        }
        targets.add(echo("none", List.of()));
        targets.add(echo("block", List.of(Logs.directory().toString())));
        if (options.omid != null) {
            for (String batch : List.of("default", "tuned")) {
                targets.add(omid("omid-null", "none", batch));
                targets.add(omid(OMID_HBASE, "hbase", batch));
            }
        }
        return targets;
    }

    private Target omid(String system, String log, String batch) {
        return new Target(
                system,
                Map.of("log", log, "batch", batch),
                new Program(options.omid, PointOptions.OMID_JVM, "cedrat.oracle.bench.omid.OmidServer"),
                List.of(batch, log),
                "cedrat.oracle.bench.omid.OmidPeer",
                options.omid,
                false);
    }

    private static Target echo(String log, List<String> arguments) {
        return new Target(
                "echo",
                Map.of("log", log),
                new Program(CLIENT_JVM, EchoServer.class.getName()),
                arguments,
                EchoPeer.class.getName(),
                System.getProperty("java.class.path"),
                false);
    }

    private static Map<String, Object> params(Target target, Pressure pressure) {
        Map<String, Object> params = new LinkedHashMap<>(target.params());
        params.put("clients", pressure.clients());
        params.put("outstanding", pressure.outstanding());
        return params;
    }

    private boolean wants(Target target, Pressure pressure) {
        Map<String, Object> all = params(target, pressure);
        all.put("system", target.system());
        return options.wants(all);
    }

    // ---- a point ----

    /// Parameters of a point, beside target and pressure.
    ///
    /// @param perSecond transactions a second that are asked for; 0 for as many as there can be
    /// @param gcLogs where virtual machines are to say what their collectors do, the server's in `server.log`;
    ///     `null` for nowhere
    private record Course(int warmUpSeconds, int seconds, double perSecond, Path gcLogs) {
        Program program(Program program, String name) {
            if (gcLogs == null) {
                return program;
            }
            List<String> jvm = new ArrayList<>(program.jvm());
            jvm.add(Pauses.option(gcLogs.resolve(name + ".log").toString()));
            return new Program(program.classPath(), jvm, program.mainClass());
        }
    }

    /// Results of a point.
    private record Measured(Results results, double seconds, Duration clientTime, Duration serverTime) {
        double committedPerSecond() {
            return (results.commits.total() - results.aborted) / seconds;
        }
    }

    private boolean run(Target target, Pressure pressure) throws IOException, InterruptedException {
        warmBookies(target);
        int measured = options.seconds != null ? options.seconds : options.quick ? 2 : 8;
        return measure(target, pressure, new Course(warmUpSeconds(target), measured, 0, null)) != null;
    }

    /// A server with a client of BookKeeper has twice as much to compile.
    private int warmUpSeconds(Target target) {
        return options.warmUp != null ? options.warmUp : options.quick ? 3 : hasBookies(target) ? 30 : 10;
    }

    private static boolean hasBookies(Target target) {
        return target.params().get("log").equals("bookkeeper");
    }

    /// Bookies serve all points, and for the first minute their compiler uses the shared processors more than any
    /// other process: a load without measurement comes first.
    private void warmBookies(Target target) throws IOException, InterruptedException {
        if (hasBookies(target) && !bookiesAreWarm && !options.quick) {
            System.err.println("the bookies are warmed up");
            bookiesAreWarm = true;
            load(target, WARMING, new Course(BOOKIES_WARM_UP_S, 1, 0, null), logs.make("bookkeeper"));
        }
    }

    /// Measures a point and adds its figures; `null` if an answer was wrong, or the log does not hold what
    /// was acknowledged.
    private Measured measure(Target target, Pressure pressure, Course course) throws IOException, InterruptedException {
        Map<String, Object> params = params(target, pressure);
        if (course.perSecond() > 0) {
            params.put("per_second", Math.round(course.perSecond()));
        }
        System.err.println(target.system() + " " + params);
        Logs.Place place = target.logs() ? logs.make(target.params().get("log").toString()) : null;
        try {
            double before = place == null ? 0 : Disk.write(place.disk()).quantileMicros(0.5);
            Measured measured = load(target, pressure, course, place);
            add(target, params, measured);
            if (place != null) {
                // The disk is another from minute to minute.
                double sync = (before + Disk.write(place.disk()).quantileMicros(0.5)) / 2;
                figures.add(target.system(), params, "sync_4k_us", sync, "us");
                if (pressure.equals(ALONE)) {
                    double median = measured.results().commits.quantileMicros(0.5);
                    figures.add(target.system(), params, "p50_over_sync_us", median - sync, "us");
                }
            }
            if (!measured.results().wrong().isEmpty()) {
                System.err.println("wrong: " + measured.results().wrong());
                return null;
            }
            return place == null || replays(target, params, measured.results(), place) ? measured : null;
        } finally {
            if (place != null) {
                place.delete();
            }
        }
    }

    private Measured load(Target target, Pressure pressure, Course course, Logs.Place place)
            throws IOException, InterruptedException {
        List<String> arguments = new ArrayList<>(target.arguments());
        if (place != null) {
            arguments.addAll(place.arguments());
        }
        Program server = target.server();
        if (target.system().equals(OMID_HBASE)) {
            String classPath = hbase.configuration() + ":" + server.classPath();
            server = new Program(classPath, server.jvm(), server.mainClass());
        }
        if (place != null) {
            Child.run(server, place.initialise());
        }
        List<Child> clients = new ArrayList<>();
        try (Child process = new Child(course.program(server, SERVER), arguments)) {
            int port = process.awaitAddress().getPort();
            int processes = Math.min(pressure.clients(), CLIENT_PROCESSES_MAX);
            for (int number = 0; number < processes; number++) {
                int connections = (pressure.clients() + number) / processes;
                clients.add(
                        client(target, pressure, course, port, connections, course.perSecond() / processes, number));
            }
            Thread.sleep(Duration.ofSeconds(course.warmUpSeconds()));
            tell(clients, Phase.SETTLING);
            Thread.sleep(Duration.ofSeconds(1));
            Duration serverBefore = process.time();
            Duration clientBefore = time(clients);
            long before = System.nanoTime();
            tell(clients, Phase.MEASURING);
            Thread.sleep(Duration.ofSeconds(course.seconds()));
            tell(clients, Phase.ENDING);
            double passed = (System.nanoTime() - before) / 1e9;
            Duration clientTime = time(clients).minus(clientBefore);
            Duration serverTime = process.time().minus(serverBefore);
            Results results = new Results();
            for (Child client : clients) {
                results.add(client.awaitResults());
            }
            return new Measured(results, passed, clientTime, serverTime);
        } finally {
            clients.forEach(Child::close);
        }
    }

    private static Child client(
            Target target, Pressure pressure, Course course, int port, int connections, double perSecond, int number)
            throws IOException {
        List<String> arguments = new ArrayList<>(List.of("--peer", target.peer(), "--host", "127.0.0.1"));
        Map<String, Object> values = Map.of(
                "port", port,
                "connections", connections,
                "outstanding", pressure.outstanding(),
                "outstanding-warm", Math.max(pressure.outstanding(), OUTSTANDING_WARM),
                "key-space", KEY_SPACE,
                "per-second", perSecond,
                "seed", 1000L * number);
        values.forEach((name, value) -> arguments.addAll(List.of("--" + name, value.toString())));
        if (target.logs()) {
            arguments.add("--keep");
        }
        Program program = new Program(target.clientClassPath(), CLIENT_JVM, ClientProcess.class.getName());
        return new Child(course.program(program, "client-" + number), arguments);
    }

    private static void tell(List<Child> clients, Phase phase) throws IOException {
        for (Child client : clients) {
            client.tell(phase);
        }
    }

    private static Duration time(List<Child> clients) {
        return clients.stream().map(Child::time).reduce(Duration.ZERO, Duration::plus);
    }

    private void add(Target target, Map<String, Object> params, Measured measured) {
        Results results = measured.results();
        double count = Math.max(1, results.commits.total());
        figures.add(target.system(), params, "commits_per_s", measured.committedPerSecond(), "1/s");
        figures.add(target.system(), params, "p50_us", results.commits.quantileMicros(0.50), "us");
        figures.add(target.system(), params, "p99_us", results.commits.quantileMicros(0.99), "us");
        figures.add(target.system(), params, "mean_us", results.commits.meanMicros(), "us");
        figures.add(target.system(), params, "start_p50_us", results.starts.quantileMicros(0.50), "us");
        figures.add(target.system(), params, "abort_rate", results.aborted / count, "1");
        if (results.frames > 0) {
            double frames = (double) results.frames / Math.max(1, results.decided);
            figures.add(target.system(), params, "frames_per_transaction", frames, "1");
        }
        figures.add(target.system(), params, "longest_gap_ms", results.longestGap / 1e6, "ms");
        figures.add(
                target.system(),
                params,
                "client_cpu_us_per_commit",
                measured.clientTime().toNanos() / 1e3 / count,
                "us");
        figures.add(
                target.system(),
                params,
                "server_cpu_us_per_commit",
                measured.serverTime().toNanos() / 1e3 / count,
                "us");
    }

    /// Whether the log that the server has left holds exactly the commits that were acknowledged.
    private boolean replays(Target target, Map<String, Object> params, Results results, Logs.Place place)
            throws IOException {
        ReplayProcess.Seen seen;
        List<String> arguments = List.of(place.kind(), place.where(), "" + ROWS_LOG2);
        Program program = new Program(options.oracleJvm(), ReplayProcess.class.getName());
        try (Child replay = new Child(program, arguments);
                DataInputStream in = replay.output()) {
            seen = ReplayProcess.Seen.read(in);
        }
        String difference = results.acknowledged.difference(seen.commits(), seen.after());
        if (difference != null) {
            System.err.println("wrong: acknowledged, and in the log: " + difference);
            return false;
        }
        figures.add(
                target.system(), params, "replay_commits_per_s", seen.commits().count() * 1e9 / seen.nanos(), "1/s");
        return true;
    }

    // ---- steadiness ----

    private boolean steady(Target target) throws IOException, InterruptedException {
        warmBookies(target);
        Measured full = measure(target, STEADY, new Course(warmUpSeconds(target), 10, 0, null));
        if (full == null) {
            return false;
        }
        Path directory = Logs.newDirectory();
        try {
            Course course =
                    new Course(warmUpSeconds(target), steadyMinutes * 60, 0.8 * full.committedPerSecond(), directory);
            Beside beside = new Beside(directory);
            Measured measured;
            try (beside) {
                measured = measure(target, STEADY, course);
            }
            if (measured == null) {
                return false;
            }
            Map<String, Object> params = params(target, STEADY);
            params.put("per_second", Math.round(course.perSecond()));
            List<String> ofServer = new ArrayList<>();
            List<String> ofClients = new ArrayList<>();
            try (DirectoryStream<Path> all = Files.newDirectoryStream(directory, "*.log")) {
                for (Path log : all) {
                    boolean isServer = log.getFileName().toString().equals(SERVER + ".log");
                    (isServer ? ofServer : ofClients).addAll(Files.readAllLines(log));
                }
            }
            Pauses server = Pauses.of(ofServer);
            Pauses clients = Pauses.of(ofClients);
            gaps(target, params, measured.results().gaps, beside, server, clients);
            System.err.println("the server's longest stop: " + server.longest());
            System.err.println("a client's longest stop: " + clients.longest());
            figures.add(target.system(), params, "gc_pauses", server.stops.times.total(), "1");
            figures.add(target.system(), params, "gc_pause_max_ms", server.stops.longest / 1e6, "ms");
            figures.add(target.system(), params, "client_gc_pause_max_ms", clients.stops.longest / 1e6, "ms");
            figures.add(target.system(), params, "allocation_stalls", server.stalls(), "1");
        } finally {
            Logs.delete(directory);
        }
        return true;
    }

    /// Reports the number of long gaps, and the delays of nearly idle threads meanwhile. Gaps in which neither
    /// thread was delayed for half as long are caused by the system alone.
    private void gaps(
            Target target,
            Map<String, Object> params,
            List<Results.Gap> gaps,
            Beside beside,
            Pauses server,
            Pauses clients) {
        long alone = 0;
        for (Results.Gap gap : gaps) {
            double write = beside.writes.longestIn(gap);
            double sleep = beside.sleeps.longestIn(gap);
            alone += Math.max(write, sleep) < gap.millis() / 2 ? 1 : 0;
            System.err.printf(
                    Locale.ROOT,
                    "a gap of %.1f ms at %.3f s; meanwhile a bare write took %.1f ms, a sleep of 1 ms %.1f ms,"
                            + " a stop of the server %.1f ms, of a client %.1f ms%n",
                    gap.millis(),
                    gap.from() / 1e9,
                    write,
                    sleep,
                    server.stops.longestIn(gap),
                    clients.stops.longestIn(gap));
        }
        figures.add(target.system(), params, "gaps_over_20_ms", gaps.size(), "1");
        figures.add(target.system(), params, "gaps_of_the_system_alone", alone, "1");
        figures.add(target.system(), params, "bare_write_max_ms", beside.writes.longest / 1e6, "ms");
        figures.add(target.system(), params, "bare_write_p50_us", beside.writes.times.quantileMicros(0.5), "us");
        figures.add(target.system(), params, "bare_sleep_max_ms", beside.sleeps.longest / 1e6, "ms");
    }

    // ---- goals ----

    private void goals() {
        Map<String, Object> one = Map.of("clients", 1, "outstanding", 1);
        OptionalDouble embedded = figures.best("cedrat", "commits_per_s", Map.of("log", "embedded"));
        OptionalDouble tuned = figures.best("omid-null", "commits_per_s", Map.of("batch", "tuned"));
        OptionalDouble ratio = Figures.ratio(embedded, tuned);
        figures.atLeast("commits/s, log in the server / Omid with nothing persisted, tuned", ratio, 10);
        figures.atLeast("commits/s, log in the server", embedded, 400_000);
        figures.atMost("µs of a commit alone, log in the server", one("embedded", one), 200);
        figures.atLeast(
                "commits/s, log in BookKeeper",
                figures.best("cedrat", "commits_per_s", Map.of("log", "bookkeeper")),
                100_000);
        figures.atMost("µs of a commit alone, log in BookKeeper", one("bookkeeper", one), 1_000);
        figures.atMost(
                "ms without an answer when a server is killed",
                figures.best("cedrat", "failover_ms", Map.of("log", "bookkeeper")),
                500);
        figures.atLeast(
                "entries/s of 1,028 bytes, log in BookKeeper alone",
                figures.best("log", "entries_per_s", Map.of("log", "bookkeeper")),
                20_000);
        figures.printGoals();
    }

    private OptionalDouble one(String log, Map<String, Object> one) {
        Map<String, Object> params = new HashMap<>(one);
        params.put("log", log);
        return figures.best("cedrat", "p50_us", params);
    }
}
