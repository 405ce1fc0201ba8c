package cedrat.services;

import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;

/// Ports of the loopback that nobody listens on.
public final class FreePorts {
    private FreePorts() {}

    /// Another one. Somebody may take it before its service does: that one then ends, and says so.
    public static int next() throws IOException {
        try (ServerSocket socket = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
            return socket.getLocalPort();
        }
    }

    /// Whether somebody listens there.
    static boolean isTaken(int port) {
        try (Socket socket = new Socket(InetAddress.getLoopbackAddress(), port)) {
            return socket.isConnected();
        } catch (IOException nobody) {
            return false;
        }
    }
}
