package cedrat.services;

import java.io.IOException;
import java.net.BindException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.util.concurrent.ThreadLocalRandom;

/// Ports of the loopback without a listener.
public final class FreePorts {
    private static final int LOWEST = 10_000;

    /// Lower bound of `net.ipv4.ip_local_port_range`, unless that is changed.
    private static final int FIRST_OF_CONNECTIONS = 32_768;

    private static final int ATTEMPTS = 100;

    private FreePorts() {}

    /// Returns another free port, below those that Linux gives to connections: none of these takes the port of
    /// a service that starts, or starts again, in a test with many connections. If another service takes it
    /// before, the service ends with an error.
    public static int next() throws IOException {
        for (int count = 1; ; count++) {
            int port = ThreadLocalRandom.current().nextInt(LOWEST, FIRST_OF_CONNECTIONS);
            try (ServerSocket socket = new ServerSocket(port, 1, InetAddress.getLoopbackAddress())) {
                return socket.getLocalPort();
            } catch (BindException taken) {
                if (count == ATTEMPTS) {
                    throw taken;
                }
            }
        }
    }

    /// Whether a process listens there.
    static boolean isTaken(int port) {
        try (Socket socket = new Socket(InetAddress.getLoopbackAddress(), port)) {
            // A socket that the system gives the very port to which it connects is connected to itself.
            return socket.getLocalPort() != port;
        } catch (IOException closed) {
            return false;
        }
    }
}
