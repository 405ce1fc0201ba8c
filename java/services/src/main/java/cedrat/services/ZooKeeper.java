package cedrat.services;

import java.io.IOException;
import java.net.InetAddress;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.regex.Pattern;
import java.util.stream.Collectors;

/// One ZooKeeper, on the loopback.
///
/// Started again in its folder and on its port, it is the one it was.
public final class ZooKeeper implements AutoCloseable {
    /// Sessions last for two of these at least.
    private static final int TICK_MS = 200;

    private static final int SESSION_MS_MAX = 60_000;
    private static final int ANSWER_MS = 5000;

    private static final Pattern CONNECTED = Pattern.compile("sid=(0x[0-9a-f]+)");

    private final Service service;
    private final int port;

    private ZooKeeper(Service service, int port) {
        this.service = service;
        this.port = port;
    }

    /// Starts one with its data in this folder; returns when it answers.
    public static ZooKeeper start(Path folder, int port) throws IOException {
        ZooKeeper zooKeeper = new ZooKeeper(command(folder, port).start(), port);
        try {
            zooKeeper.service.awaitReady(() -> answers(port));
        } catch (IOException problem) {
            zooKeeper.service.kill();
            throw problem;
        }
        return zooKeeper;
    }

    /// Returns the program of one with its data in this folder, and writes its configuration.
    static Command command(Path folder, int port) throws IOException {
        Files.createDirectories(folder);
        Path configuration = folder.resolve("zoo.cfg");
        Files.writeString(configuration, """
                tickTime=%d
                maxSessionTimeout=%d
                dataDir=%s
                clientPort=%d
                clientPortAddress=127.0.0.1
                admin.enableServer=false
                4lw.commands.whitelist=srvr,dump,cons
                """.formatted(TICK_MS, SESSION_MS_MAX, folder.resolve("data"), port));
        return Command.of(
                "ZooKeeper",
                folder,
                List.of("-Xmx96m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", Bookie.LOG_LEVEL),
                Command.classPath(Bookie.CLASS_PATH),
                "org.apache.zookeeper.server.ZooKeeperServerMain",
                List.of(configuration.toString()));
    }

    /// Whether one serves at this port.
    static boolean answers(int port) throws IOException {
        return ask(port, "srvr").contains("Mode:");
    }

    static String address(int port) {
        return "127.0.0.1:" + port;
    }

    /// HOST:PORT.
    public String address() {
        return address(port);
    }

    /// Its port.
    public int port() {
        return port;
    }

    /// Its process.
    public Service service() {
        return service;
    }

    /// Returns the answer to one of its commands of four letters.
    private static String ask(int port, String command) throws IOException {
        try (Socket socket = new Socket(InetAddress.getLoopbackAddress(), port)) {
            socket.setSoTimeout(ANSWER_MS);
            socket.getOutputStream().write(command.getBytes(StandardCharsets.US_ASCII));
            socket.shutdownOutput();
            return new String(socket.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
        }
    }

    /// Whether a connected session holds a node whose path ends so.
    public boolean hasEphemeral(String end) throws IOException {
        return hasEphemeral(port, end);
    }

    /// Whether a connected session of the one at this port holds a node whose path ends so.
    static boolean hasEphemeral(int port, String end) throws IOException {
        return ephemerals(port, true).stream().anyMatch(path -> path.endsWith(end));
    }

    /// Returns the number of nodes below this path that sessions hold, connected or not.
    public long ephemeralsBelow(String path) throws IOException {
        return below(path, ephemerals(port, false));
    }

    /// Returns the number of nodes below a path that connected sessions of the one at this port hold.
    static long connectedBelow(int port, String path) throws IOException {
        return below(path, ephemerals(port, true));
    }

    private static long below(String path, List<String> nodes) {
        return nodes.stream().filter(node -> node.startsWith(path + "/")).count();
    }

    /// Returns the nodes of sessions. A session outlives the connection of its process by its timeout.
    private static List<String> ephemerals(int port, boolean onlyConnected) throws IOException {
        Set<String> connected = CONNECTED
                .matcher(onlyConnected ? ask(port, "cons") : "")
                .results()
                .map(found -> found.group(1))
                .collect(Collectors.toSet());
        List<String> nodes = new ArrayList<>();
        boolean counts = false;
        for (String line : ask(port, "dump").lines().map(String::strip).toList()) {
            if (line.startsWith("0x")) {
                counts = !onlyConnected || connected.contains(line.substring(0, line.length() - 1));
            } else if (line.startsWith("/") && counts) {
                nodes.add(line);
            }
        }
        return nodes;
    }

    /// Kills it.
    @Override
    public void close() {
        service.close();
    }
}
