package cedrat.oracle.server.cluster;

import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.SplittableRandom;
import java.util.random.RandomGenerator;

/// A network of streams between clients and servers. Each client has a link of its own, which can be cut, held in
/// either direction, and cut again after a few bytes: so bytes are lost with their connection, late, or delivered
/// by a connection that the client has left, whatever message they belong to. **Threads:** any may call.
public final class Links implements AutoCloseable {
    private static final int BYTES = 1 << 14;

    /// Directions of a link.
    public enum Direction {
        /// From the client to the server.
        REQUESTS,
        /// From the server to the client.
        REPLIES
    }

    private final SplittableRandom random;
    private final Journal journal;
    /// Whether the bytes are of the oracle's protocol, whose requests are recorded.
    private final boolean isOfOracle;
    private final List<Link> links = Collections.synchronizedList(new ArrayList<>());
    private volatile InetSocketAddress server;
    /// Server that was replaced and goes on; `null` if there is none.
    private volatile InetSocketAddress replaced;
    private long cuts;
    private long late;
    private int made;
    private int connected;

    /// A network whose choices this seed determines.
    ///
    /// @param journal records its connections, and what they deliver about sessions
    public Links(long seed, Journal journal) {
        this(seed, journal, true);
    }

    private Links(long seed, Journal journal, boolean isOfOracle) {
        random = new SplittableRandom(seed);
        this.journal = journal;
        this.isOfOracle = isOfOracle;
    }

    /// A network to a server of any protocol.
    public static Links to(InetSocketAddress address, long seed, Journal journal) {
        Links links = new Links(seed, journal, false);
        links.leadTo(address, null);
        return links;
    }

    private synchronized int nextLink() {
        return made++;
    }

    private synchronized int nextConnection() {
        return connected++;
    }

    /// Leads new connections to this server; `null` for none. Some still lead to the one that it has replaced.
    ///
    /// @param before `null` if there is none
    public void leadTo(InetSocketAddress address, InetSocketAddress before) {
        server = address;
        replaced = before;
    }

    private synchronized int draw(int bound) {
        return random.nextInt(bound);
    }

    private synchronized void count(boolean isLate) {
        if (isLate) {
            late++;
        } else {
            cuts++;
        }
    }

    /// Returns the numbers of connections that were cut, and of deliveries that were held.
    @Override
    public synchronized String toString() {
        return cuts + " connections cut, " + late + " deliveries held";
    }

    /// Makes the link of a client.
    public Link link() throws IOException {
        Link link = new Link();
        links.add(link);
        return link;
    }

    /// Lets everything pass everywhere.
    public void heal() {
        List.copyOf(links).forEach(Link::heal);
    }

    /// Cuts all connections.
    public void cut() {
        List.copyOf(links).forEach(Link::cut);
    }

    @Override
    public void close() throws IOException {
        for (Link link : List.copyOf(links)) {
            link.close();
        }
    }

    /// The way of one client, over two addresses.
    public final class Link implements AutoCloseable {
        private final int number = nextLink();
        private final ServerSocket[] listening = new ServerSocket[2];
        private final List<Line> lines = new ArrayList<>();
        private final boolean[] isHeld = new boolean[Direction.values().length];
        private boolean isRefused;
        /// Server to which new connections lead; `null` for that of all links.
        private InetSocketAddress misdirectedTo;
        private boolean isClosed;
        /// Bytes after which the next connection is cut, at most; 0 for never.
        private int budget;

        private Link() throws IOException {
            for (int index = 0; index < listening.length; index++) {
                ServerSocket socket = new ServerSocket(0, 100, InetAddress.getLoopbackAddress());
                listening[index] = socket;
                start(() -> accept(socket));
            }
        }

        /// Returns its number among all links.
        @Override
        public String toString() {
            return "link " + number;
        }

        /// Returns the addresses of the server for the client of this link.
        public InetSocketAddress[] addresses() {
            InetSocketAddress[] addresses = new InetSocketAddress[listening.length];
            for (int index = 0; index < listening.length; index++) {
                addresses[index] = new InetSocketAddress(
                        "127.0.0.1", listening[index].getLocalPort()); // a literal is not resolved
            }
            return addresses;
        }

        /// Cuts its connections, with the bytes that are on their way.
        public synchronized void cut() {
            List.copyOf(lines).forEach(Line::close);
        }

        /// Cuts its connections, and then each new one after at most so many bytes, until it is healed.
        public synchronized void cutAfter(int bytes) {
            budget = bytes;
            cut();
        }

        /// Holds all bytes of a direction.
        public synchronized void hold(Direction direction) {
            isHeld[direction.ordinal()] = true;
        }

        /// Holds all bytes of both directions.
        public synchronized void hold() {
            hold(Direction.REQUESTS);
            hold(Direction.REPLIES);
        }

        /// Holds a direction or both, or cuts its connections, as `drawn` says.
        ///
        /// @param bytesMax bytes after which new connections are cut, if they are
        public void fail(RandomGenerator drawn, int bytesMax) {
            switch (drawn.nextInt(6)) {
                case 0 -> hold(Direction.REQUESTS);
                case 1 -> hold(Direction.REPLIES);
                case 2 -> refuse();
                case 3 -> cut();
                case 4 -> cutAfter(drawn.nextInt(1, bytesMax));
                default -> hold();
            }
        }

        /// Delivers the held bytes, also those of connections that the client has left.
        public synchronized void release() {
            isHeld[0] = false;
            isHeld[1] = false;
            notifyAll();
        }

        /// Cuts its connections, and refuses new ones until it is healed.
        public synchronized void refuse() {
            isRefused = true;
            cut();
        }

        /// Cuts its connections, and leads new ones to a server of another oracle until it is healed.
        public synchronized void lead(InetSocketAddress other) {
            misdirectedTo = other;
            cut();
        }

        /// Lets everything pass.
        public synchronized void heal() {
            isRefused = false;
            if (misdirectedTo != null) {
                misdirectedTo = null;
                cut();
            }
            budget = 0;
            release();
        }

        private synchronized void awaitPass(Direction direction, Line line) throws InterruptedException {
            if (isHeld[direction.ordinal()]) {
                count(true);
            }
            while (isHeld[direction.ordinal()] && !line.isClosed) {
                wait();
            }
        }

        private void accept(ServerSocket socket) {
            while (!socket.isClosed()) {
                try {
                    connect(socket.accept());
                } catch (IOException closed) {
                    // this socket, or the client's
                }
            }
        }

        private void connect(Socket client) throws IOException {
            InetSocketAddress before = replaced;
            InetSocketAddress usual = before != null && draw(4) == 0 ? before : server;
            Line line;
            synchronized (this) {
                InetSocketAddress to = misdirectedTo == null ? usual : misdirectedTo;
                if (isRefused || isClosed || to == null) {
                    client.close();
                    return;
                }
                try {
                    line = new Line(this, client, new Socket(to.getAddress(), to.getPort()), budget);
                } catch (IOException refused) {
                    client.close();
                    return;
                }
                lines.add(line);
            }
            start(() -> line.pass(Direction.REQUESTS));
            start(() -> line.pass(Direction.REPLIES));
        }

        private synchronized void remove(Line line) {
            lines.remove(line);
            notifyAll();
        }

        @Override
        public void close() throws IOException {
            for (ServerSocket socket : listening) {
                socket.close();
            }
            synchronized (this) {
                isClosed = true; // also for a connection that was accepted just now
                cut();
            }
            links.remove(this);
        }
    }

    private static void start(Runnable work) {
        Thread.ofVirtual().start(work);
    }

    /// A connection of a client, and one to a server.
    private final class Line {
        private final Link link;
        private final Socket client;
        private final Socket server;
        private final String name;
        private final Journal.Tap tap;
        /// Number of bytes that may still pass in each direction; below 0 for all.
        private final int[] left = new int[Direction.values().length];
        private volatile boolean isClosed;

        Line(Link link, Socket client, Socket server, int budget) throws IOException {
            this.link = link;
            this.client = client;
            this.server = server;
            name = link + " connection " + nextConnection();
            tap = journal.tap(name);
            journal.recordConnection(
                    name + " to port " + server.getPort() + ", from its port " + server.getLocalPort());
            client.setTcpNoDelay(true);
            server.setTcpNoDelay(true);
            left[0] = budget == 0 ? -1 : draw(budget);
            left[1] = budget == 0 ? -1 : draw(budget);
        }

        /// Ends with the sender. What the client has sent before it left still reaches the server.
        void pass(Direction direction) {
            boolean isToServer = direction == Direction.REQUESTS;
            byte[] bytes = new byte[BYTES];
            boolean isReceived = true;
            try {
                InputStream in = (isToServer ? client : server).getInputStream();
                OutputStream out = (isToServer ? server : client).getOutputStream();
                for (int count = in.read(bytes); count >= 0 && !isClosed; count = in.read(bytes)) {
                    link.awaitPass(direction, this);
                    int passing = take(direction, count);
                    if (isToServer && isOfOracle) {
                        tap.pass(bytes, passing);
                    }
                    if (isReceived) {
                        isReceived = write(out, bytes, passing, isToServer);
                    }
                    if (passing < count) {
                        count(false);
                        break;
                    }
                }
            } catch (IOException | InterruptedException ended) {
                // so does the connection
            }
            close();
        }

        /// Returns whether the receiver is there. A client that has left loses its replies; its requests go on.
        private boolean write(OutputStream out, byte[] bytes, int count, boolean isToServer) throws IOException {
            try {
                out.write(bytes, 0, count);
                return true;
            } catch (IOException gone) {
                if (isToServer) {
                    throw gone;
                }
                return false;
            }
        }

        private int take(Direction direction, int count) {
            int index = direction.ordinal();
            if (left[index] < 0) {
                return count;
            }
            int taken = Math.min(left[index], count);
            left[index] -= taken;
            return taken;
        }

        void close() {
            if (!isClosed) {
                isClosed = true;
                count(false);
                journal.recordConnection(name + " ends");
            }
            try (client;
                    server) {
                link.remove(this);
            } catch (IOException closed) {
                // as it shall be
            }
        }
    }
}
