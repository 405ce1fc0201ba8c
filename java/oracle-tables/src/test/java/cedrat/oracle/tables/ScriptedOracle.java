package cedrat.oracle.tables;

import cedrat.oracle.protocol.ErrorCode;
import cedrat.oracle.protocol.FrameWriter;
import cedrat.oracle.protocol.Protocol;
import cedrat.oracle.protocol.ProtocolException;
import cedrat.oracle.protocol.RequestReader;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicLong;

/// A server that answers commits, and questions for their outcome, as a script says. It speaks version 3, so each
/// request has a frame of its own.
final class ScriptedOracle implements AutoCloseable {
    /// Reaction to a request.
    enum Answer {
        COMMITTED,
        ABORTED,
        /// The oracle has forgotten the transaction.
        FORGOTTEN,
        /// The connection is cut, and there is no reply later.
        CUT,
        /// The connection is refused for good.
        REFUSAL
    }

    private static final int VERSION = 3;
    private static final long IDENTITY = 7;
    private static final int LIMIT = 1000;
    private static final long FIRST = 1;

    private final ServerSocket listening = new ServerSocket(0, 10, InetAddress.getLoopbackAddress());
    private final List<Socket> sockets = new CopyOnWriteArrayList<>();
    private final List<Byte> kinds = new CopyOnWriteArrayList<>();
    private final AtomicLong newest = new AtomicLong();
    private final AtomicBoolean isCut = new AtomicBoolean();
    private final Answer toCommits;
    private final Answer toQuestions;

    /// Answers the commit of the first transaction, and questions for outcomes, so; other commits succeed.
    ScriptedOracle(Answer toCommits, Answer toQuestions) throws IOException {
        this.toCommits = toCommits;
        this.toQuestions = toQuestions;
        Thread.startVirtualThread(this::accept);
    }

    InetSocketAddress address() {
        return (InetSocketAddress) listening.getLocalSocketAddress();
    }

    /// Returns how many requests of this kind have arrived.
    long count(byte kind) {
        return kinds.stream().filter(each -> each == kind).count();
    }

    private void accept() {
        try {
            while (true) {
                Socket socket = listening.accept();
                sockets.add(socket);
                Thread.startVirtualThread(() -> serve(socket));
            }
        } catch (IOException closed) {
            // the end of the test
        }
    }

    private void serve(Socket socket) {
        RequestReader in = new RequestReader(LIMIT);
        FrameWriter out = new FrameWriter(64);
        byte[] bytes = new byte[1 << 16];
        int end = 0;
        try (socket) {
            while (true) {
                int length = in.next(bytes, 0, end);
                if (length == 0) {
                    int count = socket.getInputStream().read(bytes, end, bytes.length - end);
                    if (count < 0) {
                        return;
                    }
                    end += count;
                    continue;
                }
                kinds.add(in.kind());
                if (!answer(in, out)) {
                    return;
                }
                socket.getOutputStream().write(out.bytes(), 0, out.length());
                out.clear();
                System.arraycopy(bytes, length, bytes, 0, end - length);
                end -= length;
            }
        } catch (IOException closed) {
            // the end of the test, or of the client
        } catch (ProtocolException invalid) {
            throw new AssertionError(invalid);
        }
    }

    private boolean answer(RequestReader in, FrameWriter out) {
        switch (in.kind()) {
            case Protocol.HELLO -> out.welcome(in.id(), VERSION, Integer.MAX_VALUE, LIMIT, LIMIT, IDENTITY, IDENTITY);
            case Protocol.ANNOUNCE -> {
                int values = out.values(Protocol.ANNOUNCE, in.id(), in.starts());
                for (int index = 0; index < in.starts(); index++) {
                    out.putValue(values, index, Protocol.OPEN);
                }
            }
            case Protocol.BEGIN -> out.value(Protocol.BEGIN, in.id(), newest.incrementAndGet());
            case Protocol.COMMIT -> {
                return decide(in.start() == FIRST ? toCommits : Answer.COMMITTED, in, out);
            }
            case Protocol.RESOLVE -> {
                return decide(toQuestions, in, out);
            }
            case Protocol.CLEANED -> out.value(Protocol.CLEANED, in.id(), 0);
            default -> out.done(in.kind(), in.id());
        }
        return true;
    }

    private boolean decide(Answer answer, RequestReader in, FrameWriter out) {
        switch (answer) {
            case COMMITTED -> out.value(in.kind(), in.id(), newest.incrementAndGet());
            case ABORTED -> out.value(in.kind(), in.id(), Protocol.ABORTED_RESOLVED);
            case FORGOTTEN -> out.value(in.kind(), in.id(), Protocol.UNKNOWN);
            case REFUSAL -> out.error(0, Protocol.FLAG_CLOSING, ErrorCode.OTHER_ORACLE, "another oracle");
            default -> {}
        }
        return answer != Answer.CUT || isCut.getAndSet(true);
    }

    @Override
    public void close() throws IOException {
        listening.close();
        for (Socket socket : sockets) {
            socket.close();
        }
    }
}
