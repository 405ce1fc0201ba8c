package cedrat.oracle.server;

import cedrat.oracle.protocol.FrameWriter;
import cedrat.oracle.transport.Input;
import io.netty.channel.Channel;
import java.util.concurrent.atomic.AtomicInteger;

/// State of a connection on the decide thread. All fields but `channel` and `handedOver` belong to that thread.
final class Connection {
    private static final int REPLIES_BYTES = 1 << 10;

    final Channel channel;
    /// Bytes that a network thread has read and the decide thread did not see yet.
    final AtomicInteger handedOver = new AtomicInteger();

    /// Requests that were not decided.
    final Input input = new Input();
    /// Replies to requests of the open batch, and how many.
    final FrameWriter replies = new FrameWriter(REPLIES_BYTES);
    int repliesCount;
    /// Requests that were decided, but whose replies were not released.
    int outstanding;
    /// `null` before the hello.
    Session session;
    /// For how many ticks of the server it has said no hello.
    int strangeTicks;
    /// Nothing that still comes from it is decided: it is closed, or will be behind the replies of a batch.
    boolean finished;
    /// To be closed behind the replies of the open batch.
    boolean closing;
    /// It has input, and waits until there is room for the answers.
    boolean waiting;

    Connection(Channel channel) {
        this.channel = channel;
    }

    void setReading(boolean reading) {
        if (channel.config().isAutoRead() != reading) {
            channel.config().setAutoRead(reading);
        }
    }
}
