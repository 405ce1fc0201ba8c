package cedrat.services;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/// With this class as the servers.
@Timeout(300)
class ClusterTest {
    private static final Duration LONG = Duration.ofMinutes(2);

    @TempDir
    private Path folder;

    private final List<List<Server>> groups = new ArrayList<>();
    private final List<String> reports = new ArrayList<>();
    private final Map<String, Integer> ports = new TreeMap<>();

    /// Answers each connection at the port with a byte; without a port, ends at once.
    public static void main(String[] arguments) throws IOException {
        if (arguments.length == 0) {
            return;
        }
        try (ServerSocket socket =
                new ServerSocket(Integer.parseInt(arguments[0]), 16, InetAddress.getLoopbackAddress())) {
            while (true) {
                try (Socket client = socket.accept()) {
                    client.getOutputStream().write('y');
                }
            }
        }
    }

    @BeforeEach
    void makeServers() throws Exception {
        groups.add(List.of(server("first")));
        groups.add(List.of(server("second"), server("third")));
    }

    @AfterEach
    void end() throws IOException {
        try (Cluster cluster = cluster()) {
            cluster.down();
        }
    }

    private Server server(String name) throws Exception {
        int port = FreePorts.next();
        ports.put(name, port);
        return new Server(
                name,
                "127.0.0.1:" + port,
                () -> {
                    Files.deleteIfExists(sick(name));
                    return command(name, "" + port);
                },
                started -> answers(port) && !Files.exists(sick(name)));
    }

    /// The file that makes a server silent, until another process takes its place.
    private Path sick(String name) {
        return folder.resolve(name + ".sick");
    }

    private Command command(String name, String... arguments) {
        String classes = ClusterTest.class
                .getProtectionDomain()
                .getCodeSource()
                .getLocation()
                .getPath();
        return Command.of(
                name,
                folder.resolve(name),
                List.of("-Xmx32m", "-XX:+UseSerialGC"),
                classes,
                ClusterTest.class.getName(),
                List.of(arguments));
    }

    private static boolean answers(int port) throws IOException {
        try (Socket socket = new Socket(InetAddress.getLoopbackAddress(), port)) {
            boolean isItself = socket.getLocalPort() == port;
            return !isItself && socket.getInputStream().read() == 'y';
        }
    }

    private Cluster cluster() throws IOException {
        return cluster(LONG);
    }

    private Cluster cluster(Duration hung) throws IOException {
        return new Cluster(folder, groups, new Cluster.Patience(LONG, hung, LONG), reports::add);
    }

    /// As a new program would.
    private void up() throws IOException {
        try (Cluster cluster = cluster()) {
            cluster.up();
        }
    }

    private Map<String, Long> pids() throws IOException {
        Map<String, Long> pids = new TreeMap<>();
        for (Cluster.State state : Cluster.status(folder, groups)) {
            pids.put(
                    state.server().name(),
                    state.process() == null ? -1 : state.process().pid());
        }
        return pids;
    }

    private void kill(String name) throws IOException {
        OsProcess process = new ProcessFile(folder.resolve("processes")).running(name);
        ProcessHandle.of(process.pid()).orElseThrow().destroyForcibly();
        process.end(Duration.ofMinutes(1));
    }

    @Test
    void upStartsOnlyWhatIsMissing() throws Exception {
        up();
        Map<String, Long> before = pids();
        up();
        assertEquals(before, pids(), "all ran");
        for (String killed : before.keySet()) {
            kill(killed);
            assertEquals(-1, pids().get(killed));
            up();
            Map<String, Long> after = pids();
            assertNotEquals(-1, after.get(killed));
            assertNotEquals(before.get(killed), after.get(killed));
            before.put(killed, after.get(killed));
            assertEquals(before, after, "the others are the processes that they were");
        }
        assertEquals(6, reports.size(), reports::toString);
    }

    @Test
    void hungServerIsReplacedAlone() throws Exception {
        up();
        Map<String, Long> before = pids();
        Files.createFile(sick("second"));
        assertTrue(status("second").endsWith("healthy no"));
        assertTrue(status("first").endsWith("healthy yes"));
        try (Cluster cluster = cluster(Duration.ZERO)) {
            cluster.up();
        }
        Map<String, Long> after = pids();
        assertNotEquals(before.get("second"), after.put("second", before.get("second")));
        assertEquals(before, after);
    }

    private String status(String name) throws IOException {
        return Cluster.status(folder, groups).stream()
                .map(Cluster.State::toString)
                .filter(line -> line.startsWith("server " + name + " "))
                .findFirst()
                .orElseThrow();
    }

    @Test
    void restartTouchesOneServer() throws Exception {
        up();
        Map<String, Long> before = pids();
        try (Cluster cluster = cluster()) {
            cluster.restart("second");
            assertThrows(IOException.class, () -> cluster(LONG), "another command has it");
        }
        Map<String, Long> after = pids();
        assertNotEquals(before.get("second"), after.put("second", before.get("second")));
        assertEquals(before, after);
        try (Cluster cluster = cluster()) {
            assertTrue(cluster.stop("third"));
            assertFalse(cluster.stop("third"), "it does not run");
            assertEquals("server third pid - address 127.0.0.1:" + ports.get("third") + " healthy no", status("third"));
            cluster.start("third");
            IOException unknown = assertThrows(IOException.class, () -> cluster.restart("fourth"));
            assertEquals("unknown server fourth: choose one of first, second, third", unknown.getMessage());
        }
        assertEquals(
                "server third pid " + pids().get("third") + " address 127.0.0.1:" + ports.get("third") + " healthy yes",
                status("third"));
    }

    /// A process that has the number of a server is not the server.
    @Test
    void recycledPidIsNoServer() throws Exception {
        up();
        Map<String, Long> before = pids();
        Process other = new ProcessBuilder("sleep", "1000").start();
        try {
            kill("second");
            Path file = folder.resolve("processes");
            String lines = Files.readString(file);
            Files.writeString(file, lines.replace(before.get("second") + " ", other.pid() + " "));
            assertTrue(status("second").contains(" pid - "));
            up();
            assertNotEquals(other.pid(), pids().get("second"));
            assertTrue(status("second").endsWith("healthy yes"));
            try (Cluster cluster = cluster()) {
                cluster.down();
            }
            assertTrue(other.isAlive(), "it was never touched");
        } finally {
            other.destroyForcibly();
        }
    }

    /// Its parent may never ask for its exit code.
    @Test
    void zombieHasEnded() throws Exception {
        // A shell may ask for the exit codes of all children between two commands. `sleep` never does.
        Process parent = new ProcessBuilder("sh", "-c", "sleep 1000 & echo $!; exec sleep 1000").start();
        try {
            long child = Long.parseLong(parent.inputReader().readLine());
            while (!Files.readString(Path.of("/proc/" + parent.pid() + "/comm")).startsWith("sleep")) {
                Thread.onSpinWait();
            }
            OsProcess process = OsProcess.of(child).orElseThrow();
            assertTrue(process.isAlive());
            process.end(LONG);
            assertFalse(process.isAlive());
            assertTrue(Files.exists(Path.of("/proc/" + child)), "a zombie");
        } finally {
            parent.destroyForcibly();
        }
    }

    /// A port that another process has is not taken for the server's answer.
    @Test
    void takenPortIsNamed() throws Exception {
        try (ServerSocket taken = new ServerSocket(ports.get("second"), 16, InetAddress.getLoopbackAddress())) {
            IOException problem = assertThrows(IOException.class, this::up);
            assertTrue(
                    problem.getMessage().contains("another process listens on 127.0.0.1:" + taken.getLocalPort()),
                    problem.getMessage());
            assertTrue(status("first").endsWith("healthy yes"), "it goes on");
        }
        Map<String, Long> before = pids();
        up();
        assertEquals(before.get("first"), pids().get("first"));
    }

    @Test
    void serverThatEndsIsReported() throws Exception {
        groups.add(List.of(
                new Server("short", "127.0.0.1:" + FreePorts.next(), () -> command("short"), started -> false)));
        IOException problem = assertThrows(IOException.class, this::up);
        assertTrue(problem.getMessage().contains("short has ended"), problem.getMessage());
        assertTrue(status("third").endsWith("healthy yes"), "it goes on");
    }
}
