package cedrat.oracle.server;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cedrat.oracle.protocol.ErrorCode;
import cedrat.oracle.protocol.Protocol;
import java.io.IOException;
import java.io.InputStream;
import java.net.HttpURLConnection;
import java.net.InetSocketAddress;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/// What operators are told.
@Timeout(120)
class OperationServerTest {
    private static final InetSocketAddress ANY = new InetSocketAddress("127.0.0.1", 0);
    private static final ServerOptions OPTIONS =
            ServerOptions.DEFAULTS.withListen(ANY).withRowsLog2(10).withSessionTimeout(Duration.ofDays(1));
    private static final Path DASHBOARD = Path.of("grafana/cedrat-oracle.json");
    private static final Path PAGE = Path.of("../../docs/use/oracle-metrics.md");

    private record Answer(int code, String body) {}

    private static Answer ask(OperationServer operation, String method, String path) throws IOException {
        URI uri = URI.create("http://127.0.0.1:" + operation.address().getPort() + path);
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
                RawClient other = new RawClient(server, 2)) {
            operation.serving(server);
            long first = client.begin();
            long second = client.begin();
            long third = other.begin();
            client.commit(first, 7);
            client.commit(second, 7);
            client.out.start(Protocol.END, 1, 1_000_000);
            client.send().refused(ErrorCode.TIMESTAMP, false);
            long reader = client.begin();
            client.ask(Protocol.END, reader);
            Map<String, Double> metrics = metrics(operation);
            assertMetric(4, metrics, "starts_total");
            assertMetric(1, metrics, "commits_total");
            assertMetric(1, metrics, "reads_total");
            assertMetric(1, metrics, "aborts_total{reason=\"conflict\"}");
            assertMetric(0, metrics, "aborts_total{reason=\"forgotten\"}");
            assertMetric(1, metrics, "refusals_total");
            assertMetric(5, metrics, "newest_timestamp");
            assertMetric(5, metrics, "kept_timestamps");
            assertMetric(6 - third, metrics, "low_water_age_timestamps");
            assertMetric(1, metrics, "open_transactions");
            assertMetric(1, metrics, "half_aborted");
            assertMetric(1, metrics, "half_committed");
            assertMetric(1, metrics, "snapshot_age_rows");
            assertMetric(2, metrics, "sessions");
            assertMetric(2, metrics, "connections");
            assertMetric(0, metrics, "log_lag_entries");
            assertMetric(log.appends(), metrics, "log_entries_total");
            assertMetric(10, metrics, "reply_seconds_count");
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
    void healthSaysWhatTheServerDoesAndWhy() throws Exception {
        HeldLog log = new HeldLog();
        Health health = new Health();
        try (OperationServer operation = new OperationServer(ANY, health)) {
            assertEquals("200 starting", health(operation, "/health"));
            assertEquals("503 starting", health(operation, "/ready"));
            health.become(Health.State.STANDBY, "another \"leads\"\n");
            assertEquals("200 standby", health(operation, "/health"));
            assertEquals("503 standby", health(operation, "/ready"));
            assertMetric(1, metrics(operation), "state{state=\"standby\"}");
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

    /// Who decides no longer is not healthy, and is not waited for.
    @Test
    void aDecideThreadThatHangsIsNoticed() throws Exception {
        try (OperationServer operation = new OperationServer(ANY, new Health());
                OracleServer server = OracleServer.start(OPTIONS, new HeldLog())) {
            operation.serving(server);
            OracleServer.Hanging hanging = server.hang();
            try {
                assertEquals("503 serving", health(operation, "/health"));
                assertEquals(503, ask(operation, "GET", "/metrics").code());
            } finally {
                hanging.close();
            }
            assertEquals("200 serving", health(operation, "/health"));
        }
    }

    private static Set<String> served() throws Exception {
        try (OperationServer operation = new OperationServer(ANY, new Health());
                OracleServer server = OracleServer.start(OPTIONS, new HeldLog())) {
            operation.serving(server);
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

    /// Each query of the dashboard asks for something that there is, and each metric is on the page.
    @Test
    void theDashboardAndThePageNameWhatIsServed() throws Exception {
        Set<String> served = served();
        Set<String> shown = named(DASHBOARD);
        assertTrue(shown.size() > 15, shown.toString());
        shown.removeAll(served);
        assertEquals(Set.of(), shown, "shown, and not served");
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
