package cedrat.oracle.server.cluster;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cedrat.oracle.protocol.ErrorCode;
import cedrat.oracle.protocol.FrameWriter;
import cedrat.oracle.protocol.Protocol;
import cedrat.oracle.protocol.ProtocolException;
import cedrat.oracle.protocol.ReplyReader;
import cedrat.oracle.server.OracleServer;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.net.SocketException;

/// A client that sends what the test gives it, valid or not, frame by frame.
public final class RawClient implements AutoCloseable {
    /// A test that waits for so long has failed.
    private static final int TOO_LONG_MS = 60_000;

    public final FrameWriter out = new FrameWriter(64);
    public final ReplyReader reply = new ReplyReader();
    private final Socket socket;
    private final byte[] bytes;
    private int from;
    private int end;
    private long newestId;

    /// Without a hello.
    public RawClient(OracleServer server) throws IOException {
        this(server.address());
    }

    public RawClient(InetSocketAddress server) throws IOException {
        this(server, new byte[Protocol.FRAME_BYTES_MAX]);
    }

    /// Without a hello, one of many: replies are received into an array that may be shared, or has no room for any.
    public RawClient(InetSocketAddress server, byte[] bytes) throws IOException {
        this.bytes = bytes;
        socket = new Socket(server.getAddress(), server.getPort());
        socket.setTcpNoDelay(true);
        socket.setSoTimeout(TOO_LONG_MS);
    }

    /// With a hello, which was answered.
    public RawClient(OracleServer server, long session) throws IOException, ProtocolException {
        this(server.address(), session);
    }

    public RawClient(InetSocketAddress server, long session) throws IOException, ProtocolException {
        this(server, session, 1);
    }

    /// Connects with a hello that offers versions up to this one.
    public RawClient(InetSocketAddress server, long session, int version) throws IOException, ProtocolException {
        this(server);
        out.hello(id(), 1, version, session);
        send();
        assertEquals(Protocol.HELLO, receive().request());
    }

    /// A new number for a request.
    public long id() {
        return ++newestId;
    }

    public RawClient send() throws IOException {
        socket.getOutputStream().write(out.bytes(), 0, out.length());
        out.clear();
        return this;
    }

    public RawClient send(byte[] some) throws IOException {
        socket.getOutputStream().write(some);
        return this;
    }

    /// The next reply; waits for it.
    public ReplyReader receive() throws IOException, ProtocolException {
        while (true) {
            int length = reply.next(bytes, from, end);
            if (length > 0) {
                from += length;
                return reply;
            }
            System.arraycopy(bytes, from, bytes, 0, end - from);
            end -= from;
            from = 0;
            int count = socket.getInputStream().read(bytes, end, bytes.length - end);
            if (count < 0) {
                throw new IOException("the server has closed the connection");
            }
            end += count;
        }
    }

    /// Whether not a byte is there. Whatever the server has written before this is called is seen.
    public boolean nothingArrived() throws IOException {
        return from == end && socket.getInputStream().available() == 0;
    }

    /// Waits until the server has closed the connection; fails if it says anything before.
    public void awaitClosed() throws IOException {
        assertTrue(from == end, "a reply");
        try {
            assertEquals(-1, socket.getInputStream().read(), "a reply");
        } catch (SocketException reset) {
            // closed while something was on its way to the server
        }
    }

    // ---- one request, one answer ------------------------------------------------------------------------------------

    public long begin() throws IOException, ProtocolException {
        out.plain(Protocol.BEGIN, id());
        return value(Protocol.BEGIN);
    }

    public long commit(long start, long... rows) throws IOException, ProtocolException {
        out.commit(id(), start, rows, rows.length, rows, 0);
        return value(Protocol.COMMIT);
    }

    public long ask(byte kind, long start) throws IOException, ProtocolException {
        out.start(kind, id(), start);
        return value(kind);
    }

    public long status(long reader, long writer) throws IOException, ProtocolException {
        out.status(id(), reader, new long[] {writer}, 1);
        return value(Protocol.STATUS);
    }

    public long lowWaterMark() throws IOException, ProtocolException {
        out.plain(Protocol.LOW_WATER, id());
        return value(Protocol.LOW_WATER);
    }

    /// Says that a sweep was made; returns how many transactions were forgotten. Fails if there are more.
    public long swept(long mark) throws IOException, ProtocolException {
        out.swept(id(), 0, mark, 1);
        value(Protocol.SWEPT);
        assertEquals(0, reply.next());
        return reply.forgotten();
    }

    /// Announces these transactions and no others.
    public long[] announce(long... starts) throws IOException, ProtocolException {
        out.starts(Protocol.ANNOUNCE, Protocol.FLAG_LAST, id(), starts, 0, starts.length);
        send().receive();
        assertEquals(Protocol.ANNOUNCE, reply.request());
        long[] outcomes = new long[reply.values()];
        for (int index = 0; index < outcomes.length; index++) {
            outcomes[index] = reply.value(index);
        }
        return outcomes;
    }

    private long value(byte kind) throws IOException, ProtocolException {
        send().receive();
        assertEquals(kind, reply.request(), () -> reply.kind() == Protocol.ERROR ? reply.errorText() : "");
        assertEquals(newestId, reply.id());
        return reply.value();
    }

    /// The next reply refuses for this reason.
    public void refused(ErrorCode code, boolean closing) throws IOException, ProtocolException {
        receive();
        assertEquals(Protocol.ERROR, reply.kind());
        assertEquals(code, reply.errorCode(), reply.errorText());
        assertEquals(closing ? Protocol.FLAG_CLOSING : 0, reply.flags());
    }

    @Override
    public void close() throws IOException {
        socket.close();
    }
}
