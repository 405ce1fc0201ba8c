package cedrat.oracle.server;

import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cedrat.oracle.log.EntryWriter;
import cedrat.oracle.log.Log;
import cedrat.oracle.log.SnapshotRule;
import cedrat.oracle.log.VolatileLog;
import cedrat.oracle.protocol.FrameWriter;
import cedrat.oracle.protocol.Protocol;
import cedrat.oracle.state.StatusOracle;
import io.netty.buffer.ByteBuf;
import io.netty.buffer.Unpooled;
import io.netty.channel.Channel;
import io.netty.channel.ChannelConfig;
import io.netty.channel.DefaultChannelConfig;
import io.netty.channel.DefaultEventLoop;
import io.netty.channel.EventLoop;
import io.netty.channel.embedded.EmbeddedChannel;
import java.util.concurrent.CompletableFuture;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/// Connections on another thread than the one that decides, with the steps of both in a given order.
@Timeout(300)
class ReceiverTest {
    private static final long SESSION = 11;

    /// A configuration that lets the decide thread finish its queue before the channel stops to read.
    private static final class Racing extends DefaultChannelConfig {
        private final Runnable beforeStop;

        Racing(Channel channel, Runnable beforeStop) {
            super(channel);
            this.beforeStop = beforeStop;
        }

        @Override
        public ChannelConfig setAutoRead(boolean reads) {
            if (!reads) {
                beforeStop.run();
            }
            return super.setAutoRead(reads);
        }
    }

    private static final class RacingChannel extends EmbeddedChannel {
        private ChannelConfig racing;

        RacingChannel(Runnable beforeStop, Receiver receiver) {
            super(receiver);
            racing = new Racing(this, beforeStop);
        }

        @Override
        public ChannelConfig config() {
            return racing == null ? super.config() : racing; // `null` while it is made
        }
    }

    private static Decider decider(EventLoop loop) {
        EntryWriter entry = new EntryWriter();
        StatusOracle oracle = new StatusOracle(10, entry);
        VolatileLog log = new VolatileLog();
        SnapshotRule rule = new SnapshotRule(oracle.window(), ServerOptions.DEFAULTS.logBytesMax());
        Persister persister = new Persister(
                loop,
                oracle,
                entry,
                log,
                rule,
                failure -> {
                    throw new AssertionError(failure);
                },
                Fault.NONE);
        log.open((bytes, from, length) -> {}, persister);
        Decider decider = new Decider(loop, ServerOptions.DEFAULTS, oracle, persister, Log.Kind.OTHER, Fault.NONE);
        decider.begin();
        return decider;
    }

    /// All but the last byte of a hello and the longest commit: more than a thread may hand over.
    private static ByteBuf helloAndMostOfCommit() {
        FrameWriter frames = new FrameWriter(Protocol.FRAME_BYTES_MAX);
        frames.hello(1, Protocol.VERSION, Protocol.VERSION, SESSION);
        long[] rows = new long[Protocol.ROWS_MAX];
        frames.commit(2, 1, rows, rows.length, rows, 0);
        assertTrue(frames.length() > Connection.HANDED_OVER_MAX);
        return Unpooled.wrappedBuffer(frames.bytes(), 0, frames.length() - 1);
    }

    /// The decide thread takes over all bytes just when the network thread, which has handed over too many, is about
    /// to stop: there is nothing left that would let it go on later.
    @Test
    void readingContinuesWhenDeciderCatchesUp() throws Exception {
        EventLoop decides = new DefaultEventLoop();
        CompletableFuture<Void> busy = new CompletableFuture<>();
        int[] stops = {0};
        Runnable catchUp = () -> {
            stops[0]++;
            busy.complete(null);
            decides.submit(() -> {}).syncUninterruptibly();
        };
        RacingChannel channel = new RacingChannel(catchUp, new Receiver(decider(decides), decides));
        decides.execute(busy::join);
        ByteBuf bytes = helloAndMostOfCommit();
        channel.writeInbound(bytes.readRetainedSlice(bytes.readableBytes() / 2));
        assertTrue(channel.config().isAutoRead());
        assertFalse(busy.isDone());
        channel.writeInbound(bytes);
        channel.runPendingTasks();
        assertTrue(stops[0] == 1 && channel.config().isAutoRead(), "D7: the connection is not read from any more");
        decides.shutdownGracefully().syncUninterruptibly();
        channel.close();
    }
}
