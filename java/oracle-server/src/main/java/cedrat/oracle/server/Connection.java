package cedrat.oracle.server;

import cedrat.oracle.protocol.FrameWriter;
import cedrat.oracle.transport.Input;
import io.netty.channel.Channel;
import io.netty.channel.EventLoop;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.atomic.AtomicInteger;

/// State of a connection on the decide thread. All mutable fields belong to that thread, except
/// `handedOver`, and `waiting` and `paused`, which the channel's event loop also reads.
///
/// - D7  It is read from while it is neither `waiting` nor `paused`, and fewer than [#HANDED_OVER_MAX] bytes are handed
///   over. Only the channel's event loop starts and stops reading: after each change of either, by the values of
///   both at that time.
final class Connection {
    /// Bytes in flight to the decide thread at which a network thread stops reading.
    static final int HANDED_OVER_MAX = 1 << 20;

    private static final int REPLIES_BYTES = 1 << 10;

    final Channel channel;
    private final EventLoop decides;
    /// Bytes that a network thread has read and the decide thread did not see yet.
    private final AtomicInteger handedOver = new AtomicInteger();

    /// Requests that were not decided.
    final Input input = new Input();
    /// Replies to requests of the open batch, and how many.
    final FrameWriter replies = new FrameWriter(REPLIES_BYTES);
    int repliesCount;
    /// Bytes of these replies that the open batch has counted.
    int repliesBytes;
    /// Requests that were decided, but whose replies were not released.
    int outstanding;
    /// Bytes of replies in batches in flight.
    long bytesInFlight;
    /// `null` before the hello.
    Session session;
    /// Account of its client; `null` before the hello. `hasLeft` once it counts there no more, `countedBytes` are the
    /// bytes of its input that are counted.
    Account account;
    boolean hasLeft;
    int countedBytes;
    /// The name of the client, and its role, since the hello.
    String name;
    Role role;
    /// Version of the protocol since the hello.
    int version;
    /// Number of ticks of the hello timeout for which its hello, or its end, was awaited.
    int awaitedTicks;
    /// Nothing that still comes from it is decided: it is closed, or will be behind the replies of a batch.
    boolean finished;
    /// To be closed behind the replies of the open batch.
    boolean closing;
    /// To be closed then also if its client has not read the replies.
    boolean cutsOff;
    /// It has input, and waits until there is room for the answers.
    volatile boolean waiting;
    /// It is not read from, because its client has too many bytes waiting.
    volatile boolean paused;

    /// A connection whose requests are decided on the loop `decides`.
    Connection(Channel channel, EventLoop decides) {
        this.channel = channel;
        this.decides = decides;
    }

    /// Whether the server, and not its client, is the reason why it is not read from.
    boolean isHeld() {
        return (waiting || paused) && channel.isWritable();
    }

    /// Returns the bytes of replies that were not released.
    long outstandingBytes() {
        return bytesInFlight + replies.length();
    }

    /// Counts a reply to so many requests that was put into the open batch.
    void replied(int count) {
        repliesCount += count;
        outstanding += count;
        if (account != null) {
            account.outstanding += count;
        }
    }

    /// Counts replies that were released.
    void released(int count, int bytes) {
        outstanding -= count;
        bytesInFlight -= bytes;
        if (account != null) {
            account.outstanding -= count;
        }
    }

    /// Stops or starts reading from it.
    void pause(boolean pauses) {
        paused = pauses;
        requestReading();
    }

    /// Counts bytes that are about to be handed to the decide thread. On the channel's event loop.
    void handOver(int bytes) {
        if (handedOver.addAndGet(bytes) >= HANDED_OVER_MAX) {
            updateReading();
        }
    }

    /// Counts bytes that the decide thread has received.
    void received(int bytes) {
        int before = handedOver.getAndAdd(-bytes);
        if (before >= HANDED_OVER_MAX && before - bytes < HANDED_OVER_MAX) {
            requestReading();
        }
    }

    /// Makes the channel's event loop start or stop reading (D7) after a change on the decide thread.
    void requestReading() {
        if (channel.eventLoop() == decides) {
            updateReading();
            return;
        }
        try {
            channel.eventLoop().execute(this::updateReading);
        } catch (RejectedExecutionException ended) {
            // the server ends, and nothing is read any more
        }
    }

    private void updateReading() {
        boolean reads = !waiting && !paused && handedOver.get() < HANDED_OVER_MAX;
        if (channel.config().isAutoRead() != reads) {
            channel.config().setAutoRead(reads);
        }
    }
}
