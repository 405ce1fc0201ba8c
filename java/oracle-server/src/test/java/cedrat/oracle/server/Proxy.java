package cedrat.oracle.server;

import cedrat.oracle.protocol.FrameWriter;
import cedrat.oracle.protocol.Protocol;
import cedrat.oracle.protocol.ProtocolException;
import cedrat.oracle.protocol.RequestReader;
import java.io.DataInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.atomic.AtomicInteger;

/// A network between clients and a server that can be cut, and that can let both take each other for programs of an
/// earlier version of the protocol. **Threads:** any may call.
final class Proxy implements AutoCloseable {
    private static final int ALL = -1;

    /// The place of the kind in a frame.
    private static final int KIND = Integer.BYTES;

    private final ServerSocket listening;
    private final List<Socket> sockets = new ArrayList<>();
    private volatile InetSocketAddress server;
    /// The newest version of the protocol that passes.
    private final int version;
    private final AtomicInteger unknown = new AtomicInteger();
    private volatile boolean refuses;
    private final AtomicInteger requestsLeft = new AtomicInteger(ALL);
    private final AtomicInteger repliesLeft = new AtomicInteger(ALL);

    Proxy(InetSocketAddress server) throws IOException {
        this(server, Protocol.VERSION);
    }

    /// Each hello offers versions up to this one, in the form of a client of that version. So the server answers as one
    /// that speaks no later version.
    Proxy(InetSocketAddress server, int version) throws IOException {
        this.server = server;
        this.version = version;
        listening = new ServerSocket(0, 100, InetAddress.getLoopbackAddress());
        Thread.ofPlatform().daemon().name("proxy").start(this::accept);
    }

    InetSocketAddress address() {
        return new InetSocketAddress(listening.getInetAddress(), listening.getLocalPort());
    }

    /// Where connections lead from now on.
    void leadTo(InetSocketAddress other) {
        server = other;
    }

    /// Cuts all connections, with what is on its way in either direction.
    synchronized void cut() throws IOException {
        for (Socket socket : sockets) {
            socket.close();
        }
        sockets.clear();
    }

    /// Cuts the connection behind so many more bytes of requests; later ones are whole.
    void cutRequestsBehind(int bytes) {
        requestsLeft.set(bytes);
    }

    /// Cuts the connection behind so many more bytes of replies; later ones are whole.
    void cutRepliesBehind(int bytes) {
        repliesLeft.set(bytes);
    }

    /// Returns the number of requests that a server of the version does not know.
    int unknown() {
        return unknown.get();
    }

    /// Whether new connections are cut at once.
    void refuse(boolean whether) {
        refuses = whether;
    }

    private void accept() {
        while (!listening.isClosed()) {
            try {
                Socket client = listening.accept();
                if (refuses) {
                    client.close();
                    continue;
                }
                Socket there = new Socket(server.getAddress(), server.getPort());
                there.setTcpNoDelay(true);
                client.setTcpNoDelay(true);
                synchronized (this) {
                    sockets.add(client);
                    sockets.add(there);
                }
                Thread.ofPlatform().daemon().name("proxy-there").start(() -> passRequests(client, there));
                Thread.ofPlatform().daemon().name("proxy-back").start(() -> pass(there, client, repliesLeft));
            } catch (IOException closed) {
                // this, or the server
            }
        }
    }

    private void passRequests(Socket client, Socket there) {
        if (version == Protocol.VERSION) {
            pass(client, there, requestsLeft);
            return;
        }
        try (client;
                there) {
            DataInputStream in = new DataInputStream(client.getInputStream());
            OutputStream out = there.getOutputStream();
            out.write(older(frame(in)));
            while (true) {
                byte[] frame = frame(in);
                if (version < Protocol.VERSION_BATCH && frame[KIND] == Protocol.BATCH) {
                    unknown.incrementAndGet();
                    return;
                }
                out.write(frame);
            }
        } catch (IOException cut) {
            // both ends will notice
        }
    }

    private static byte[] frame(DataInputStream in) throws IOException {
        byte[] length = new byte[Integer.BYTES];
        in.readFully(length);
        int rest = ByteBuffer.wrap(length).order(ByteOrder.LITTLE_ENDIAN).getInt();
        byte[] frame = Arrays.copyOf(length, Integer.BYTES + rest);
        in.readFully(frame, Integer.BYTES, rest);
        return frame;
    }

    /// Returns a hello as a client of the version writes it.
    private byte[] older(byte[] frame) throws IOException {
        RequestReader hello = new RequestReader(Protocol.ROWS_MAX);
        try {
            hello.next(frame, 0, frame.length);
        } catch (ProtocolException none) {
            throw new IOException(none);
        }
        FrameWriter out = new FrameWriter(frame.length);
        out.hello(
                hello.id(),
                hello.versionLowest(),
                Math.min(hello.versionHighest(), version),
                hello.session(),
                hello.identity(),
                hello.generation());
        return Arrays.copyOf(out.bytes(), out.length());
    }

    private static void pass(Socket one, Socket other, AtomicInteger left) {
        byte[] bytes = new byte[1 << 16];
        try (one;
                other) {
            InputStream in = one.getInputStream();
            OutputStream out = other.getOutputStream();
            for (int count = in.read(bytes); count >= 0; count = in.read(bytes)) {
                int limit = left.get();
                out.write(bytes, 0, limit == ALL ? count : Math.min(limit, count));
                if (limit != ALL && limit <= count) {
                    left.set(ALL);
                    return;
                }
                if (limit != ALL) {
                    left.set(limit - count);
                }
            }
        } catch (IOException cut) {
            // both ends will notice
        }
    }

    @Override
    public void close() throws IOException {
        listening.close();
        cut();
    }
}
