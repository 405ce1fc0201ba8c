package cedrat.oracle.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.net.UnknownHostException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.atomic.AtomicReference;
import org.junit.jupiter.api.Test;

/// C6.
class ConnectorTest {
    private static final String NAME = "oracle.example";

    private static final Duration RETRY = Duration.ofMillis(1);
    private static final int PATIENCE_MS = 60_000;

    /// Answers that no request awaits.
    private static final class NoReplies implements Replies<Object> {
        final CompletableFuture<OracleException> failure = new CompletableFuture<>();

        @Override
        public void begun(Object tag, long start) {}

        @Override
        public void decided(Object tag, long start, long outcome) {}

        @Override
        public void outcomes(Object tag, long[] outcomes) {}

        @Override
        public void number(Object tag, long number) {}

        @Override
        public void failed(Object tag, OracleException why) {
            failure.complete(why);
        }
    }

    private static InetAddress address(int last) throws UnknownHostException {
        return InetAddress.getByAddress(new byte[] {127, 0, 0, (byte) last});
    }

    private static ServerSocket listen(int last, int port) throws IOException {
        ServerSocket server = new ServerSocket(port, 0, address(last));
        server.setSoTimeout(PATIENCE_MS);
        return server;
    }

    /// Reads the begin of a hello.
    private static Socket accept(ServerSocket server) throws IOException {
        Socket socket = server.accept();
        assertTrue(socket.getInputStream().read() >= 0);
        return socket;
    }

    private static ClientOptions options(InetSocketAddress... servers) {
        return ClientOptions.of(servers).withReconnect(RETRY, RETRY);
    }

    /// The server is moved to another address.
    @Test
    void movedServerIsFoundByName() throws Exception {
        AtomicReference<InetAddress> answer = new AtomicReference<>(address(1));
        List<String> names = Collections.synchronizedList(new ArrayList<>());
        try (ClientThreads threads = new ClientThreads(1)) {
            int port;
            Pipeline<Object> pipeline;
            try (ServerSocket first = listen(1, 0)) {
                port = first.getLocalPort();
                // What the caller has resolved is not what counts.
                InetSocketAddress server = new InetSocketAddress(
                        InetAddress.getByAddress(NAME, address(1).getAddress()), port);
                pipeline = threads.open(options(server), new NoReplies(), host -> {
                    names.add(host);
                    return new InetAddress[] {answer.get()};
                });
                Socket connection = accept(first);
                answer.set(address(2));
                connection.close();
            }
            try (ServerSocket second = listen(2, port)) {
                accept(second).close();
            }
            assertEquals(NAME, names.getFirst());
            pipeline.execute(pipeline::close);
        }
    }

    /// A name of several servers, of which one answers.
    @Test
    void allAddressesOfNameAreTried() throws Exception {
        try (ServerSocket server = listen(3, 0);
                ClientThreads threads = new ClientThreads(1)) {
            InetSocketAddress name = InetSocketAddress.createUnresolved(NAME, server.getLocalPort());
            Pipeline<Object> pipeline = threads.open(
                    options(name), new NoReplies(), host -> new InetAddress[] {address(1), address(2), address(3)});
            accept(server).close();
            pipeline.execute(pipeline::close);
        }
    }

    /// The name service fails: the address from before is tried, and without one the error names the name.
    @Test
    void unknownNameIsReportedOrReplaced() throws Exception {
        Connector.Resolver none = host -> {
            throw new UnknownHostException(host);
        };
        NoReplies replies = new NoReplies();
        try (ServerSocket server = listen(1, 0);
                ClientThreads threads = new ClientThreads(1)) {
            InetSocketAddress unknown = InetSocketAddress.createUnresolved(NAME, server.getLocalPort());
            Pipeline<Object> lost = threads.open(options(unknown).withPatience(Duration.ofMillis(100)), replies, none);
            lost.execute(() -> lost.begin(this));
            String message = replies.failure.get().getMessage();
            assertTrue(message.contains("cannot resolve the name " + NAME), message);
            InetSocketAddress known = new InetSocketAddress(
                    InetAddress.getByAddress(NAME, address(1).getAddress()), server.getLocalPort());
            Pipeline<Object> pipeline = threads.open(options(unknown, known), replies, none);
            accept(server).close();
            pipeline.execute(pipeline::close);
            lost.execute(lost::close);
        }
    }

    /// One of the servers of a name accepts connections, and says nothing.
    @Test
    void silentAddressOfNameIsLeft() throws Exception {
        try (ServerSocket silent = listen(1, 0);
                ServerSocket server = listen(2, silent.getLocalPort());
                ClientThreads threads = new ClientThreads(1)) {
            InetSocketAddress name = InetSocketAddress.createUnresolved(NAME, server.getLocalPort());
            Pipeline<Object> pipeline =
                    threads.open(options(name).withSilence(Duration.ofMillis(40)), new NoReplies(), host ->
                            new InetAddress[] {address(1), address(2)});
            accept(server).close();
            pipeline.execute(pipeline::close);
        }
    }

    /// The discovery finds another server, later none, and then it fails.
    @Test
    void serversOfDiscoveryAreTried() throws Exception {
        try (ServerSocket first = listen(1, 0);
                ServerSocket second = listen(2, 0);
                ClientThreads threads = new ClientThreads(1)) {
            AtomicReference<InetSocketAddress> found =
                    new AtomicReference<>((InetSocketAddress) first.getLocalSocketAddress());
            ServerDiscovery discovery = () -> {
                if (found.get() == null) {
                    throw new IOException("no answer");
                }
                return List.of(found.get());
            };
            ClientOptions options = ClientOptions.of(discovery).withReconnect(RETRY, RETRY);
            Pipeline<Object> pipeline = threads.open(options, new NoReplies());
            Socket connection = accept(first);
            found.set((InetSocketAddress) second.getLocalSocketAddress());
            connection.close();
            connection = accept(second);
            found.set(null);
            connection.close();
            accept(second).close();
            pipeline.execute(pipeline::close);
        }
    }

    @Test
    void failedDiscoveryIsReported() throws Exception {
        ServerDiscovery discovery = new ServerDiscovery() {
            private boolean isEmpty;

            @Override
            public List<InetSocketAddress> find() throws IOException {
                isEmpty = !isEmpty;
                if (isEmpty) {
                    return List.of();
                }
                throw new IOException("out of order");
            }

            @Override
            public String toString() {
                return "a directory";
            }
        };
        NoReplies replies = new NoReplies();
        try (ClientThreads threads = new ClientThreads(1)) {
            ClientOptions options =
                    ClientOptions.of(discovery).withReconnect(RETRY, RETRY).withPatience(Duration.ofMillis(100));
            Pipeline<Object> pipeline = threads.open(options, replies);
            pipeline.execute(() -> pipeline.begin(this));
            String message = replies.failure.get().getMessage();
            assertTrue(message.contains("no oracle at a directory could be reached"), message);
            assertTrue(message.contains("cannot find the oracle by a directory: "), message);
            pipeline.execute(pipeline::close);
        }
    }
}
