package cedrat.oracle.maintenance;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cedrat.oracle.client.ClientOptions;
import cedrat.oracle.client.OracleClient;
import cedrat.oracle.client.OracleIdentity;
import cedrat.oracle.log.VolatileLog;
import cedrat.oracle.server.OracleServer;
import cedrat.oracle.server.ServerOptions;
import cedrat.oracle.tables.Bytes;
import cedrat.oracle.tables.Column;
import cedrat.oracle.tables.Granularity;
import cedrat.oracle.tables.HookedTables;
import cedrat.oracle.tables.Isolation;
import cedrat.oracle.tables.MemoryTables;
import cedrat.oracle.tables.Mutation;
import cedrat.oracle.tables.Table;
import cedrat.oracle.tables.TableException;
import cedrat.oracle.tables.Tables;
import cedrat.oracle.tables.TransactionManager;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.time.Duration;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.SequencedMap;
import java.util.Set;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/// The jobs of the service, over tables in memory.
@Timeout(120)
class RunnerTest {
    private static final Column VALUE = Column.of("f", "value");
    private static final Duration EVERY = Duration.ofSeconds(30);

    private final TestTime time = new TestTime();
    private final List<String> records = new ArrayList<>();
    private final List<String> results = new ArrayList<>();
    private final SequencedMap<String, Tables> namespaces = new LinkedHashMap<>();
    private final MemoryTables tables = new MemoryTables();
    private final Table rows = tables.create("rows", Granularity.ROW);
    private List<String> refused = List.of();
    private HookedTables.Hook hook = (point, table, row, mutation) -> {};
    private OracleServer server;
    private OracleClient client;
    private ClientOptions options;

    @BeforeEach
    void open() throws Exception {
        server = start(new InetSocketAddress("127.0.0.1", 0));
        options = ClientOptions.of(server.address());
        client = OracleClient.open(options);
        namespaces.put("default", tables);
        put("a", "first");
    }

    @AfterEach
    void close() throws Exception {
        client.close();
        server.close();
    }

    private static OracleServer start(InetSocketAddress address) throws Exception {
        return OracleServer.start(
                ServerOptions.DEFAULTS.withListen(address).withRowsLog2(10).withSessionTimeout(Duration.ofDays(1)),
                new VolatileLog());
    }

    private void put(String row, String value) {
        try (TransactionManager manager = new TransactionManager(client, tables)) {
            manager.runInTransaction(Isolation.SNAPSHOT, transaction -> {
                transaction.put(rows, Bytes.of(row), VALUE, Bytes.of(value));
                return null;
            });
        }
    }

    /// Leaves a row of a client that has died before its commit.
    private void die(String row) {
        try (OracleClient dying = OracleClient.open(options)) {
            dying.useWhileOpen(tables.namespace());
            write(dying, rows, row);
        }
    }

    /// Writes a row as a transaction does before its commit.
    private static void write(OracleClient by, Table table, String row) {
        long start = by.begin().value();
        table.mutate(
                Bytes.of(row),
                new Mutation(
                        List.of(new Mutation.Version(VALUE, start, Bytes.of(row))),
                        List.of(),
                        List.of(),
                        List.of(start),
                        List.of(),
                        List.of()));
    }

    private Runner runner(Job job) {
        return runner(job, 0);
    }

    private Runner runner(Job job, long rowsPerSecond) {
        TestStore.Opener opener = new TestStore.Opener(
                () -> options,
                namespaces,
                (point, table, row, mutation) -> hook.reached(point, table, row, mutation),
                () -> refused);
        Outages outages = new Outages(time, new Records() {
            @Override
            public void began(Problem problem) {
                records.add("began " + problem.kind() + ": " + problem.description());
            }

            @Override
            public void ended(Problem problem, Duration lasted, long failures) {
                records.add("ended " + problem.kind() + " after " + lasted.toSeconds() + " s, " + failures);
            }
        });
        return new Runner(job, EVERY, rowsPerSecond, opener, time, outages, new Progress() {
            @Override
            public void passed(Job of, String namespace, Pass pass) {
                results.add(of + " " + namespace + " " + pass.tables() + " " + pass.figures());
            }

            @Override
            public void failed(Job of, String namespace) {
                results.add(of + " " + namespace + " failed");
            }
        });
    }

    @Test
    void jobsAreRepeatedUntilTheStop() {
        die("b");
        time.each = wait -> {
            assertEquals(wait, results.size());
            return wait < 3;
        };
        runner(Job.SWEEP).run();
        assertEquals(List.of(EVERY, EVERY, EVERY), time.waits);
        assertEquals("sweep default 1 {rows=1, committed=0, aborted=1, open=0, forgotten=1}", results.getFirst());
        assertEquals("sweep default 1 {rows=0, committed=0, aborted=0, open=0, forgotten=0}", results.getLast());
        assertEquals(List.of(), records);
    }

    @Test
    void pruningRemovesOldVersions() {
        put("a", "second");
        put("a", "third");
        time.each = wait -> false;
        runner(Job.PRUNE).run();
        assertTrue(results.getFirst().startsWith("prune default 1 {rows=1, versions=2, "), results::toString);
    }

    /// A table that is created while the service runs is found.
    @Test
    void newTablesAreVisited() {
        time.each = wait -> {
            tables.create("more" + wait, Granularity.ROW);
            return wait < 2;
        };
        runner(Job.SWEEP).run();
        assertTrue(results.getLast().startsWith("sweep default 2 "), results::toString);
    }

    private static TableException outage(int number) {
        return new TableException(
                TableException.Effect.NONE, "region server " + number + " is gone", new IllegalStateException());
    }

    /// One record for the begin and one for the end, and pauses that grow up to a bound.
    @Test
    void outageOfTablesIsSurvived() {
        int failures = 20;
        int[] calls = {0};
        die("b");
        hook = (point, table, row, mutation) -> {
            if (point == HookedTables.Point.BEFORE_READ && calls[0]++ < failures) {
                throw outage(calls[0]);
            }
        };
        time.each = wait -> wait <= failures;
        runner(Job.SWEEP).run();
        assertEquals(failures + 1, results.size(), results::toString);
        assertTrue(results.getLast().contains("aborted=1"), results::toString);
        assertEquals(2, records.size(), records::toString);
        assertTrue(records.getFirst().contains("region server 1 is gone"), records::toString);
        assertTrue(records.getLast().startsWith("ended tables after "), records::toString);
        assertTrue(records.getLast().endsWith(", " + failures), records::toString);
        assertEquals(Duration.ofSeconds(1), time.waits.getFirst());
        assertEquals(Duration.ofSeconds(2), time.waits.get(1));
        assertEquals(Runner.BACK_OFF_MAX, time.waits.get(failures - 1));
        assertEquals(EVERY, time.waits.getLast());
    }

    private static InetSocketAddress closed() throws Exception {
        try (ServerSocket reserved = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
            return (InetSocketAddress) reserved.getLocalSocketAddress();
        }
    }

    /// The oracle comes back where it was expected, or elsewhere: the store is opened anew in the end.
    @Test
    void outageOfOracleIsSurvived() throws Exception {
        die("b");
        ClientOptions right = options;
        options = ClientOptions.of(closed()).withPatience(Duration.ofMillis(1));
        time.each = wait -> {
            if (wait == 2) {
                options = right;
            }
            return !results.getLast().contains("rows");
        };
        runner(Job.SWEEP).run();
        assertTrue(results.getLast().contains("aborted=1, open=0, forgotten=1"), results::toString);
        assertEquals(2, records.size(), records::toString);
        assertTrue(records.getFirst().startsWith("began oracle: the oracle does not answer"), records::toString);
        assertTrue(records.getLast().startsWith("ended oracle"), records::toString);
    }

    /// O4h: the rows of the other tables are cleaned, but nothing is forgotten.
    @Test
    void refusedTableLeavesOthersClean() {
        tables.create("wrong", Granularity.ROW);
        die("b");
        refused = List.of("wrong");
        time.each = wait -> {
            if (wait == 3) {
                refused = List.of();
            }
            return wait < 4;
        };
        runner(Job.SWEEP).run();
        assertEquals("sweep default 1 {rows=1, committed=0, aborted=1, open=0, forgotten=0}", results.getFirst());
        assertEquals("sweep default 2 {rows=0, committed=0, aborted=0, open=0, forgotten=1}", results.getLast());
        assertEquals(
                List.of(
                        "began refusal: refused until this is mended: table wrong is refused: alter it",
                        "ended refusal after 7 s, 3"),
                records);
    }

    /// O4h: a table that is disabled while the service runs.
    @Test
    void tableRefusedDuringPassLeavesOthersClean() {
        Table before = tables.create("before", Granularity.ROW);
        try (TransactionManager manager = new TransactionManager(client, tables)) {
            manager.runInTransaction(Isolation.SNAPSHOT, transaction -> {
                transaction.put(before, Bytes.of("a"), VALUE, Bytes.of("x"));
                return null;
            });
        }
        die("b");
        hook = (point, table, row, mutation) -> {
            if (table.name().equals("before") && time.waits.size() < 2) {
                throw new TableException(TableException.Effect.NONE, "table before is disabled: enable it", null);
            }
        };
        time.each = wait -> wait < 3;
        runner(Job.SWEEP).run();
        assertEquals("sweep default 1 {rows=1, committed=0, aborted=1, open=0, forgotten=0}", results.getFirst());
        assertEquals("sweep default 2 {rows=0, committed=0, aborted=0, open=0, forgotten=1}", results.getLast());
        assertEquals(2, records.size(), records::toString);
        results.clear();
        time.again();
        runner(Job.PRUNE).run();
        assertTrue(results.getFirst().startsWith("prune default 1 {rows=1, "), results::toString);
    }

    /// O7f: also where the tables name no oracle. Another oracle knows none of their transactions, and its
    /// cleaner would remove what was committed.
    @Test
    void anotherOracleIsRefused() throws Exception {
        namespaces.put("default", new Tables() {
            @Override
            public Table table(String name) {
                return tables.table(name);
            }

            @Override
            public List<Table> all() {
                return tables.all();
            }

            @Override
            public void bind(OracleIdentity any) {
                // as HBase's tables of earlier versions
            }

            @Override
            public Duration writesLast() {
                return Duration.ZERO;
            }
        });
        write(client, rows, "b");
        InetSocketAddress address = server.address();
        time.each = wait -> {
            if (wait == 1) {
                try {
                    server.close();
                    server = start(address);
                    issueAsMany();
                } catch (Exception problem) {
                    throw new AssertionError(problem);
                }
            }
            return wait < 5;
        };
        runner(Job.SWEEP).run();
        assertTrue(results.getFirst().contains("open=1"), results::toString);
        assertEquals(
                List.of("sweep default failed", "sweep default failed", "sweep default failed", "sweep default failed"),
                results.subList(1, 5));
        assertTrue(records.getFirst().startsWith("began refusal: "), records::toString);
        assertFalse(records.stream().anyMatch(record -> record.startsWith("ended")), records::toString);
        assertEquals(
                1, rows.read(Bytes.of("b"), Set.of(), Long.MAX_VALUE).pending().size());
    }

    /// Has the other oracle issue the timestamps of the first one, so that nothing else distinguishes them.
    private void issueAsMany() {
        try (OracleClient other = OracleClient.open(options)) {
            for (int count = 0; count < 100; count++) {
                other.end(other.begin());
            }
        }
    }

    /// O4f: the sweep of one namespace forgets nothing that the rows of the other need.
    @Test
    void otherNamespaceHoldsBackForgetting() {
        MemoryTables others = new MemoryTables();
        Table other = others.create("other", Granularity.ROW);
        client.use(others.namespace());
        client.use(tables.namespace());
        try (OracleClient dying = OracleClient.open(options)) {
            write(dying, other, "x");
        }
        time.each = wait -> wait < 3;
        runner(Job.SWEEP).run();
        results.forEach(result -> assertTrue(result.contains("forgotten=0"), result));
        results.clear();
        namespaces.put("others", others);
        time.again();
        runner(Job.SWEEP).run();
        assertEquals(
                List.of(
                        "sweep default 1 {rows=0, committed=0, aborted=0, open=0, forgotten=0}",
                        "sweep others 1 {rows=1, committed=0, aborted=1, open=0, forgotten=1}"),
                results.subList(0, 2));
    }

    @Test
    void rowsPerSecondAreBounded() {
        for (int row = 0; row < 1000; row++) {
            put("row" + row, "x");
        }
        time.each = wait -> results.isEmpty();
        runner(Job.PRUNE, 100).run();
        Duration all = time.waits.stream().reduce(Duration.ZERO, Duration::plus).minus(time.waits.getLast());
        assertEquals(Duration.ofMillis(10_010), all, time.waits::toString);
    }

    /// The next batch is not visited.
    @Test
    void stopEndsPass() {
        for (int row = 0; row < 1000; row++) {
            put("row" + row, "x");
        }
        int[] reads = {0};
        hook = (point, table, row, mutation) -> {
            if (point == HookedTables.Point.BEFORE_READ && ++reads[0] == 300) {
                time.stop();
            }
        };
        runner(Job.PRUNE).run();
        assertEquals(512, reads[0]);
        assertEquals(List.of(), results);
        assertEquals(List.of(), records);
    }

    /// A bug is reported, and the other passes go on.
    @Test
    void unexpectedFailureIsRepeated() {
        hook = (point, table, row, mutation) -> {
            if (time.waits.size() == 1) {
                throw new IllegalStateException("bug");
            }
        };
        time.each = wait -> wait < 3;
        runner(Job.SWEEP).run();
        assertEquals(
                List.of(
                        "began fault: unexpected failure; please report it: java.lang.IllegalStateException: bug",
                        "ended fault after 1 s, 1"),
                records);
    }
}
