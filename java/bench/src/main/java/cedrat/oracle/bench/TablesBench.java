package cedrat.oracle.bench;

import cedrat.bench.figures.Figures;
import cedrat.oracle.bench.Child.Program;
import cedrat.oracle.server.Main;
import java.io.DataInputStream;
import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.OptionalDouble;
import java.util.Set;
import java.util.concurrent.Callable;
import picocli.CommandLine;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;

/// `./x bench tables`: transactions over tables of a real HBase, with the status oracle, with Apache Omid, and the same
/// reads and writes without transactions, by turns.
@Command(
        name = "bench tables",
        mixinStandardHelpOptions = true,
        description = "Transfers between two of 100,000 accounts in HBase: two reads, two writes, the commit, and what"
                + " has to follow it.")
final class TablesBench implements Callable<Integer> {
    private static final int ACCOUNTS = 100_000;
    private static final List<Integer> OUTSTANDING = List.of(1, 10, 100, 1_000);
    private static final List<Integer> OUTSTANDING_QUICK = List.of(1, 100);

    private static final List<String> CLIENT_JVM =
            List.of("-XX:+UseParallelGC", "-Xmx1g", "--enable-native-access=ALL-UNNAMED", PointOptions.UNSAFE);

    /// A system in a setting.
    ///
    /// @param params parameters that distinguish it from the same system in another setting
    /// @param server what its server runs; `null` if it has none
    /// @param arguments the server's arguments
    /// @param tables its [TableSystem]
    /// @param client what its clients run
    private record Target(
            String system,
            Map<String, Object> params,
            Program server,
            List<String> arguments,
            String tables,
            Program client) {
        String table() {
            return system
                    + String.join(
                            "", params.values().stream().map(Object::toString).toList());
        }
    }

    @Mixin
    private PointOptions options;

    private final SharedHBase hbase = new SharedHBase();
    private final Set<String> created = new HashSet<>();
    private final Map<String, Logs.Place> places = new LinkedHashMap<>();
    private Figures figures;

    private TablesBench() {}

    public static void main(String[] arguments) {
        System.exit(new CommandLine(new TablesBench()).execute(arguments));
    }

    @Override
    public Integer call() throws IOException, InterruptedException {
        figures = new Figures("tables", options.json);
        boolean right = true;
        try (hbase;
                Logs logs = new Logs()) {
            List<Target> targets = targets();
            for (int outstanding : options.quick ? OUTSTANDING_QUICK : OUTSTANDING) {
                for (Target target : targets) {
                    Map<String, Object> params = new LinkedHashMap<>(target.params());
                    params.put("outstanding", outstanding);
                    Map<String, Object> all = new LinkedHashMap<>(params);
                    all.put("system", target.system());
                    right &= !options.wants(all) || measure(target, outstanding, params, logs);
                }
            }
        } finally {
            for (Logs.Place place : places.values()) {
                place.delete();
            }
        }
        goals();
        return right ? 0 : 1;
    }

    private List<Target> targets() throws IOException {
        String own = System.getProperty("java.class.path");
        List<Target> targets = new ArrayList<>();
        targets.add(
                new Target("hbase", Map.of(), null, List.of(), PlainTables.class.getName(), client(own, CLIENT_JVM)));
        targets.add(new Target(
                "cedrat",
                Map.of(),
                new Program(options.oracleJvm(), Main.class.getName()),
                List.of("serve", "--port", "0", "--log", "embedded"),
                CedratTables.class.getName(),
                client(own, CLIENT_JVM)));
        if (options.omid != null) {
            for (String batch : List.of("default", "tuned")) {
                List<String> jvm = new ArrayList<>(CLIENT_JVM);
                if (batch.equals("tuned")) {
                    jvm.add("-Domid.post-commit=async");
                }
                targets.add(new Target(
                        "omid",
                        Map.of("batch", batch),
                        new Program(
                                withHBase(options.omid), PointOptions.OMID_JVM, "cedrat.oracle.bench.omid.OmidServer"),
                        List.of(batch, "hbase"),
                        "cedrat.oracle.bench.omid.OmidTables",
                        client(options.omid, jvm)));
            }
        }
        return targets;
    }

    private Program client(String classPath, List<String> jvm) throws IOException {
        return new Program(withHBase(classPath), jvm, TableClients.class.getName());
    }

    private String withHBase(String classPath) throws IOException {
        return hbase.configuration() + ":" + classPath;
    }

    // ---- a point ----

    /// Measures a point and adds its figures; false if an answer was wrong.
    private boolean measure(Target target, int outstanding, Map<String, Object> params, Logs logs)
            throws IOException, InterruptedException {
        System.err.println(target.system() + " " + params);
        if (target.server() == null) {
            return load(target, outstanding, params, null);
        }
        List<String> arguments = new ArrayList<>(target.arguments());
        if (target.system().equals("cedrat")) {
            arguments.addAll(log(target, logs).arguments());
        }
        try (Child server = new Child(target.server(), arguments)) {
            return load(target, outstanding, params, server);
        }
    }

    /// The log of the status oracle: one for all points, because the tables belong to one oracle.
    private Logs.Place log(Target target, Logs logs) throws IOException, InterruptedException {
        Logs.Place place = places.get(target.system());
        if (place == null) {
            place = logs.make("embedded");
            places.put(target.system(), place);
            Child.run(target.server(), place.initialise());
        }
        return place;
    }

    private boolean load(Target target, int outstanding, Map<String, Object> params, Child server)
            throws IOException, InterruptedException {
        List<String> arguments = new ArrayList<>(List.of("--system", target.tables(), "--table", target.table()));
        arguments.addAll(List.of("--accounts", "" + ACCOUNTS, "--workers", "" + outstanding));
        arguments.addAll(List.of(
                "--port", "" + (server == null ? 0 : server.awaitAddress().getPort())));
        if (created.add(target.table())) {
            arguments.add("--create");
        }
        try (Child client = new Child(target.client(), arguments);
                DataInputStream said = client.output()) {
            said.readByte(); // it is ready
            Thread.sleep(Duration.ofSeconds(options.warmUp != null ? options.warmUp : options.quick ? 5 : 20));
            client.tell(Phase.SETTLING);
            Duration before = client.time();
            Duration serverBefore = server == null ? Duration.ZERO : server.time();
            Duration storeBefore = hbase.regionServerTime();
            long began = System.nanoTime();
            client.tell(Phase.MEASURING);
            Thread.sleep(Duration.ofSeconds(options.seconds != null ? options.seconds : options.quick ? 5 : 15));
            client.tell(Phase.ENDING);
            double passed = (System.nanoTime() - began) / 1e9;
            Duration clientTime = client.time().minus(before);
            Duration serverTime = server == null ? Duration.ZERO : server.time().minus(serverBefore);
            Duration storeTime = hbase.regionServerTime().minus(storeBefore);
            Results results = Results.read(said);
            add(target, params, results, passed);
            addTimes(target, params, results, clientTime, serverTime, storeTime);
            if (!results.wrong().isEmpty()) {
                System.err.println("wrong: " + results.wrong());
            }
            return results.wrong().isEmpty();
        }
    }

    private void add(Target target, Map<String, Object> params, Results results, double seconds) {
        double count = Math.max(1, results.commits.total());
        String system = target.system();
        figures.add(system, params, "commits_per_s", (results.commits.total() - results.aborted) / seconds, "1/s");
        figures.add(system, params, "p50_us", results.commits.quantileMicros(0.50), "us");
        figures.add(system, params, "p99_us", results.commits.quantileMicros(0.99), "us");
        figures.add(system, params, "abort_rate", results.aborted / count, "1");
    }

    /// Adds the processors' time of the client, of the server that decides, and of the region server.
    private void addTimes(
            Target target,
            Map<String, Object> params,
            Results results,
            Duration client,
            Duration server,
            Duration regionServer) {
        double count = Math.max(1, results.commits.total());
        String system = target.system();
        figures.add(system, params, "client_cpu_us_per_commit", client.toNanos() / 1e3 / count, "us");
        figures.add(system, params, "server_cpu_us_per_commit", server.toNanos() / 1e3 / count, "us");
        figures.add(system, params, "region_server_cpu_us_per_commit", regionServer.toNanos() / 1e3 / count, "us");
    }

    // ---- goals ----

    private void goals() {
        for (int outstanding : options.quick ? OUTSTANDING_QUICK : OUTSTANDING) {
            OptionalDouble cedrat = rate("cedrat", outstanding);
            figures.atLeast(
                    "commits/s / Omid, " + outstanding + " outstanding",
                    Figures.ratio(cedrat, rate("omid", outstanding)),
                    2);
            figures.atLeast(
                    "commits/s / HBase without transactions, " + outstanding + " outstanding",
                    Figures.ratio(cedrat, rate("hbase", outstanding)),
                    0.7);
        }
        figures.printGoals();
    }

    private OptionalDouble rate(String system, int outstanding) {
        return figures.best(system, "commits_per_s", Map.of("outstanding", outstanding));
    }
}
