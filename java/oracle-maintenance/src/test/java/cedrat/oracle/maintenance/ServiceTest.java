package cedrat.oracle.maintenance;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cedrat.oracle.client.ClientOptions;
import cedrat.oracle.log.VolatileLog;
import cedrat.oracle.server.OracleServer;
import cedrat.oracle.server.ServerOptions;
import cedrat.oracle.tables.Granularity;
import cedrat.oracle.tables.MemoryTables;
import cedrat.oracle.tables.TableException;
import cedrat.oracle.tables.Tables;
import java.io.IOException;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.io.Writer;
import java.net.InetSocketAddress;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Optional;
import java.util.SequencedMap;
import java.util.Set;
import java.util.TreeSet;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import picocli.CommandLine;

/// The service as operators see it, and its page.
@Timeout(120)
class ServiceTest {
    private static final Path PAGE = Path.of("../../docs/use/oracle-maintenance.md");
    private static final Path ALERTS = Path.of("prometheus/cedrat-maintenance.rules.yml");
    private static final InetSocketAddress ANY = new InetSocketAddress("127.0.0.1", 0);
    private static final Duration NEVER = Duration.ofDays(1);

    private final SequencedMap<String, Tables> namespaces = new LinkedHashMap<>();
    private final MemoryTables tables = new MemoryTables();
    private final HttpClient http = HttpClient.newHttpClient();
    private OracleServer server;
    /// Thrown by each pass, while it is there.
    private volatile RuntimeException failure;
    private volatile List<String> refused = List.of();

    @BeforeEach
    void open() throws Exception {
        server = OracleServer.start(
                ServerOptions.DEFAULTS.withListen(ANY).withRowsLog2(10).withSessionTimeout(NEVER), new VolatileLog());
        tables.create("rows", Granularity.ROW);
        namespaces.put("default", tables);
    }

    @AfterEach
    void close() throws Exception {
        http.close();
        server.close();
    }

    private TestStore.Opener opener() {
        return new TestStore.Opener(
                () -> ClientOptions.of(server.address()), namespaces, (point, table, row, mutation) -> {}, () -> {
                    if (failure != null) {
                        throw failure;
                    }
                    return refused;
                });
    }

    private Service start(Duration every, Waiting.Real waiting) throws IOException {
        SequencedMap<Job, Duration> jobs = new LinkedHashMap<>();
        jobs.put(Job.SWEEP, every);
        jobs.put(Job.PRUNE, every);
        return new Service(jobs, 0, opener(), waiting, Records.LOG, Optional.of(ANY));
    }

    private HttpResponse<String> get(Service service, String path) throws Exception {
        URI uri =
                URI.create("http://127.0.0.1:" + service.metrics().orElseThrow().getPort() + path);
        return http.send(HttpRequest.newBuilder(uri).build(), HttpResponse.BodyHandlers.ofString());
    }

    private void awaitHealth(Service service, int health, int ready, String state) throws Exception {
        while (get(service, "/ready").statusCode() != ready
                || !get(service, "/health").body().startsWith("{\"state\":\"" + state + "\"")) {
            Thread.onSpinWait();
        }
        assertEquals(health, get(service, "/health").statusCode());
    }

    @Test
    void healthShowsProblemsAndTheirEnd() throws Exception {
        failure = new TableException(TableException.Effect.NONE, "no \"answer\"", new IOException());
        try (Service service = start(Duration.ofMillis(1), new Waiting.Real())) {
            awaitHealth(service, 200, 503, "tables");
            assertTrue(get(service, "/health").body().contains("no \\\"answer\\\""));
            failure = new IllegalStateException("bug");
            awaitHealth(service, 503, 503, "fault");
            failure = null;
            refused = List.of("rows");
            awaitHealth(service, 503, 503, "refusal");
            assertTrue(get(service, "/metrics").body().contains("problem{kind=\"refusal\"} 1"));
            refused = List.of();
            awaitHealth(service, 200, 200, "working");
        }
    }

    /// An alert for tables that are not swept counts the tables that were left out.
    @Test
    void partialPassIsNoSuccess() throws Exception {
        TestTime time = new TestTime();
        Figures figures =
                new Figures(time, new Outages(time, Records.LOG), List.of(Job.PRUNE), List.copyOf(namespaces.keySet()));
        SequencedMap<String, Long> numbers = new LinkedHashMap<>();
        Job.PRUNE.figures().forEach(name -> numbers.put(name, 2L));
        TableException refusal = new TableException(TableException.Effect.NONE, "refused", null);
        for (Pass pass : List.of(new Pass(3, numbers, List.of(refusal)), new Pass(3, numbers, List.of()))) {
            time.await(Duration.ofSeconds(10));
            figures.passed(Job.PRUNE, "default", pass);
            boolean isWhole = pass.refusals().isEmpty();
            assertEquals(isWhole ? 200 : 503, figures.health(true).code());
            String age = "success_age_seconds{namespace=\"default\",task=\"prune\"} ";
            String metrics = figures.metrics().body();
            assertTrue(metrics.contains(age + (isWhole ? "0.0" : "10.0")), metrics);
        }
        assertTrue(figures.health(true).body().contains("\"rows\":4,\"versions\":4,\"low-water-mark\":2}"));
    }

    /// A pass that does not end is left to the end of the process.
    @Test
    void stopEndsWaitsAtOnce() throws Exception {
        Waiting.Real waiting = new Waiting.Real();
        Service service = start(NEVER, waiting);
        awaitHealth(service, 200, 200, "working");
        service.close();
        service.await();
        assertTrue(waiting.isStopped());
        assertThrows(IOException.class, () -> get(service, "/health"), "the port is closed");
    }

    private static Set<String> found(Path file, String pattern) throws IOException {
        return found(Files.readString(file), pattern);
    }

    private static Set<String> found(String text, String pattern) {
        Set<String> found = new HashSet<>();
        Matcher matcher = Pattern.compile(pattern, Pattern.MULTILINE).matcher(text);
        while (matcher.find()) {
            found.add(matcher.group());
        }
        return found;
    }

    @Test
    void pageAndAlertsNameServedMetrics() throws Exception {
        try (Service service = start(NEVER, new Waiting.Real())) {
            awaitHealth(service, 200, 200, "working");
            String name = "cedrat_maintenance_\\w+";
            Set<String> served = found(get(service, "/metrics").body().replaceAll("(?m)^#.*$", ""), name);
            assertEquals(14, served.size(), served::toString);
            assertEquals(new TreeSet<>(served), new TreeSet<>(found(PAGE, name)));
            Set<String> watched = found(ALERTS, name);
            assertEquals(3, watched.size());
            watched.removeAll(served);
            assertEquals(Set.of(), watched);
            assertFalse(Files.readString(ALERTS).contains("job="), "Prometheus has a label of this name");
        }
    }

    private static CommandLine command(String name) {
        return new MaintenanceCommands()
                .commands().stream()
                        .map(CommandLine::new)
                        .filter(command -> command.getCommandName().equals(name))
                        .findFirst()
                        .orElseThrow();
    }

    /// The page lists all options, and no others.
    @Test
    void pageListsAllOptions() throws IOException {
        Set<String> options = new TreeSet<>();
        for (String name : List.of("sweep", "prune", "maintain")) {
            command(name).getCommandSpec().options().forEach(option -> options.add(option.longestName()));
        }
        options.removeAll(Set.of("--help", "--version"));
        Set<String> listed = new TreeSet<>();
        for (String row : found(PAGE, "^\\| `--.*?\\|")) {
            listed.addAll(found(row, "--[a-z-]+"));
        }
        assertEquals(options, listed);
    }

    @Test
    void invalidArgumentsAreUsageErrors() {
        for (String line : List.of(
                "sweep",
                "sweep --hbase x:1 --hbase-configuration /",
                "sweep --hbase x:1 --oracle nowhere",
                "sweep --hbase x:1 --table a --namespace b,c",
                "sweep --hbase x:1 --table a --forget",
                "sweep --hbase x:1 --tls-key a",
                "prune --hbase x:1 --rows-per-second -1",
                "prune --hbase x:1 --forget",
                "maintain --hbase x:1 --sweep-every 5",
                "maintain --hbase x:1 --prune-every 0s",
                "maintain --hbase x:1 --metrics nowhere")) {
            String[] words = line.split(" ");
            int code = command(words[0])
                    .execute(List.of(words).subList(1, words.length).toArray(String[]::new));
            assertEquals(2, code, line);
        }
        for (String line : List.of(
                "sweep --hbase-configuration /nowhere",
                "prune --hbase x:1 --tls-certificate a --tls-key a --tls-authorities a")) {
            String[] words = line.split(" ");
            int code = command(words[0])
                    .execute(List.of(words).subList(1, words.length).toArray(String[]::new));
            assertEquals(1, code, line);
        }
    }

    /// Without a wait where no write outlasts its client.
    @Test
    void oneRunForgets() {
        StringWriter out = new StringWriter();
        TestTime time = new TestTime();
        OneRun run = new OneRun(opener(), 0, time, new PrintWriter(out), new PrintWriter(Writer.nullWriter()));
        assertEquals(OneRun.EXIT_DONE, run.run(Job.SWEEP, true));
        assertEquals(List.of(), time.waits);
        assertEquals(
                "sweep namespace default tables 1 refused 0 rows 0 committed 0 aborted 0 open 0 forgotten 0\n",
                out.toString());
        failure = new TableException(TableException.Effect.NONE, "gone", new IOException());
        assertEquals(OneRun.EXIT_FAILED, run.run(Job.SWEEP, true));
        failure = null;
        refused = List.of("rows");
        assertEquals(OneRun.EXIT_REFUSED, run.run(Job.PRUNE, true));
    }

    @Test
    void namespaceWithoutTablesIsNamed() {
        namespaces.put("empty", new MemoryTables());
        StringWriter err = new StringWriter();
        OneRun run =
                new OneRun(opener(), 0, new TestTime(), new PrintWriter(Writer.nullWriter()), new PrintWriter(err));
        assertEquals(OneRun.EXIT_DONE, run.run(Job.SWEEP, false));
        assertTrue(err.toString().startsWith("cedrat-oracle: the namespace empty has no tables"), err.toString());
    }
}
