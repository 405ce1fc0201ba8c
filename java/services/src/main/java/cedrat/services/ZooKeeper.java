package cedrat.services;

import java.io.IOException;
import java.net.InetAddress;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.regex.Pattern;
import java.util.stream.Collectors;

/// A ZooKeeper on the loopback: one server, or an ensemble of several.
///
/// A server that is started again in its folder and on its port is the one it was.
public final class ZooKeeper implements AutoCloseable {
    /// Sessions last for two of these at least.
    private static final int TICK_MS = 200;

    private static final int SESSION_MS_MAX = 60_000;
    private static final int ANSWER_MS = 5000;

    private static final Pattern CONNECTED = Pattern.compile("sid=(0x[0-9a-f]+)");

    private final Path folder;
    private final List<Service> services = new ArrayList<>();
    private final List<Integer> ports;
    /// For each server, those on which it talks to the others.
    private final List<int[]> peerPorts = new ArrayList<>();

    private ZooKeeper(Path folder, List<Integer> ports) {
        this.folder = folder;
        this.ports = List.copyOf(ports);
    }

    /// Starts one with its data in this folder; returns when it answers.
    public static ZooKeeper start(Path folder, int port) throws IOException {
        return new ZooKeeper(folder, List.of(port)).startAll();
    }

    /// Starts an ensemble of so many servers with their data below this folder, on free ports; returns when all answer.
    public static ZooKeeper startEnsemble(Path folder, int count) throws IOException {
        List<Integer> ports = new ArrayList<>();
        for (int number = 0; number < count; number++) {
            ports.add(FreePorts.next());
        }
        ZooKeeper ensemble = new ZooKeeper(folder, ports);
        for (int number = 0; number < count; number++) {
            ensemble.peerPorts.add(new int[] {FreePorts.next(), FreePorts.next()});
        }
        return ensemble.startAll();
    }

    private ZooKeeper startAll() throws IOException {
        try {
            for (int number = 0; number < ports.size(); number++) {
                services.add(command(number).start());
            }
            awaitReady();
        } catch (IOException problem) {
            close();
            throw problem;
        }
        return this;
    }

    private void awaitReady() throws IOException {
        for (int number = 0; number < ports.size(); number++) {
            int port = ports.get(number);
            services.get(number).awaitReady(() -> answers(port));
        }
    }

    /// Starts a server of an ensemble that has ended again, where it was; returns when all answer.
    public void restart(int number) throws IOException {
        services.get(number).close();
        services.set(number, command(number).start());
        awaitReady();
    }

    private Command command(int number) throws IOException {
        if (peerPorts.isEmpty()) {
            return command(folder, ports.get(number));
        }
        StringBuilder peers = new StringBuilder("initLimit=50\nsyncLimit=25\n");
        for (int peer = 0; peer < peerPorts.size(); peer++) {
            int[] each = peerPorts.get(peer);
            peers.append("server.%d=127.0.0.1:%d:%d\n".formatted(peer + 1, each[0], each[1]));
        }
        Path own = folder.resolve("server-" + number);
        Files.createDirectories(own.resolve("data"));
        Files.writeString(own.resolve("data").resolve("myid"), number + 1 + "\n");
        return command(own, ports.get(number), "org.apache.zookeeper.server.quorum.QuorumPeerMain", peers.toString());
    }

    /// Returns the program of one with its data in this folder, and writes its configuration.
    static Command command(Path folder, int port) throws IOException {
        return command(folder, port, "org.apache.zookeeper.server.ZooKeeperServerMain", "");
    }

    private static Command command(Path folder, int port, String main, String peers) throws IOException {
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
                %s""".formatted(TICK_MS, SESSION_MS_MAX, folder.resolve("data"), port, peers));
        return Command.of(
                "ZooKeeper",
                folder,
                List.of("-Xmx96m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", Bookie.LOG_LEVEL),
                Command.classPath(Bookie.CLASS_PATH),
                main,
                List.of(configuration.toString()));
    }

    /// Whether one serves at this port.
    static boolean answers(int port) throws IOException {
        return ask(port, "srvr").contains("Mode:");
    }

    static String address(int port) {
        return "127.0.0.1:" + port;
    }

    /// HOST:PORT of each server, with commas between them.
    public String address() {
        return ports.stream().map(ZooKeeper::address).collect(Collectors.joining(","));
    }

    /// The port of the first server.
    public int port() {
        return ports.getFirst();
    }

    /// The ports of all servers.
    public List<Integer> ports() {
        return ports;
    }

    /// The process of the first server.
    public Service service() {
        return services.getFirst();
    }

    /// The process of the server of this number, from 0 on.
    public Service service(int number) {
        return services.get(number);
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
        return ephemerals(livingPorts(), true).stream().anyMatch(path -> path.endsWith(end));
    }

    private List<Integer> livingPorts() {
        List<Integer> living = new ArrayList<>();
        for (int number = 0; number < ports.size(); number++) {
            if (services.get(number).isAlive()) {
                living.add(ports.get(number));
            }
        }
        return living;
    }

    /// Whether a connected session of the one at this port holds a node whose path ends so.
    static boolean hasEphemeral(int port, String end) throws IOException {
        return ephemerals(List.of(port), true).stream().anyMatch(path -> path.endsWith(end));
    }

    /// Returns the number of nodes below this path that sessions hold, connected or not.
    public long ephemeralsBelow(String path) throws IOException {
        return below(path, ephemerals(livingPorts(), false));
    }

    /// Returns the number of nodes below a path that connected sessions of the one at this port hold.
    static long connectedBelow(int port, String path) throws IOException {
        return below(path, ephemerals(List.of(port), true));
    }

    private static long below(String path, List<String> nodes) {
        return nodes.stream().filter(node -> node.startsWith(path + "/")).count();
    }

    /// Returns the nodes of sessions. A session outlives the connection of its process by its timeout.
    private static List<String> ephemerals(List<Integer> ports, boolean onlyConnected) throws IOException {
        Set<String> connected = new HashSet<>();
        for (int port : onlyConnected ? ports : List.<Integer>of()) {
            CONNECTED
                    .matcher(ask(port, "cons"))
                    .results()
                    .map(found -> found.group(1))
                    .forEach(connected::add);
        }
        List<String> nodes = new ArrayList<>();
        boolean counts = false;
        for (String line :
                ask(ports.getFirst(), "dump").lines().map(String::strip).toList()) {
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
        services.forEach(Service::close);
    }
}
