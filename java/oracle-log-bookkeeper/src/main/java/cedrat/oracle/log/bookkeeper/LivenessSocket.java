package cedrat.oracle.log.bookkeeper;

import java.io.Closeable;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.util.ArrayDeque;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;

/// Socket by which the servers that stand by notice the end of this process: its operating system then closes the
/// connections that they hold, and refuses others. No byte is sent over them, and none is read.
///
/// **Threads:** any may call.
final class LivenessSocket implements AutoCloseable {
    /// Maximum number of connections. With one more, the oldest is closed, and who has it may connect again.
    static final int CONNECTIONS_MAX = 16;

    private static final int ACCEPT_FAILED_MS = 100;

    private final ServerSocket socket;
    private final String host;
    private final CountDownLatch closed = new CountDownLatch(1);
    /// Guarded by itself.
    private final ArrayDeque<Socket> connections = new ArrayDeque<>();

    /// Listens at an address; port 0 stands for any.
    ///
    /// @throws IOException if the address is not available
    LivenessSocket(InetSocketAddress address) throws IOException {
        InetSocketAddress resolved =
                address.isUnresolved() ? new InetSocketAddress(address.getHostString(), address.getPort()) : address;
        socket = new ServerSocket();
        boolean isBound = false;
        try {
            socket.bind(resolved);
            host = resolved.getAddress().isAnyLocalAddress()
                    ? InetAddress.getLocalHost().getHostName()
                    : address.getHostString();
            isBound = true;
        } catch (IOException problem) {
            throw new IOException(
                    "cannot listen on " + address + " for the servers that stand by: " + problem.getMessage(), problem);
        } finally {
            if (!isBound) {
                socket.close();
            }
        }
        Thread.ofVirtual().name("liveness").start(this::accept);
    }

    /// The address under which other servers find it.
    InetSocketAddress address() {
        return InetSocketAddress.createUnresolved(host, socket.getLocalPort());
    }

    private void accept() {
        try {
            do {
                try {
                    keep(socket.accept());
                } catch (IOException failed) {
                    // It was closed, or too many files are open: then connections wait in the backlog.
                    closed.await(ACCEPT_FAILED_MS, TimeUnit.MILLISECONDS);
                }
            } while (!socket.isClosed());
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
        }
    }

    private void keep(Socket connection) {
        Socket surplus = null;
        synchronized (connections) {
            if (socket.isClosed()) {
                surplus = connection;
            } else {
                connections.add(connection);
                connections.notifyAll();
                if (connections.size() > CONNECTIONS_MAX) {
                    surplus = connections.remove();
                }
            }
        }
        close(surplus);
    }

    private void disconnect() {
        synchronized (connections) {
            connections.forEach(LivenessSocket::close);
            connections.clear();
        }
    }

    /// Waits for a connection, and closes all that there are. For tests.
    void awaitAndDisconnect() throws InterruptedException {
        synchronized (connections) {
            while (connections.isEmpty()) {
                connections.wait();
            }
            disconnect();
        }
    }

    @Override
    public void close() {
        close(socket);
        closed.countDown();
        disconnect();
    }

    private static void close(Closeable one) {
        try {
            if (one != null) {
                one.close();
            }
        } catch (IOException gone) {
            // nothing was written, so nothing is lost
        }
    }
}
