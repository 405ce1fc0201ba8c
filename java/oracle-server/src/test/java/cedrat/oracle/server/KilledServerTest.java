package cedrat.oracle.server;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cedrat.oracle.client.ClientOptions;
import cedrat.oracle.client.CommitTimestamp;
import cedrat.oracle.client.OracleClient;
import cedrat.oracle.client.Outcome;
import cedrat.oracle.client.StartTimestamp;
import cedrat.oracle.server.cluster.History;
import java.io.BufferedReader;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.SplittableRandom;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Semaphore;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/// A server in a process of its own, on the embedded log, that is killed while clients are at work, and
/// starts again.
@Timeout(300)
class KilledServerTest {
    private static final int CLIENTS = 4;
    private static final int KILLS = 3;
    private static final int COMMITS_BETWEEN = 400;

    /// So few that it forgets something.
    private static final int LOG_BYTES_MAX = 4 << 20;

    @TempDir
    Path folder;

    private Path data() {
        return folder.resolve("log");
    }

    @BeforeEach
    void initialise() {
        assertEquals(
                0,
                Main.run(
                        "init",
                        "--log",
                        "embedded",
                        "--data",
                        data().toString(),
                        "--log-bytes-max",
                        "" + LOG_BYTES_MAX));
    }

    /// A running `cedrat-oracle serve`.
    private record Server(Process process, InetSocketAddress address) {
        /// Starts one, which may be refused.
        static Process spawn(Path data, int port) throws IOException {
            List<String> command = List.of(
                    Path.of(System.getProperty("java.home"), "bin", "java").toString(),
                    "-Xmx128m",
                    "--enable-native-access=ALL-UNNAMED",
                    "-Dcedrat.library=" + System.getProperty("cedrat.library"),
                    "-cp",
                    System.getProperty("surefire.test.class.path", System.getProperty("java.class.path")),
                    Main.class.getName(),
                    "serve",
                    "--log",
                    "embedded",
                    "--data",
                    data.toString(),
                    "--log-bytes-max",
                    "" + LOG_BYTES_MAX,
                    "--rows-log2",
                    "12",
                    "--port",
                    "" + port);
            return new ProcessBuilder(command)
                    .redirectError(ProcessBuilder.Redirect.INHERIT)
                    .start();
        }

        /// Starts one, and returns when it serves.
        static Server start(Path data, int port) throws IOException {
            Process process = spawn(data, port);
            BufferedReader said = process.inputReader(StandardCharsets.UTF_8);
            String line = said.readLine();
            assertTrue(line != null && line.startsWith("listening on "), line);
            int colon = line.lastIndexOf(':');
            return new Server(process, new InetSocketAddress("127.0.0.1", Integer.parseInt(line.substring(colon + 1))));
        }

        void kill() throws InterruptedException {
            process.destroyForcibly();
            assertEquals(128 + 9, process.waitFor(), "it was killed");
        }

        void end() throws InterruptedException {
            process.destroy();
            assertEquals(128 + 15, process.waitFor(), "it has ended by itself");
        }
    }

    private static OracleClient connect(InetSocketAddress address) {
        return OracleClient.open(ClientOptions.of(address)
                .withPatience(Duration.ofMinutes(2))
                .withReconnect(Duration.ofMillis(1), Duration.ofMillis(20)));
    }

    /// Commits few rows again and again, until it is stopped.
    private static final class Worker extends Thread {
        private final InetSocketAddress address;
        private final SplittableRandom random;
        private final History history;
        private final Semaphore committed;
        final Map<StartTimestamp, CommitTimestamp> commits = new HashMap<>();
        final Set<StartTimestamp> aborted = new HashSet<>();
        volatile boolean ends;
        volatile Throwable failure;

        Worker(InetSocketAddress address, int seed, History history, Semaphore committed) {
            this.address = address;
            this.random = new SplittableRandom(seed);
            this.history = history;
            this.committed = committed;
        }

        @Override
        public void run() {
            try (OracleClient oracle = connect(address)) {
                while (!ends) {
                    StartTimestamp start = oracle.begin();
                    Set<Long> rows = new HashSet<>();
                    for (int count = random.nextInt(1, 4); count > 0; count--) {
                        rows.add(1 + random.nextLong(40));
                    }
                    Outcome outcome = oracle.commit(
                            start, rows.stream().mapToLong(Long::longValue).toArray());
                    if (outcome.kind() == Outcome.Kind.COMMITTED) {
                        CommitTimestamp at = outcome.commitTimestamp();
                        commits.put(start, at);
                        history.add(new History.Transaction(start.value(), at.value(), rows, Map.of()));
                    } else {
                        assertEquals(Outcome.Kind.ABORTED, outcome.kind());
                        aborted.add(start);
                        history.add(new History.Transaction(start.value(), 0, rows, Map.of()));
                    }
                    committed.release();
                }
            } catch (Throwable problem) {
                failure = problem;
                committed.release(COMMITS_BETWEEN * KILLS); // the test must not wait for it
            }
        }
    }

    /// O3, O5, L2: whatever was answered holds, timestamps go on above what was given out, what was open may
    /// commit, and a commit that was on its way is decided once.
    @Test
    void answeredCommitsSurviveKilledServer() throws Exception {
        Server server = Server.start(data(), 0);
        try {
            History history = new History();
            Semaphore committed = new Semaphore(0);
            List<Worker> workers = new ArrayList<>();
            for (int number = 0; number < CLIENTS; number++) {
                Worker worker = new Worker(server.address(), number, history, committed);
                worker.start();
                workers.add(worker);
            }
            try (OracleClient oracle = connect(server.address())) {
                for (int kill = 0; kill < KILLS; kill++) {
                    committed.acquire(COMMITS_BETWEEN);
                    StartTimestamp open = oracle.begin();
                    StartTimestamp given = oracle.begin();
                    oracle.abort(given);
                    committed.acquire(COMMITS_BETWEEN / 4);
                    server.kill();
                    // Before the server is back: others soon commit more rows than it remembers (T_max).
                    CompletableFuture<Outcome> committing = oracle.commitAsync(open, 1_000_000 + kill);
                    server = Server.start(data(), server.address().getPort());
                    CommitTimestamp at = committing.join().commitTimestamp();
                    history.add(new History.Transaction(open.value(), at.value(), Set.of(1_000_000L + kill), Map.of()));
                    assertEquals(Outcome.Kind.ABORTED, oracle.resolve(given).kind(), "it was aborted");
                }
                for (Worker worker : workers) {
                    worker.ends = true;
                }
                for (Worker worker : workers) {
                    worker.join();
                    assertEquals(null, worker.failure);
                }
                server.kill();
                server = Server.start(data(), server.address().getPort());
                for (Worker worker : workers) {
                    worker.commits.forEach(
                            (start, at) -> assertEquals(Outcome.committed(at), oracle.resolve(start), "O3: " + start));
                    worker.aborted.forEach(start -> assertEquals(
                            Outcome.Kind.ABORTED, oracle.resolve(start).kind(), "O3: " + start));
                }
            }
            history.check(); // no timestamp twice, no two that overlap
            assertTrue(history.committed() >= COMMITS_BETWEEN * KILLS / 4, history.committed() + " have committed");
            server.end();
        } finally {
            server.process().destroyForcibly();
        }
    }

    /// L4: the second one ends before it has said that it listens.
    @Test
    void twoServersDoNotShareALog() throws Exception {
        Server server = Server.start(data(), 0);
        try {
            Process second = Server.spawn(data(), 0);
            try {
                assertNull(second.inputReader(StandardCharsets.UTF_8).readLine());
                assertEquals(Main.EXIT_CANNOT_START, second.waitFor());
            } finally {
                second.destroyForcibly();
            }
            server.end();
        } finally {
            server.process().destroyForcibly();
        }
    }

    @Test
    void anEmbeddedLogNeedsADirectory() {
        assertEquals(Main.EXIT_USAGE, Main.run("serve", "--log", "embedded", "--port", "0"));
    }
}
