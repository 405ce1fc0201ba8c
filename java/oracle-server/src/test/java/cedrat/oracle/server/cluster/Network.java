package cedrat.oracle.server.cluster;

import cedrat.oracle.protocol.Protocol;
import java.io.DataInputStream;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.SplittableRandom;

/// A network between clients and servers that loses whole frames, and delivers them late, twice, and in
/// another order: also over earlier or later connections of the session, and also to and from servers that
/// were replaced meanwhile. A server notices late that a client has gone away.
///
/// Frames that open, announce and close a session arrive as they were sent: they belong to the connection, and
/// TCP carries no frame of it over to another one. **Threads:** any may call.
public final class Network implements AutoCloseable {
    /// Number of frames, of a thousand, that are lost, late, and doubled.
    private static final int LOST = 10;

    private static final int LATE = 20;
    private static final int DOUBLED = 40;

    /// Number of frames, of a hundred, that take a late one with them.
    private static final int TAKES_ONE_ALONG = 20;

    private static final int LATE_MAX = 16;
    private static final int LINES_MAX = 4;

    private static final int LENGTH_BYTES = Integer.BYTES;
    private static final int KIND_AT = 4;
    private static final int SESSION_AT = 32;

    private final SplittableRandom random;
    private final boolean isLossless;
    private final List<ServerSocket> listening = new ArrayList<>();
    private final Map<Long, Session> sessions = new HashMap<>();
    private final Set<Line> lines = new HashSet<>();
    private final Set<InetSocketAddress> silenced = new HashSet<>();
    private final List<Runnable> held = new ArrayList<>();
    private final Map<InetSocketAddress, Integer> begins = new HashMap<>();
    private boolean isCalm;
    private long lost;
    private long late;
    private long doubled;

    private Network(long seed, boolean isLossless) {
        random = new SplittableRandom(seed);
        this.isLossless = isLossless;
    }

    /// One of this seed.
    public Network(long seed) {
        this(seed, false);
    }

    /// One that delivers each frame once, of servers that their clients have left too: these come over the
    /// connection that the session has then, or over its next one.
    public static Network lossless() {
        return new Network(0, true);
    }

    /// Where clients find this server through the network.
    public synchronized InetSocketAddress to(InetSocketAddress server) throws IOException {
        ServerSocket listener = new ServerSocket(0, 100, InetAddress.getLoopbackAddress());
        listening.add(listener);
        start(() -> accept(listener, server));
        return new InetSocketAddress(listener.getInetAddress(), listener.getLocalPort());
    }

    /// From now on every frame arrives.
    public synchronized void calm() {
        isCalm = true;
    }

    /// Drops all replies of this server from now on; requests still reach it.
    public synchronized void silence(InetSocketAddress server) {
        silenced.add(server);
        begins.clear();
    }

    /// Delivers the replies of silenced servers.
    public synchronized void unsilence() {
        silenced.clear();
        held.forEach(Runnable::run);
        held.clear();
    }

    /// Waits until this number of begins were sent to a server since one was silenced.
    public synchronized void awaitBegins(InetSocketAddress server, int count) throws InterruptedException {
        while (begins.getOrDefault(server, 0) < count) {
            wait();
        }
    }

    /// Returns the numbers of frames that were lost, were late, and were doubled.
    @Override
    public synchronized String toString() {
        return lost + " lost, " + late + " late, " + doubled + " doubled";
    }

    /// Whether of each kind of mishap there were so many.
    public synchronized boolean hasHad(int count) {
        return lost >= count && late >= count && doubled >= count;
    }

    private static void start(Runnable work) {
        Thread.ofPlatform().daemon().name("network").start(work);
    }

    // ---- lines ------------------------------------------------------------------------------------------------------

    private static final class Session {
        /// The newest last.
        final ArrayDeque<Line> lines = new ArrayDeque<>();
        final List<byte[]> requests = new ArrayList<>();
        final List<byte[]> replies = new ArrayList<>();
    }

    /// A connection of a client, and one to a server.
    private final class Line {
        final InetSocketAddress to;
        final Socket client;
        final Socket server;
        Session session;
        boolean isAnnounced;
        boolean isLeft;

        Line(InetSocketAddress to, Socket client, Socket server) throws IOException {
            this.to = to;
            this.client = client;
            this.server = server;
            client.setTcpNoDelay(true);
            server.setTcpNoDelay(true);
        }

        void request(byte[] frame) {
            if (frame[KIND_AT] == Protocol.BEGIN) {
                begins.merge(to, 1, Integer::sum);
                Network.this.notifyAll();
            }
            write(server, frame);
        }

        void reply(byte[] frame) {
            if (!isLeft) {
                write(client, frame);
            }
        }

        private void write(Socket socket, byte[] frame) {
            try {
                socket.getOutputStream().write(frame);
            } catch (IOException gone) {
                // the reader of that socket gets the error
            }
        }

        void close() {
            try (client;
                    server) {
                isLeft = true;
            } catch (IOException closed) {
                // as it shall be
            }
        }
    }

    private void accept(ServerSocket listener, InetSocketAddress server) {
        while (!listener.isClosed()) {
            try {
                Socket client = listener.accept();
                try {
                    Line line = new Line(server, client, new Socket(server.getAddress(), server.getPort()));
                    synchronized (this) {
                        lines.add(line);
                    }
                    start(() -> requests(line));
                    start(() -> replies(line));
                } catch (IOException refused) {
                    client.close();
                }
            } catch (IOException closed) {
                // the listening socket was closed, or the client closed first
            }
        }
    }

    private interface Frames {
        void frame(byte[] frame);
    }

    /// Returns when there are no more.
    private static void read(Socket from, Frames to) {
        try {
            DataInputStream in = new DataInputStream(from.getInputStream());
            while (true) {
                int length = Integer.reverseBytes(in.readInt());
                byte[] frame = new byte[LENGTH_BYTES + length];
                ByteBuffer.wrap(frame).order(ByteOrder.LITTLE_ENDIAN).putInt(0, length);
                in.readFully(frame, LENGTH_BYTES, length);
                to.frame(frame);
            }
        } catch (IOException end) {
            // of the connection
        }
    }

    private void requests(Line line) {
        read(line.client, frame -> request(line, frame));
        synchronized (this) {
            line.isLeft = true;
            if (isCalm || line.session == null) {
                line.close();
            } // else the server goes on as if the client were there
        }
    }

    private void replies(Line line) {
        read(line.server, frame -> reply(line, frame));
        synchronized (this) {
            line.close();
            lines.remove(line);
            if (line.session != null) {
                line.session.lines.remove(line);
            }
        }
    }

    // ---- frames -----------------------------------------------------------------------------------------------------

    private synchronized void request(Line line, byte[] frame) {
        switch (frame[KIND_AT]) {
            case Protocol.HELLO -> {
                long token =
                        ByteBuffer.wrap(frame).order(ByteOrder.LITTLE_ENDIAN).getLong(SESSION_AT);
                line.session = sessions.computeIfAbsent(token, none -> new Session());
                line.session.lines.add(line);
                if (line.session.lines.size() > LINES_MAX) {
                    line.session.lines.peek().close();
                }
                line.request(frame);
            }
            case Protocol.ANNOUNCE, Protocol.CLOSE -> {
                line.request(frame);
                line.isAnnounced = true;
                if (isLossless) {
                    line.session.replies.forEach(line::reply);
                    line.session.replies.clear();
                }
            }
            default -> {
                for (int copies = copies(frame, line.session.requests); copies > 0; copies--) {
                    line.request(frame);
                }
                // Those that the client has left lead on to their servers.
                List<Line> open = line.session.lines.stream()
                        .filter(each -> each.isAnnounced)
                        .toList();
                byte[] old = old(line.session.requests);
                if (old != null) {
                    open.get(random.nextInt(open.size())).request(old);
                }
            }
        }
    }

    private synchronized void reply(Line line, byte[] frame) {
        if (silenced.contains(line.to)) {
            held.add(() -> reply(line, frame));
            return;
        }
        byte kind = frame[KIND_AT];
        byte request = (byte) (kind & ~Protocol.REPLY);
        boolean isOfTheConnection = kind == Protocol.ERROR
                || request == Protocol.HELLO
                || request == Protocol.ANNOUNCE
                || request == Protocol.CLOSE;
        if (isOfTheConnection) {
            line.reply(frame);
            return;
        }
        Line present = line.session.lines.peekLast();
        if (present == null || present.isLeft) {
            keep(frame, line.session.replies);
            return;
        }
        for (int copies = copies(frame, line.session.replies); copies > 0; copies--) {
            present.reply(frame);
        }
        byte[] old = old(line.session.replies);
        if (old != null) {
            present.reply(old);
        }
    }

    /// How often a frame arrives now; perhaps it comes again later.
    private int copies(byte[] frame, List<byte[]> later) {
        int drawn = isCalm || isLossless ? 1000 : random.nextInt(1000);
        if (drawn < LOST) {
            lost++;
            return 0;
        }
        if (drawn < LOST + LATE) {
            late++;
            keep(frame, later);
            return 0;
        }
        if (drawn < LOST + LATE + DOUBLED) {
            doubled++;
            keep(frame, later);
            return 1 + random.nextInt(2);
        }
        return 1;
    }

    private void keep(byte[] frame, List<byte[]> later) {
        if (later.size() == LATE_MAX) {
            later.remove(0);
        }
        later.add(frame);
    }

    private byte[] old(List<byte[]> later) {
        boolean comes = !isCalm && !isLossless && !later.isEmpty() && random.nextInt(100) < TAKES_ONE_ALONG;
        return comes ? later.remove(random.nextInt(later.size())) : null;
    }

    @Override
    public synchronized void close() throws IOException {
        for (ServerSocket listener : listening) {
            listener.close();
        }
        List.copyOf(lines).forEach(Line::close);
    }
}
