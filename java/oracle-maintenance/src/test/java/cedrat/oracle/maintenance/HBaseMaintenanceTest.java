package cedrat.oracle.maintenance;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cedrat.oracle.client.ClientOptions;
import cedrat.oracle.client.OracleClient;
import cedrat.oracle.client.Outcome;
import cedrat.oracle.client.StartTimestamp;
import cedrat.oracle.hbase.HBaseTables;
import cedrat.oracle.log.VolatileLog;
import cedrat.oracle.server.Authority;
import cedrat.oracle.server.OracleServer;
import cedrat.oracle.server.Roles;
import cedrat.oracle.server.ServerOptions;
import cedrat.oracle.tables.Bytes;
import cedrat.oracle.tables.Column;
import cedrat.oracle.tables.Granularity;
import cedrat.oracle.tables.Isolation;
import cedrat.oracle.tables.Mutation;
import cedrat.oracle.tables.Table;
import cedrat.oracle.tables.Tables;
import cedrat.oracle.tables.TransactionManager;
import cedrat.oracle.tls.TlsOptions;
import cedrat.services.Command;
import cedrat.services.HBaseCluster;
import cedrat.services.Service;
import java.io.IOException;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.net.InetSocketAddress;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.SequencedMap;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hbase.HBaseConfiguration;
import org.apache.hadoop.hbase.TableName;
import org.apache.hadoop.hbase.client.Admin;
import org.apache.hadoop.hbase.client.ConnectionFactory;
import org.apache.hadoop.hbase.client.TableDescriptorBuilder;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import picocli.CommandLine;

/// The commands over a real HBase.
@Tag("services")
@Timeout(600)
class HBaseMaintenanceTest {
    private static final Path PAGE = Path.of("../../docs/use/oracle-maintenance.md");
    private static final String HOST = "127.0.0.1";
    /// The one of the installed command.
    private static final Path RECORDS = Path.of("../oracle-server/src/main/resources/logback.xml");

    /// The first byte of a value that is no delete.
    private static final String PRESENT = "\u0001";

    private static final Column VALUE = Column.of("f", "value");

    @TempDir
    private static Path shared;

    private static HBaseCluster cluster;
    private static int number;

    @TempDir
    private Path folder;

    private final String namespace = "maintenance" + number++;
    private OracleServer server;
    private OracleClient client;
    private HBaseTables tables;
    private Table rows;

    @BeforeAll
    static void startCluster() throws Exception {
        cluster = HBaseCluster.start(shared.resolve("cluster"), 1);
    }

    @AfterAll
    static void stopCluster() {
        if (cluster != null) {
            cluster.close();
        }
    }

    @BeforeEach
    void open() throws Exception {
        server = start(ServerOptions.DEFAULTS);
        client = OracleClient.open(ClientOptions.of(server.address()));
        tables = HBaseTables.open(configuration(), client, namespace);
        rows = tables.create("rows", Granularity.ROW, List.of("f"));
    }

    @AfterEach
    void close() throws Exception {
        tables.close();
        client.close();
        server.close();
    }

    private static OracleServer start(ServerOptions options) throws Exception {
        return OracleServer.start(
                options.withListen(new InetSocketAddress(HOST, 0))
                        .withRowsLog2(10)
                        .withSessionTimeout(Duration.ofDays(1)),
                new VolatileLog());
    }

    private static String zooKeeper() {
        return HOST + ":" + cluster.zooKeeper().port();
    }

    private static Configuration configuration() {
        Configuration configuration = HBaseConfiguration.create();
        configuration.set("hbase.zookeeper.quorum", zooKeeper());
        return configuration;
    }

    private static String oracle(OracleServer server) {
        return HOST + ":" + server.address().getPort();
    }

    private record Result(int code, String out, String err) {}

    private Result run(String command, String... options) {
        StringWriter out = new StringWriter();
        StringWriter err = new StringWriter();
        Object found = new MaintenanceCommands()
                .commands().stream()
                        .filter(each -> new CommandLine(each).getCommandName().equals(command))
                        .findFirst()
                        .orElseThrow();
        int code = new CommandLine(found)
                .setOut(new PrintWriter(out))
                .setErr(new PrintWriter(err))
                .execute(options);
        return new Result(code, out.toString(), err.toString());
    }

    private Result runHere(String command, String... more) {
        List<String> options =
                new ArrayList<>(List.of("--oracle", oracle(server), "--hbase", zooKeeper(), "--namespace", namespace));
        options.addAll(List.of(more));
        return run(command, options.toArray(String[]::new));
    }

    private void put(Table table, String row) {
        try (TransactionManager manager = new TransactionManager(client, tables)) {
            manager.runInTransaction(Isolation.SNAPSHOT, transaction -> {
                transaction.put(table, Bytes.of(row), VALUE, Bytes.of(row));
                return null;
            });
        }
    }

    /// Leaves a row of a client that dies before its commit, or after it and before its clean-up.
    private StartTimestamp die(HBaseTables of, Table table, String row, boolean commits) {
        try (OracleClient dying = OracleClient.open(ClientOptions.of(server.address()))) {
            dying.use(of.namespace());
            StartTimestamp start = dying.begin();
            table.mutate(
                    Bytes.of(row),
                    new Mutation(
                            List.of(new Mutation.Version(VALUE, start.value(), Bytes.of(PRESENT + row))),
                            List.of(),
                            List.of(),
                            List.of(start.value()),
                            List.of(),
                            List.of()));
            if (commits) {
                dying.commit(start, start.value());
            }
            return start;
        }
    }

    @Test
    void commandsVisitAllTablesOnce() {
        put(rows, "a");
        put(rows, "a");
        Table later = tables.create("later", Granularity.CELL, List.of("f"));
        die(tables, later, "x", false);
        die(tables, later, "y", true);
        String all = " namespace " + namespace + " tables 2 refused 0 rows ";
        assertEquals(
                new Result(0, "sweep" + all + "2 committed 1 aborted 1 open 0 forgotten 0\n", ""), runHere("sweep"));
        Result pruned = runHere("prune");
        assertTrue(pruned.out().startsWith("prune" + all + "2 versions 1 low-water-mark "), pruned::toString);
        Result both = runHere("maintain", "--once", "--rows-per-second", "1000000");
        assertEquals(0, both.code(), both.err());
        assertEquals(2, both.out().lines().count(), both.out());
        die(tables, rows, "b", false);
        die(tables, later, "b", false);
        Result one = runHere("sweep", "--table", "later");
        assertEquals(
                "sweep namespace " + namespace + " tables 1 refused 0 rows 1 committed 0 aborted 1 open 0 "
                        + "forgotten 0\n",
                one.out());
        Result none = runHere("sweep", "--table", namespace + ":nowhere");
        assertEquals(OneRun.EXIT_REFUSED, none.code());
        assertTrue(none.err().contains("there is no table"), none.err());
    }

    /// The commands of the page, each with its output.
    private static SequencedMap<String, String> examples() throws IOException {
        SequencedMap<String, String> examples = new LinkedHashMap<>();
        String prompt = "$ cedrat-oracle ";
        String command = null;
        for (String line : Files.readAllLines(PAGE)) {
            if (line.startsWith("```")) {
                command = null;
            } else if (line.startsWith(prompt)) {
                command = line.substring(prompt.length());
                examples.put(command, "");
            } else if (command != null) {
                examples.merge(command, line + "\n", String::concat);
            }
        }
        return examples;
    }

    @Test
    void examplesOfThePageRun() throws IOException {
        put(rows, "a");
        put(rows, "a");
        die(tables, rows, "b", true);
        die(tables, rows, "c", false);
        SequencedMap<String, String> examples = examples();
        assertEquals(2, examples.size(), examples::toString);
        examples.forEach((command, output) -> {
            String[] words = command.split(" ");
            assertEquals("--hbase", words[1]);
            String expected = output.replace("namespace default", "namespace " + namespace);
            Result result = runHere(words[0], Arrays.copyOfRange(words, 3, words.length));
            assertEquals("", result.err());
            assertEquals(withoutMark(expected), withoutMark(result.out()));
        });
    }

    private static String withoutMark(String output) {
        return output.replaceAll("low-water-mark \\d+", "low-water-mark N");
    }

    @Test
    void refusedTableIsNamed() throws Exception {
        die(tables, rows, "a", false);
        tables.create("wrong", Granularity.ROW, List.of("f"));
        try (var connection = ConnectionFactory.createConnection(configuration());
                Admin admin = connection.getAdmin()) {
            TableName name = TableName.valueOf(namespace, "wrong");
            admin.modifyTable(TableDescriptorBuilder.newBuilder(admin.getDescriptor(name))
                    .setValue("CEDRAT_ORACLE", "0123456789abcdef")
                    .build());
        }
        Result swept = runHere("sweep");
        assertEquals(OneRun.EXIT_REFUSED, swept.code());
        assertTrue(swept.out().contains(" tables 1 refused 1 rows 1 committed 0 aborted 1 "), swept.out());
        assertTrue(swept.err().contains("0123456789abcdef"), swept.err());
    }

    @Test
    void certificateNeedsRoleOfCleaner() throws Exception {
        Authority authority = new Authority(folder.resolve("authority"));
        Path roles = Files.write(folder.resolve("roles"), List.of("cleaner CN=cleaner", "client CN=app"));
        try (OracleServer secured = start(ServerOptions.DEFAULTS
                .withTls(authority.issue("server", HOST, authority))
                .withRoles(Roles.read(roles)))) {
            TlsOptions cleaner = authority.issue("cleaner", HOST, authority);
            for (String command : List.of("sweep", "prune")) {
                Result done = secured(secured, cleaner, command);
                assertEquals(0, done.code(), done.err());
            }
            for (String name : List.of("app", "stranger")) {
                Result refused = secured(secured, authority.issue(name, HOST, authority), "prune");
                assertEquals(OneRun.EXIT_REFUSED, refused.code());
                assertTrue(refused.err().contains("CN=" + name), refused.err());
                assertTrue(refused.err().contains("give the name in the certificate"), refused.err());
            }
        }
    }

    private Result secured(OracleServer secured, TlsOptions files, String command) {
        return run(
                command,
                "--oracle",
                oracle(secured),
                "--hbase",
                zooKeeper(),
                "--namespace",
                "nothing",
                "--tls-certificate",
                files.certificate().toString(),
                "--tls-key",
                files.key().toString(),
                "--tls-authorities",
                files.authorities().toString());
    }

    /// Tables whose writers end with their sessions, so that a sweep need not wait for them.
    private record Prompt(Tables tables) implements Tables {
        @Override
        public Table table(String name) {
            return tables.table(name);
        }

        @Override
        public long namespace() {
            return tables.namespace();
        }

        @Override
        public List<Table> all() {
            return tables.all();
        }

        @Override
        public Duration writesLast() {
            return Duration.ZERO;
        }
    }

    private void sweep(SequencedMap<String, Tables> namespaces) {
        TestTime time = new TestTime();
        TestStore.Opener opener = new TestStore.Opener(
                () -> ClientOptions.of(server.address()), namespaces, (point, table, row, mutation) -> {}, List::of);
        time.each = wait -> wait < 2;
        Runner runner = new Runner(
                Job.SWEEP, Duration.ofSeconds(1), 0, opener, time, new Outages(time, Records.LOG), new Progress() {
                    @Override
                    public void passed(Job job, String name, Pass pass) {}

                    @Override
                    public void failed(Job job, String name) {
                        throw new AssertionError(name);
                    }
                });
        runner.run();
    }

    /// O4f: sweeps of one namespace, however many, forget nothing that rows of the other need.
    @Test
    void otherNamespaceKeepsItsOutcomes() {
        String name = namespace + "other";
        try (HBaseTables others = HBaseTables.open(configuration(), client, name)) {
            StartTimestamp start = die(others, others.create("rows", Granularity.ROW, List.of("f")), "a", true);
            SequencedMap<String, Tables> namespaces = new LinkedHashMap<>();
            namespaces.put(namespace, new Prompt(tables));
            sweep(namespaces);
            assertEquals(Outcome.Kind.COMMITTED, status(start).kind());
            namespaces.put(name, new Prompt(others));
            sweep(namespaces);
            assertEquals(Outcome.Kind.UNKNOWN, status(start).kind());
            assertEquals(
                    Bytes.of("a"),
                    new TransactionManager(client, others)
                            .runInTransaction(Isolation.SNAPSHOT, transaction -> transaction
                                    .get(others.table("rows"), Bytes.of("a"), VALUE)
                                    .orElseThrow()));
        }
    }

    private Outcome status(StartTimestamp start) {
        return client.status(start, List.of(start)).getFirst();
    }

    /// Waits for a few seconds only for what does not answer.
    private Path site() throws IOException {
        Path site = Files.createDirectories(folder.resolve("site"));
        StringBuilder xml = new StringBuilder("<configuration>");
        SequencedMap<String, String> properties = new LinkedHashMap<>();
        properties.put("hbase.zookeeper.quorum", zooKeeper());
        properties.put("hbase.rpc.timeout", "2000");
        properties.put("hbase.client.operation.timeout", "3000");
        properties.put("hbase.client.meta.operation.timeout", "3000");
        properties.put("hbase.client.scanner.timeout.period", "3000");
        properties.forEach((name, value) -> xml.append("<property><name>")
                .append(name)
                .append("</name><value>")
                .append(value)
                .append("</value></property>"));
        Files.writeString(site.resolve("hbase-site.xml"), xml.append("</configuration>"));
        return site;
    }

    private static String found(Service service, String pattern) throws IOException {
        Matcher matcher = Pattern.compile(pattern).matcher(Files.readString(service.log()));
        return matcher.find() ? matcher.group(1) : null;
    }

    private static String get(String address, String path) throws IOException {
        try {
            return HttpClient.newHttpClient()
                    .send(
                            HttpRequest.newBuilder(URI.create("http://" + address + path))
                                    .build(),
                            HttpResponse.BodyHandlers.ofString())
                    .body();
        } catch (InterruptedException interrupted) {
            throw new IOException(interrupted);
        }
    }

    /// As a process, which its parent finds as a subcommand of `cedrat-oracle`.
    @Test
    void serviceSurvivesRegionServer() throws Exception {
        die(tables, rows, "a", false);
        Service service = Command.of(
                        "the service",
                        folder.resolve("service"),
                        List.of(
                                "-Xmx128m",
                                "-XX:+UseSerialGC",
                                "-XX:TieredStopAtLevel=1",
                                "-Dlogback.configurationFile=" + RECORDS.toAbsolutePath()),
                        System.getProperty("surefire.test.class.path", System.getProperty("java.class.path")),
                        "cedrat.oracle.server.Main",
                        List.of(
                                "maintain",
                                "--oracle",
                                oracle(server),
                                "--hbase-configuration",
                                site().toString(),
                                "--namespace",
                                namespace,
                                "--sweep-every",
                                "100ms",
                                "--prune-every",
                                "1s",
                                "--metrics",
                                HOST + ":0"))
                .start();
        try (service) {
            service.awaitReady(() -> found(service, "metrics on (\\S+)") != null);
            String address = found(service, "metrics on (\\S+)");
            service.awaitReady(() -> get(address, "/health").contains("\"aborted\":1,"));
            service.awaitReady(() -> get(address, "/ready").contains("\"state\":\"working\""));
            cluster.hbase().regionServer(0).kill();
            service.awaitReady(() -> get(address, "/health").contains("\"state\":\"tables\""));
            assertTrue(get(address, "/metrics").contains("problem{kind=\"tables\"} 1"));
            cluster.hbase().restartRegionServer(0);
            service.awaitReady(() -> get(address, "/ready").contains("\"state\":\"working\""));
            die(tables, rows, "b", true);
            service.awaitReady(() -> get(address, "/health").contains("\"committed\":1,"));
            String records = Files.readString(service.log());
            assertTrue(records.contains("the store of the tables does not answer"), records);
            assertTrue(records.contains("over: "), records);
            service.stop();
            assertEquals(128 + 15, service.awaitEnd());
        }
    }
}
