package cedrat.oracle.server;

import cedrat.oracle.protocol.FrameWriter;
import cedrat.oracle.protocol.Mechanism;
import cedrat.oracle.protocol.Protocol;
import java.io.IOException;
import java.net.Socket;
import java.util.Arrays;

/// A client that makes requests and reads no reply, until the server has no room for another one.
final class UnreadConnection implements AutoCloseable {
    private static final int STARTS = 1 << 13;
    private static final int ROUNDS = 300;

    private final Socket socket = new Socket();
    private final Thread sender;

    /// Makes requests in this session, behind a message of the mechanism PLAIN if `plain` is not `null`.
    UnreadConnection(OracleServer server, long session, byte[] plain) throws IOException {
        FrameWriter out = new FrameWriter(64);
        if (plain != null) {
            out.authenticate(1, Mechanism.PLAIN, plain);
        }
        out.hello(2, 1, Protocol.VERSION, session);
        out.plain(Protocol.BEGIN, 3);
        byte[] first = frames(out);
        long[] starts = new long[STARTS];
        Arrays.fill(starts, 1);
        out.status(4, 1, starts, STARTS);
        byte[] questions = frames(out);
        socket.setReceiveBufferSize(1 << 12);
        socket.connect(server.address());
        sender = Thread.ofVirtual().start(() -> {
            try {
                socket.getOutputStream().write(first);
                while (true) {
                    socket.getOutputStream().write(questions);
                }
            } catch (IOException closed) {
                // the end of the test, or what it waits for
            }
        });
        awaitBlocked(server, session);
    }

    private static byte[] frames(FrameWriter out) {
        byte[] bytes = Arrays.copyOf(out.bytes(), out.length());
        out.clear();
        return bytes;
    }

    /// Waits until replies fill all buffers.
    private static void awaitBlocked(OracleServer server, long session) {
        int rounds = 0;
        while (rounds < ROUNDS) {
            boolean isBlocked = server.inspect((oracle, sessions) -> {
                Session of = sessions.get(session);
                return of != null
                        && of.connection != null
                        && of.connection.waiting
                        && !of.connection.channel.isWritable();
            });
            rounds = isBlocked ? rounds + 1 : 0;
            server.settle();
        }
    }

    @Override
    public void close() throws IOException {
        socket.close();
        try {
            sender.join();
        } catch (InterruptedException interrupted) {
            throw new IOException(interrupted);
        }
    }
}
