package cedrat.oracle.server;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cedrat.oracle.client.ClientOptions;
import cedrat.oracle.client.OracleClient;
import cedrat.oracle.client.Outcome;
import cedrat.oracle.client.StartTimestamp;
import cedrat.oracle.protocol.ProtocolException;
import cedrat.oracle.server.cluster.Load;
import cedrat.oracle.server.cluster.RawClient;
import cedrat.oracle.server.cluster.WallClock;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/// The wall clock of a server and of its clients, each a process of its own, is set back by an hour and
/// forward by two while they are at work. Nothing depends on it.
@Timeout(300)
class WallClockTest {
    private static final int CLIENTS = 2;
    private static final int SOME_COMMITS = 100;
    private static final Duration SESSION_TIMEOUT = Duration.ofSeconds(5);

    /// More than the clients write in that time: T_max does not pass the transaction that is open.
    private static final int ROWS_LOG2 = 20;

    @TempDir
    Path folder;

    /// A process with this test's class path and that clock, which is spoken to by lines.
    private static final class Child implements AutoCloseable {
        final Process process;
        final BufferedReader said;
        final PrintStream commands;

        Child(WallClock clock, Path errors, Class<?> main, List<String> arguments) throws IOException {
            List<String> command = new ArrayList<>(List.of(
                    Path.of(System.getProperty("java.home"), "bin", "java").toString(),
                    "-Xmx128m",
                    "-XX:+UseSerialGC",
                    "-XX:TieredStopAtLevel=1",
                    "--enable-native-access=ALL-UNNAMED",
                    "-Dcedrat.library=" + System.getProperty("cedrat.library"),
                    "-cp",
                    System.getProperty("surefire.test.class.path", System.getProperty("java.class.path")),
                    main.getName()));
            command.addAll(arguments);
            ProcessBuilder builder = new ProcessBuilder(command).redirectError(errors.toFile());
            builder.environment().putAll(clock.environment());
            process = builder.start();
            said = process.inputReader(StandardCharsets.UTF_8);
            commands = new PrintStream(process.getOutputStream(), true, StandardCharsets.UTF_8);
        }

        String ask(String what) throws IOException {
            commands.println(what);
            return said.readLine();
        }

        @Override
        public void close() {
            process.destroyForcibly();
        }
    }

    /// Clients, one of which keeps a transaction open all the time. Obeys commands: `time` prints the wall clock,
    /// `work` commits some transactions, `end` checks all reads.
    static final class Clients {
        private Clients() {}

        public static void main(String[] arguments) throws Exception {
            ClientOptions options =
                    ClientOptions.of(new InetSocketAddress("127.0.0.1", Integer.parseInt(arguments[0])));
            BufferedReader commands = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
            try (OracleClient oracle = OracleClient.open(options);
                    Load load = new Load(options, CLIENTS)) {
                StartTimestamp open = oracle.begin();
                StartTimestamp newest = open;
                for (String what = commands.readLine(); what != null; what = commands.readLine()) {
                    switch (what) {
                        case "time" -> System.out.println(System.currentTimeMillis());
                        case "work" -> {
                            load.await(SOME_COMMITS);
                            StartTimestamp next = oracle.begin();
                            assertTrue(next.value() > newest.value(), next + " after " + newest);
                            newest = next;
                            System.out.println("worked");
                        }
                        default -> {
                            load.check(oracle);
                            assertEquals(
                                    Outcome.Kind.COMMITTED,
                                    oracle.commit(open, 1_000_000).kind(),
                                    "its session lives");
                            System.out.println("checked");
                        }
                    }
                }
            }
        }
    }

    /// Returns when a whole time-out of sessions has passed for the server: it then turns away who has never
    /// said who he is.
    private static void passATimeout(int port) throws IOException {
        try (RawClient stranger = new RawClient(new InetSocketAddress("127.0.0.1", port))) {
            stranger.receive();
        } catch (ProtocolException impossible) {
            throw new IOException(impossible);
        }
    }

    private static void awaitTime(Child clients, long about) throws IOException, InterruptedException {
        while (Math.abs(Long.parseLong(clients.ask("time")) - about)
                > Duration.ofMinutes(10).toMillis()) {
            Thread.sleep(20); // only how often it is asked
        }
    }

    /// O8.
    @Test
    void nothingDependsOnIt() throws Exception {
        WallClock clock = new WallClock(folder.resolve("clock"));
        Path errors = folder.resolve("server");
        String data = folder.resolve("data").toString();
        assertEquals(0, Main.run("init", "--log", "embedded", "--data", data));
        List<String> serve = List.of(
                "serve",
                "--log",
                "embedded",
                "--data",
                data,
                "--rows-log2",
                "" + ROWS_LOG2,
                "--session-timeout-ms",
                "" + SESSION_TIMEOUT.toMillis(),
                "--port",
                "0");
        try (Child server = new Child(clock, errors, Main.class, serve)) {
            String listening = server.said.readLine();
            assertTrue(listening != null, () -> "the server has ended: " + text(errors));
            int port = Integer.parseInt(listening.substring(listening.lastIndexOf(':') + 1));
            try (Child clients = new Child(clock, folder.resolve("clients"), Clients.class, List.of("" + port))) {
                for (Duration shift : List.of(Duration.ofHours(-1), Duration.ofHours(1))) {
                    assertEquals("worked", clients.ask("work"), () -> text(folder.resolve("clients")));
                    clock.set(shift);
                    awaitTime(clients, System.currentTimeMillis() + shift.toMillis());
                    passATimeout(port);
                    assertEquals("worked", clients.ask("work"), () -> text(folder.resolve("clients")));
                }
                assertEquals("checked", clients.ask("end"), () -> text(folder.resolve("clients")));
            }
            assertEquals(false, text(errors).contains("silent for too long"), () -> text(errors));
        }
    }

    private static String text(Path file) {
        try {
            return Files.readString(file);
        } catch (IOException unreadable) {
            return unreadable.toString();
        }
    }
}
