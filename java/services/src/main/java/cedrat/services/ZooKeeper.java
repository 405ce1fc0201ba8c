package cedrat.services;

import java.io.IOException;
import java.net.InetAddress;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;

/// One ZooKeeper, on the loopback.
///
/// Started again in its folder and on its port, it is the one it was.
public final class ZooKeeper implements AutoCloseable {
    /// Sessions last for two of these at least.
    private static final int TICK_MS = 200;

    private static final int SESSION_MS_MAX = 60_000;
    private static final int ANSWER_MS = 5000;

    private final Service service;
    private final int port;

    private ZooKeeper(Service service, int port) {
        this.service = service;
        this.port = port;
    }

    /// Starts one with its data in this folder; returns when it answers.
    public static ZooKeeper start(Path folder, int port) throws IOException {
        Files.createDirectories(folder);
        Path configuration = folder.resolve("zoo.cfg");
        Files.writeString(configuration, """
                tickTime=%d
                maxSessionTimeout=%d
                dataDir=%s
                clientPort=%d
                clientPortAddress=127.0.0.1
                admin.enableServer=false
                4lw.commands.whitelist=srvr,dump
                """.formatted(TICK_MS, SESSION_MS_MAX, folder.resolve("data"), port));
        Service service = Command.of(
                        "ZooKeeper",
                        folder,
                        List.of("-Xmx96m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", Bookie.LOG_LEVEL),
                        Command.classPath(Bookie.CLASS_PATH),
                        "org.apache.zookeeper.server.ZooKeeperServerMain",
                        List.of(configuration.toString()))
                .start();
        ZooKeeper zooKeeper = new ZooKeeper(service, port);
        try {
            service.awaitReady(() -> zooKeeper.ask("srvr").contains("Mode:"));
        } catch (IOException problem) {
            service.kill();
            throw problem;
        }
        return zooKeeper;
    }

    /// HOST:PORT.
    public String address() {
        return "127.0.0.1:" + port;
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
    String ask(String command) throws IOException {
        try (Socket socket = new Socket(InetAddress.getLoopbackAddress(), port)) {
            socket.setSoTimeout(ANSWER_MS);
            socket.getOutputStream().write(command.getBytes(StandardCharsets.US_ASCII));
            socket.shutdownOutput();
            return new String(socket.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
        }
    }

    /// Whether a session holds a node whose path ends so.
    public boolean hasEphemeral(String end) throws IOException {
        return ask("dump").lines().anyMatch(line -> line.strip().endsWith(end));
    }

    /// Returns the number of nodes below this one that a session holds.
    public long ephemeralsBelow(String path) throws IOException {
        return ask("dump")
                .lines()
                .filter(line -> line.strip().startsWith(path + "/"))
                .count();
    }

    /// Kills it.
    @Override
    public void close() {
        service.close();
    }
}
