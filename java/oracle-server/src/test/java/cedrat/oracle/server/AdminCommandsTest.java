package cedrat.oracle.server;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cedrat.oracle.client.AbortReason;
import cedrat.oracle.client.ClientOptions;
import cedrat.oracle.client.OracleClient;
import cedrat.oracle.client.Outcome;
import cedrat.oracle.client.StartTimestamp;
import cedrat.oracle.log.Log;
import cedrat.oracle.log.embedded.EmbeddedLog;
import cedrat.oracle.protocol.ErrorCode;
import cedrat.oracle.protocol.FrameWriter;
import cedrat.oracle.protocol.Protocol;
import cedrat.oracle.server.cluster.RawClient;
import java.io.IOException;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.Collectors;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import picocli.CommandLine;

/// Commands of administrators, and their page.
@Timeout(120)
class AdminCommandsTest {
    private static final Path PAGE = Path.of("../../docs/use/oracle-administration.md");
    private static final ServerOptions OPTIONS = ServerOptions.DEFAULTS
            .withListen(new InetSocketAddress("127.0.0.1", 0))
            .withRowsLog2(10)
            .withSessionTimeout(Duration.ofDays(1));
    /// The fewest milliseconds that a test waits for an answer that never comes.
    private static final String SHORT_MS = "100";

    record Result(int code, String out, String err) {}

    static Result run(String... arguments) {
        StringWriter out = new StringWriter();
        StringWriter err = new StringWriter();
        int code = AdminCommands.addTo(new CommandLine(new Main(Fault.NONE)))
                .setOut(new PrintWriter(out))
                .setErr(new PrintWriter(err))
                .execute(arguments);
        return new Result(code, out.toString(), err.toString());
    }

    private static Result run(InetSocketAddress server, String... arguments) {
        List<String> all = new ArrayList<>(List.of(arguments));
        all.addAll(List.of("--oracle", "127.0.0.1:" + server.getPort()));
        return run(all.toArray(String[]::new));
    }

    private static void assertFails(String problem, Result result) {
        assertEquals(Main.EXIT_CANNOT_START, result.code(), result.err());
        assertTrue(result.err().startsWith("cedrat-oracle: "), result.err());
        assertTrue(result.err().contains(problem), result.err());
    }

    /// The commands of the page, each with its output.
    private static Map<String, String> examples() throws IOException {
        Map<String, String> examples = new LinkedHashMap<>();
        String command = null;
        for (String line : Files.readAllLines(PAGE)) {
            if (line.startsWith("```")) {
                command = null;
            } else if (line.startsWith("$ cedrat-oracle ")) {
                command = line.substring("$ cedrat-oracle ".length());
                examples.put(command, "");
            } else if (command != null) {
                examples.merge(command, line + "\n", String::concat);
            }
        }
        return examples;
    }

    /// The numbers that differ from run to run, and the limit of silence, which the test has raised.
    private static String comparable(String output) {
        return output.replaceAll("127\\.0\\.0\\.1:\\d+", "ADDRESS")
                .replaceAll("(outcome-bytes|session-timeout-ms) \\d+", "$1 N");
    }

    private static void use(RawClient client, long namespace, int flags) throws Exception {
        client.out.namespace(client.id(), namespace, flags);
        assertEquals(Protocol.NAMESPACE, client.send().receive().request());
    }

    private static long end(RawClient client) throws Exception {
        return client.ask(Protocol.END, client.begin());
    }

    @Test
    void examplesOfThePageRun(@TempDir Path folder) throws Exception {
        Log log = new EmbeddedLog(EmbeddedLog.Options.keeping(folder, 1 << 20));
        try (OracleServer server = OracleServer.start(OPTIONS, log);
                RawClient first = new RawClient(server, 0xa1);
                RawClient second = new RawClient(server, 0xa2)) {
            use(first, 0xb1, 0);
            use(first, 0xb2, 0);
            assertEquals(2, first.commit(first.begin(), 7));
            end(first);
            first.out.swept(first.id(), 0xb1, end(first), 1);
            assertEquals(Protocol.SWEPT, first.send().receive().request());
            first.begin();
            end(first);
            end(first);
            second.begin();
            first.begin();
            Map<String, String> examples = examples();
            for (Map.Entry<String, String> example : examples.entrySet()) {
                Result result = run(server.address(), example.getKey().split(" "));
                assertEquals("", result.err());
                assertEquals(0, result.code());
                assertEquals(comparable(example.getValue()), comparable(result.out()));
            }
            assertEquals(
                    Set.of("status", "sessions", "oldest", "kick", "retire"),
                    examples.keySet().stream()
                            .map(example -> example.split(" ")[0])
                            .collect(Collectors.toSet()));
            first.refused(ErrorCode.EXPIRED, true);
            assertEquals(List.of("session 00000000000000a2"), sessions(server), "none of the commands is left");
        }
    }

    private static List<String> sessions(OracleServer server) {
        return run(server.address(), "sessions")
                .out()
                .lines()
                .map(line -> line.substring(0, line.indexOf(" number")))
                .toList();
    }

    /// The transaction of a client whose session was ended has aborted, and the client goes on.
    @Test
    void kickedClientBeginsAnew() throws Exception {
        try (OracleServer server = OracleServer.start(OPTIONS, new HeldLog());
                OracleClient client = OracleClient.open(ClientOptions.of(server.address())
                        .withPatience(Duration.ofMinutes(2))
                        .withReconnect(Duration.ofMillis(1), Duration.ofMillis(20)))) {
            StartTimestamp start = client.begin();
            String session = sessions(server).getFirst().split(" ")[1];
            Result kicked = run(server.address(), "kick", session);
            assertEquals("session " + session + " ended yes aborted 1\n", kicked.out());
            assertEquals(Outcome.aborted(AbortReason.EXPIRED), client.commit(start, 5));
            assertEquals(
                    Outcome.Kind.COMMITTED, client.commit(client.begin(), 5).kind());
            assertEquals(List.of("session " + session), sessions(server), "it has begun a session anew");
        }
    }

    @Test
    void oldestIsLimitedByCount() throws Exception {
        try (OracleServer server = OracleServer.start(OPTIONS, new HeldLog());
                RawClient client = new RawClient(server, 1)) {
            for (int number = 1; number <= 5; number++) {
                use(client, number, 0);
                client.begin();
            }
            String out = run(server.address(), "oldest", "--count", "2").out();
            assertEquals(4, out.lines().count(), out);
            assertTrue(out.startsWith("transaction 1 age 4 session 0000000000000001 address "), out);
            assertTrue(
                    out.endsWith("namespace 0000000000000002 sweep-mark 0 sweep-age 5 holds-back no\n"),
                    "all wait for their first sweep: " + out);
            assertEquals("", run(server.address(), "oldest", "--count", "0").out());
        }
    }

    @Test
    void unknownSessionAndNamespaceAreNamed() throws Exception {
        try (OracleServer server = OracleServer.start(OPTIONS, new HeldLog());
                RawClient client = new RawClient(server, 1)) {
            String address = "127.0.0.1:" + server.address().getPort();
            assertFails(
                    "cannot end session 00000000000000ff: the oracle at " + address + " does not know it",
                    run(server.address(), "kick", "ff"));
            assertFails(
                    "cannot retire namespace fffffffffffffff8: the oracle at " + address + " does not know it",
                    run(server.address(), "retire", "fffffffffffffff8"));
            use(client, 9, Protocol.FLAG_VOLATILE);
            assertFails("at the end of the 1 sessions that use it", run(server.address(), "retire", "9"));
            assertTrue(run(server.address(), "status").out().contains("namespaces 1\n"));
        }
    }

    @Test
    void invalidArgumentsAreUsageErrors() {
        for (String command : List.of(
                "kick",
                "kick xyz",
                "kick 11112222333344445",
                "retire",
                "status --oracle 127.0.0.1",
                "status --oracle 127.0.0.1:70000",
                "sessions --timeout-ms 0",
                "oldest --count many",
                "status more")) {
            assertEquals(Main.EXIT_USAGE, run(command.split(" ")).code(), command);
        }
    }

    @Test
    void unreachableOracleIsNamed() throws Exception {
        InetSocketAddress closed;
        try (ServerSocket reserved = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
            closed = (InetSocketAddress) reserved.getLocalSocketAddress();
        }
        Result result = run(closed, "status");
        assertFails("cannot reach an oracle at 127.0.0.1:" + closed.getPort() + " (", result);
        assertTrue(result.err().contains("name the address of one that serves with --oracle"), result.err());
        assertEquals("serving no\n", result.out());
        assertFails(
                "cannot reach an oracle at nowhere.invalid:1 (unknown host)",
                run("sessions", "--oracle", "nowhere.invalid:1"));
        try (OracleServer server = OracleServer.start(OPTIONS, new HeldLog())) {
            String both = "127.0.0.1:" + closed.getPort() + ",127.0.0.1:"
                    + server.address().getPort();
            Result second = run("status", "--oracle", both);
            assertEquals(0, second.code(), second.err());
            assertTrue(second.out().startsWith("serving yes\n"), second.out());
        }
    }

    @Test
    void silentOracleIsNamed() throws Exception {
        try (OracleServer server = OracleServer.start(OPTIONS, new HeldLog())) {
            OracleServer.Hanging hanging = server.hang();
            try {
                Result result = run(server.address(), "status", "--timeout-ms", SHORT_MS);
                assertFails("has not answered for " + SHORT_MS + " ms", result);
                assertEquals("serving no\n", result.out());
            } finally {
                hanging.close();
            }
        }
    }

    /// Answers a connection with these bytes, whatever it sends, and returns what the command makes of it.
    private static Result answered(byte[] bytes, String... command) throws Exception {
        try (ServerSocket server = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
            Thread answering = new Thread(() -> {
                try (Socket socket = server.accept()) {
                    socket.getOutputStream().write(bytes);
                    socket.shutdownOutput();
                    socket.getInputStream().readAllBytes();
                } catch (IOException closed) {
                    // the command has ended
                }
            });
            answering.start();
            Result result = run((InetSocketAddress) server.getLocalSocketAddress(), command);
            answering.join();
            return result;
        }
    }

    private static byte[] bytes(FrameWriter frames) {
        return Arrays.copyOf(frames.bytes(), frames.length());
    }

    private static FrameWriter welcome() {
        FrameWriter frames = new FrameWriter(64);
        frames.welcome(1, Protocol.VERSION, 1000, 1, 1, 7, 7);
        return frames;
    }

    /// A server of an earlier version refuses what it does not know; the command says so.
    @Test
    void earlierServerIsNamed() throws Exception {
        FrameWriter frames = welcome();
        frames.error(2, 0, ErrorCode.UNSUPPORTED, "unknown kind of request 15");
        frames.done(Protocol.CLOSE, 3);
        for (String command : List.of("status", "sessions", "oldest", "kick 1", "retire 1")) {
            assertFails(
                    "does not support this command (unknown kind of request 15): update the server",
                    answered(bytes(frames), command.split(" ")));
        }
    }

    @Test
    void foreignAnswersAreNamed() throws Exception {
        assertFails(
                "is no oracle, or of another version",
                answered("HTTP/1.1 400 Bad Request\r\n\r\n".getBytes(), "status"));
        assertFails("has closed the connection", answered(new byte[0], "status"));
        FrameWriter other = welcome();
        other.done(Protocol.PING, 2);
        assertFails("has answered another request", answered(bytes(other), "status"));
        FrameWriter refusal = new FrameWriter(64);
        refusal.error(0, Protocol.FLAG_CLOSING, ErrorCode.HELLO, "the server has 10 connections");
        assertFails("has refused the request: the server has 10 connections", answered(bytes(refusal), "status"));
        FrameWriter loop = welcome();
        for (long id = 2; id < 4; id++) {
            int values = loop.values(Protocol.ADMIN, id, 3);
            loop.putValue(values, 0, 3);
            loop.putValue(values, 1, 1);
            loop.putValue(values, 2, 5);
        }
        assertFails("begins at 5 behind one that begins at 5", answered(bytes(loop), "sessions"));
    }
}
