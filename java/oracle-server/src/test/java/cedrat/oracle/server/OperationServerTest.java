package cedrat.oracle.server;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cedrat.oracle.log.DamagedEntryException;
import cedrat.oracle.log.Log;
import cedrat.oracle.log.OpenMode;
import cedrat.oracle.log.SharedLogs;
import cedrat.oracle.protocol.ErrorCode;
import cedrat.oracle.protocol.Protocol;
import cedrat.oracle.server.cluster.RawClient;
import java.io.IOException;
import java.io.InputStream;
import java.net.HttpURLConnection;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.net.URI;
import java.net.URL;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Collections;
import java.util.Enumeration;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.FutureTask;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/// Answers to operators.
@Timeout(120)
class OperationServerTest {
    private static final InetSocketAddress ANY = new InetSocketAddress("127.0.0.1", 0);
    private static final ServerOptions OPTIONS =
            ServerOptions.DEFAULTS.withListen(ANY).withRowsLog2(10).withSessionTimeout(Duration.ofDays(1));
    private static final Path DASHBOARD = Path.of("grafana/cedrat-oracle.json");
    private static final Path ALERTS = Path.of("prometheus/cedrat-oracle.rules.yml");
    private static final Path PAGE = Path.of("../../docs/use/oracle-metrics.md");

    private record Answer(int code, String body) {}

    private static Answer ask(OperationServer operation, String method, String path) throws IOException {
        return ask(operation.address(), method, path);
    }

    private static Answer ask(InetSocketAddress operation, String method, String path) throws IOException {
        URI uri = URI.create("http://127.0.0.1:" + operation.getPort() + path);
        HttpURLConnection connection = (HttpURLConnection) uri.toURL().openConnection();
        connection.setRequestMethod(method);
        int code = connection.getResponseCode();
        try (InputStream body = code < 400 ? connection.getInputStream() : connection.getErrorStream()) {
            return new Answer(code, new String(body.readAllBytes(), StandardCharsets.UTF_8));
        }
    }

    private static String health(OperationServer operation, String path) throws IOException {
        Answer answer = ask(operation, "GET", path);
        Matcher state =
                Pattern.compile("\\{\"state\":\"(\\w+)\",\"why\":\"(.+)\"}\n").matcher(answer.body());
        assertTrue(state.matches(), answer.body());
        return answer.code() + " " + state.group(1);
    }

    private static void assertHealth(OperationServer operation, int health, int ready, Health.State state, String why)
            throws IOException {
        String body = "{\"state\":\"" + state.name().toLowerCase(Locale.ROOT) + "\",\"why\":\"" + why + "\"}\n";
        assertEquals(new Answer(health, body), ask(operation, "GET", "/health"));
        assertEquals(new Answer(ready, body), ask(operation, "GET", "/ready"));
    }

    /// Numbers by their name and labels.
    private static Map<String, Double> metrics(OperationServer operation) throws IOException {
        Answer answer = ask(operation, "GET", "/metrics");
        assertEquals(200, answer.code(), answer.body());
        Map<String, Double> numbers = new HashMap<>();
        for (String line : answer.body().split("\n")) {
            if (!line.startsWith("#")) {
                int space = line.lastIndexOf(' ');
                String number = line.substring(space + 1);
                numbers.put(line.substring(0, space), Double.parseDouble(number));
            }
        }
        return numbers;
    }

    private static void assertMetric(double expected, Map<String, Double> metrics, String name) {
        assertEquals(expected, metrics.get("cedrat_oracle_" + name), name + " of " + new TreeSet<>(metrics.keySet()));
    }

    @Test
    void theNumbersAreThoseOfTheServer() throws Exception {
        HeldLog log = new HeldLog();
        try (OperationServer operation = new OperationServer(ANY, new Health());
                OracleServer server = OracleServer.start(OPTIONS, log);
                RawClient client = new RawClient(server, 1);
                RawClient stranger = new RawClient(server);
                RawClient other = new RawClient(server, 2)) {
            operation.serving(server);
            assertTrue(stranger.nothingArrived());
            // No two of these numbers are the same, so that none can stand for another.
            long[] losers = {client.begin(), client.begin(), client.begin()};
            long oldest = other.begin();
            for (int count = 1; count < 5; count++) {
                other.begin();
            }
            long[] winners = new long[6];
            for (int at = 0; at < winners.length; at++) {
                winners[at] = client.begin();
                client.commit(winners[at], 100 + at, 200 + at);
            }
            for (long loser : losers) {
                client.commit(loser, 100);
            }
            for (int count = 0; count < 7; count++) {
                client.ask(Protocol.END, client.begin());
            }
            for (int count = 0; count < 8; count++) {
                client.out.start(Protocol.END, 1, 1_000_000);
                client.send().refused(ErrorCode.TIMESTAMP, false);
            }
            client.out.starts(Protocol.CLEANED, 0, 1, new long[] {losers[0], winners[0], winners[1]}, 0, 3);
            assertEquals(3, client.send().receive().value());
            Map<String, Double> metrics = metrics(operation);
            assertMetric(21, metrics, "starts_total");
            assertMetric(6, metrics, "commits_total");
            assertMetric(7, metrics, "reads_total");
            assertMetric(3, metrics, "aborts_total{reason=\"conflict\"}");
            assertMetric(0, metrics, "aborts_total{reason=\"forgotten\"}");
            assertMetric(8, metrics, "refusals_total");
            assertMetric(27, metrics, "newest_timestamp");
            assertMetric(27, metrics, "kept_timestamps");
            assertMetric(28 - oldest, metrics, "low_water_age_timestamps");
            assertMetric(5, metrics, "open_transactions");
            assertMetric(2, metrics, "half_aborted");
            assertMetric(4, metrics, "half_committed");
            assertMetric(12, metrics, "snapshot_age_rows");
            assertMetric(2, metrics, "sessions");
            assertMetric(3, metrics, "connections");
            assertMetric(0, metrics, "log_lag_entries");
            assertMetric(log.appends(), metrics, "log_entries_total");
            assertMetric(21 + 9 + 7 + 8 + 1 + 2, metrics, "reply_seconds_count");
            assertMetric(log.appends(), metrics, "log_append_seconds_count");
            assertMetric(1, metrics, "state{state=\"serving\"}");
            assertTrue(metrics.get("cedrat_oracle_outcome_bytes") > 0);

            log.hold();
            long before = log.appends();
            client.out.plain(Protocol.BEGIN, 9);
            client.send();
            log.awaitAppends(before + 1);
            server.settle();
            assertMetric(1, metrics(operation), "log_lag_entries");
            log.go();
            client.receive();
            assertMetric(0, metrics(operation), "log_lag_entries");
        }
    }

    @Test
    void healthReportsStateAndCause() throws Exception {
        HeldLog log = new HeldLog();
        Health health = new Health();
        try (OperationServer operation = new OperationServer(ANY, health)) {
            assertEquals("200 starting", health(operation, "/health"));
            assertEquals("503 starting", health(operation, "/ready"));
            OracleServer server = OracleServer.start(OPTIONS, log);
            operation.serving(server);
            assertEquals("200 serving", health(operation, "/health"));
            assertEquals("200 serving", health(operation, "/ready"));
            assertEquals(404, ask(operation, "GET", "/metrics/more").code());
            assertEquals(404, ask(operation, "GET", "/").code());
            assertEquals(405, ask(operation, "POST", "/health").code());
            log.fail(new IOException("the \"disk\" is gone"));
            while (health.now().state() == Health.State.SERVING) {
                Thread.onSpinWait();
            }
            assertEquals("503 failed", health(operation, "/health"));
            assertTrue(ask(operation, "GET", "/health").body().contains("the \\\"disk\\\" is gone"));
            assertMetric(1, metrics(operation), "state{state=\"failed\"}");
            server.close();
            assertEquals("503 failed", health(operation, "/health"), "still");
        }
        try (OperationServer operation = new OperationServer(ANY, new Health())) {
            OracleServer server = OracleServer.start(OPTIONS, new HeldLog());
            operation.serving(server);
            server.close();
            assertEquals("503 ended", health(operation, "/health"));
        }
    }

    /// A server that waits for its turn is well, and not ready; one that has stopped is neither.
    @Test
    void eachStateHasItsAnswers() throws Exception {
        Health health = new Health();
        try (OperationServer operation = new OperationServer(ANY, health)) {
            assertHealth(operation, 200, 503, Health.State.STARTING, "the log is being opened");
            health.become(Health.State.STANDBY, "another \"leads\"\n");
            assertHealth(operation, 200, 503, Health.State.STANDBY, "another \\\"leads\\\"\\u000a");
            health.become(Health.State.SERVING, "it serves");
            assertHealth(operation, 200, 200, Health.State.SERVING, "it serves");
            health.become(Health.State.ENDED, "C:\\ is full");
            assertHealth(operation, 503, 503, Health.State.ENDED, "C:\\\\ is full");
            health.become(Health.State.FAILED, "the disk is gone");
            assertHealth(operation, 503, 503, Health.State.FAILED, "the disk is gone");
            health.become(Health.State.ENDED, "it was stopped");
            assertHealth(operation, 503, 503, Health.State.FAILED, "the disk is gone");
            for (Health.State state : Health.State.values()) {
                String name = state.name().toLowerCase(Locale.ROOT);
                int expected = state == Health.State.FAILED ? 1 : 0;
                assertMetric(expected, metrics(operation), "state{state=\"" + name + "\"}");
            }
        }
    }

    /// A log that several servers share; the test says when this one has its turn. Found as a service.
    public static final class ByTurns implements SharedLogs {
        static volatile CountDownLatch waits;
        static volatile CompletableFuture<Log> turn;

        @Override
        public void read(Place place, Log.Replay replay) {
            throw new AssertionError("no test reads it");
        }

        @Override
        public Log make(Place place, OpenMode mode) {
            return new Log() {
                @Override
                public void open(Replay replay, Listener listener) throws IOException, DamagedEntryException {
                    waits.countDown();
                    try {
                        turn.join().open(replay, listener);
                    } catch (CompletionException refused) {
                        throw new IOException(refused.getCause());
                    }
                }

                @Override
                public int appendsMax() {
                    return turn.join().appendsMax();
                }

                @Override
                public long append(byte[] bytes, int from, int length) {
                    return turn.join().append(bytes, from, length);
                }

                @Override
                public void forgetBefore(long number) {
                    turn.join().forgetBefore(number);
                }

                @Override
                public void close() throws IOException {
                    if (!turn.isCompletedExceptionally()) {
                        turn.join().close();
                    }
                }
            };
        }

        /// A class loader that knows of this log alone.
        static ClassLoader loader(Path folder) throws IOException {
            Path services = folder.resolve("services");
            Files.writeString(services, ByTurns.class.getName());
            return new ClassLoader(ByTurns.class.getClassLoader()) {
                @Override
                public Enumeration<URL> getResources(String name) throws IOException {
                    return name.equals("META-INF/services/" + SharedLogs.class.getName())
                            ? Collections.enumeration(List.of(services.toUri().toURL()))
                            : super.getResources(name);
                }
            };
        }
    }

    /// Answers of `cedrat-oracle serve` while another server has the log, and when its turn has come.
    @Test
    void serverAwaitingItsTurnIsStandby(@TempDir Path folder) throws Exception {
        for (boolean isRefused : new boolean[] {false, true}) {
            InetSocketAddress operation;
            try (ServerSocket reserved = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
                operation = (InetSocketAddress) reserved.getLocalSocketAddress();
            }
            ByTurns.waits = new CountDownLatch(1);
            ByTurns.turn = new CompletableFuture<>();
            FutureTask<Integer> serving = new FutureTask<>(() -> Main.run(
                    "serve",
                    "--log",
                    "bookkeeper",
                    "--zookeeper",
                    "unreachable:1",
                    "--port",
                    "0",
                    "--metrics",
                    "127.0.0.1:" + operation.getPort()));
            Thread thread = new Thread(serving);
            thread.setContextClassLoader(ByTurns.loader(folder));
            thread.start();
            ByTurns.waits.await();
            Answer expected = new Answer(
                    200, "{\"state\":\"standby\",\"why\":\"standing by, while another server may have the log\"}\n");
            assertEquals(expected, ask(operation, "GET", "/health"));
            assertEquals(new Answer(503, expected.body()), ask(operation, "GET", "/ready"));
            assertTrue(ask(operation, "GET", "/metrics").body().contains("state{state=\"standby\"} 1"));
            if (isRefused) {
                ByTurns.turn.completeExceptionally(new IOException("no turn"));
                assertEquals(Main.EXIT_CANNOT_START, serving.get());
            } else {
                HeldLog log = new HeldLog();
                ByTurns.turn.complete(log);
                while (ask(operation, "GET", "/health").equals(expected)) {
                    Thread.onSpinWait();
                }
                assertTrue(ask(operation, "GET", "/health").body().startsWith("{\"state\":\"serving\""));
                assertEquals(200, ask(operation, "GET", "/ready").code());
                log.fail(new IOException("fenced"));
                assertEquals(Main.EXIT_LOG_FAILED, serving.get());
            }
            assertThrows(IOException.class, () -> ask(operation, "GET", "/health"), "the port is closed");
        }
    }

    /// A decide thread that hangs is not healthy, and requests do not wait for it.
    @Test
    void aDecideThreadThatHangsIsNoticed() throws Exception {
        try (OperationServer operation = new OperationServer(ANY, new Health());
                OracleServer server = OracleServer.start(OPTIONS, new HeldLog())) {
            operation.serving(server);
            OracleServer.Hanging hanging = server.hang();
            try {
                assertHealth(
                        operation, 503, 503, Health.State.SERVING, "the deciding thread has not answered for a second");
                assertEquals(503, ask(operation, "GET", "/metrics").code());
            } finally {
                hanging.close();
            }
            assertEquals("200 serving", health(operation, "/health"));
        }
    }

    /// Between its end and word of it.
    @Test
    void endedDecideThreadIsReported() throws Exception {
        Health health = new Health();
        try (OperationServer operation = new OperationServer(ANY, health)) {
            OracleServer server = OracleServer.start(OPTIONS, new HeldLog());
            operation.serving(server);
            server.close();
            assertHealth(operation, 503, 503, Health.State.ENDED, "it was stopped");
            health.become(Health.State.SERVING, "it has not heard of it");
            assertHealth(operation, 503, 503, Health.State.SERVING, "the deciding thread has ended");
            assertEquals(503, ask(operation, "GET", "/metrics").code());
        }
    }

    private static void use(RawClient client, long namespace) throws Exception {
        client.out.namespace(client.id(), namespace, 0);
        assertEquals(Protocol.NAMESPACE, client.send().receive().request());
    }

    /// However many namespaces there are, the metrics name those that hold back the others, and few.
    @Test
    void leastSweptNamespacesHaveAMetric() throws Exception {
        try (OperationServer operation = new OperationServer(ANY, new Health());
                OracleServer server = OracleServer.start(OPTIONS, new HeldLog());
                RawClient client = new RawClient(server, 1)) {
            operation.serving(server);
            for (int number = 1; number <= 40; number++) {
                use(client, -number);
                long mark = client.begin();
                client.ask(Protocol.END, mark);
                // Numbers 40 and 30 stay without a sweep.
                if (number % 40 != 0 && number != 30) {
                    client.out.swept(client.id(), -number, mark, 1);
                    assertEquals(Protocol.SWEPT, client.send().receive().request());
                }
            }
            Map<String, Double> metrics = metrics(operation);
            assertMetric(40, metrics, "namespaces");
            String age = "sweep_age_timestamps{namespace=\"ffffffffffffff%02x\"}";
            assertMetric(40, metrics, age.formatted(256 - 40));
            assertMetric(40, metrics, age.formatted(256 - 30));
            for (int number = 1; number <= 14; number++) {
                assertMetric(40 - number, metrics, age.formatted(256 - number));
            }
            assertEquals(
                    16,
                    metrics.keySet().stream()
                            .filter(name -> name.contains("sweep_age"))
                            .count());
        }
    }

    private static Set<String> served() throws Exception {
        try (OperationServer operation = new OperationServer(ANY, new Health());
                OracleServer server = OracleServer.start(OPTIONS, new HeldLog());
                RawClient client = new RawClient(server, 1)) {
            operation.serving(server);
            use(client, 1);
            return metrics(operation).keySet().stream()
                    .map(name -> name.replaceFirst("\\{.*", ""))
                    .collect(Collectors.toSet());
        }
    }

    private static Set<String> named(Path file) throws IOException {
        Set<String> names = new HashSet<>();
        Matcher name = Pattern.compile("cedrat_oracle_\\w+").matcher(Files.readString(file));
        while (name.find()) {
            names.add(name.group());
        }
        return names;
    }

    /// Each query of the dashboard and of the alerts asks for something that there is, and each metric is on the
    /// page.
    @Test
    void dashboardAndPageNameServedMetrics() throws Exception {
        Set<String> served = served();
        Set<String> shown = named(DASHBOARD);
        assertTrue(shown.size() > 15, shown.toString());
        Set<String> watched = named(ALERTS);
        assertTrue(watched.size() > 6, watched.toString());
        shown.addAll(watched);
        shown.removeAll(served);
        assertEquals(Set.of(), shown, "asked for, and not served");
        Set<String> explained = named(PAGE);
        Set<String> metrics = served.stream()
                .map(name -> name.replaceFirst("_seconds_(bucket|sum|count)$", "_seconds"))
                .collect(Collectors.toSet());
        assertEquals(new TreeSet<>(metrics), new TreeSet<>(explained));
        assertFalse(served.isEmpty());
    }

    @Test
    void durationsAreCountedInTheirBuckets() {
        Durations durations = new Durations();
        durations.record(-5, 1); // a clock that goes back
        durations.record(999, 2);
        durations.record(1_000, 1);
        durations.record(3_999, 1);
        durations.record(4_000, 1);
        durations.record(3_600_000_000_000L, 1);
        Durations.Copy copy = durations.copy();
        durations.record(1, 1);
        long[] expected = new long[Durations.BUCKETS + 1];
        expected[0] = 3;
        expected[1] = 1;
        expected[2] = 1;
        expected[3] = 1;
        expected[Durations.BUCKETS] = 1;
        for (int bucket = 0; bucket <= Durations.BUCKETS; bucket++) {
            assertEquals(expected[bucket], copy.counts()[bucket], "bucket " + bucket);
        }
        assertEquals(1e-6, Durations.Copy.endSeconds(0));
        assertEquals(3_600_000_000_000L + 2 * 999 + 1_000 + 3_999 + 4_000, copy.nanos());
    }
}
