package cedrat.oracle.server;

import java.net.InetSocketAddress;
import java.nio.file.Path;
import picocli.CommandLine.Option;

/// Options of logs besides their places, the same for all commands.
final class LogSettings {
    private static final int PORT_MAX = 0xffff;

    @Option(
            names = "--zookeeper-session-ms",
            paramLabel = "MS",
            defaultValue = "4000",
            description =
                    "With a log in BookKeeper: a server that ZooKeeper has not heard for so long stops, and another takes over (default: ${DEFAULT-VALUE}).")
    private long zooKeeperSessionMs;

    @Option(
            names = "--liveness-port",
            paramLabel = "N",
            defaultValue = "0",
            description =
                    "With a log in BookKeeper: the port, of the same address, by which the servers that stand by notice the end of this process before its session expires; 0 for any (default: ${DEFAULT-VALUE}).")
    private int livenessPort;

    @Option(
            names = "--zookeeper-credentials",
            paramLabel = "FILE",
            description =
                    "With a log in BookKeeper: a file with NAME:PASSWORD, with which alone the nodes that servers make in ZooKeeper can be accessed (default: everyone can).")
    private Path zooKeeperCredentials;

    @Option(
            names = "--bookkeeper-configuration",
            paramLabel = "FILE",
            description =
                    "With a log in BookKeeper: properties of BookKeeper's client, for example of TLS and authentication.")
    private Path bookKeeperConfiguration;

    @Option(
            names = "--ledger-bytes-max",
            paramLabel = "N",
            defaultValue = "67108864",
            description =
                    "With a log in BookKeeper: a ledger of so many bytes is followed by another; room comes back by whole ledgers (default: ${DEFAULT-VALUE}).")
    private long ledgerBytesMax;

    @Option(
            names = "--log-bytes-max",
            paramLabel = "N",
            defaultValue = "1073741824",
            description =
                    "Cut the log to about so many bytes, which bounds the time of a start, too; the disk needs room for four times as many (default: ${DEFAULT-VALUE}).")
    private long bytesMax;

    LogSettings() {}

    long zooKeeperSessionMs() {
        return zooKeeperSessionMs;
    }

    /// @throws IllegalArgumentException if the port is none
    InetSocketAddress liveness(String host) {
        if (livenessPort < 0 || livenessPort > PORT_MAX) {
            throw new IllegalArgumentException("invalid --liveness-port " + livenessPort + ": choose 0 to " + PORT_MAX);
        }
        return InetSocketAddress.createUnresolved(host, livenessPort);
    }

    Path zooKeeperCredentials() {
        return zooKeeperCredentials;
    }

    Path bookKeeperConfiguration() {
        return bookKeeperConfiguration;
    }

    long ledgerBytesMax() {
        return ledgerBytesMax;
    }

    long bytesMax() {
        return bytesMax;
    }
}
