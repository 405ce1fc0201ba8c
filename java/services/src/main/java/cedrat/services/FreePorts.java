package cedrat.services;

import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;

/// Ports of the loopback without a listener.
public final class FreePorts {
    private FreePorts() {}

    /// Returns another free port. If another process takes it before the service does, the service ends with an error.
    public static int next() throws IOException {
        try (ServerSocket socket = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
            return socket.getLocalPort();
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
