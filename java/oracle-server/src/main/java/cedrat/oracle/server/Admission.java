package cedrat.oracle.server;

import cedrat.oracle.protocol.ErrorCode;
import cedrat.oracle.protocol.FrameWriter;
import cedrat.oracle.protocol.Protocol;
import cedrat.oracle.transport.Buffers;
import io.netty.channel.Channel;
import io.netty.channel.ChannelFutureListener;
import io.netty.channel.ChannelHandlerContext;
import io.netty.channel.ChannelInboundHandlerAdapter;
import io.netty.util.ReferenceCountUtil;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/// Limit of the connections of a server. **Threads:** any may call.
///
/// A refusal here answers no request, so it waits for no append of the log (D1). A refused connection is
/// closed at once, so it occupies one of the [FileLimit#RESERVED] files only for a short time.
final class Admission {
    private static final Logger RECORDS = LoggerFactory.getLogger(Admission.class);
    private static final int REFUSAL_BYTES = 256;
    private final int max;
    private final boolean explains;
    private final AtomicInteger open = new AtomicInteger();
    private final AtomicLong refused = new AtomicLong();
    private final Seldom records = new Seldom();

    /// Admits `max` connections at a time. The others receive the reason if it `explains`; TLS would take a
    /// handshake for that.
    Admission(int max, boolean explains) {
        this.max = max;
        this.explains = explains;
    }

    /// Admits a connection until it is closed. Returns whether it is admitted; otherwise it is refused and closed.
    boolean admit(Channel channel) {
        if (open.incrementAndGet() <= max) {
            channel.closeFuture().addListener(closed -> open.decrementAndGet());
            return true;
        }
        open.decrementAndGet();
        record(refused.incrementAndGet());
        channel.config().setAutoRead(false);
        if (explains) {
            channel.pipeline().addLast(new Refuser());
        } else {
            channel.close();
        }
        return false;
    }

    /// Returns the number of connections that were refused.
    long refused() {
        return refused.get();
    }

    private void record(long count) {
        if (records.isDue()) {
            RECORDS.atWarn()
                    .addKeyValue("connectionsMax", max)
                    .addKeyValue("refused", count)
                    .log("refused a connection, because --connections-max are open");
        }
    }

    private final class Refuser extends ChannelInboundHandlerAdapter {
        @Override
        public void channelActive(ChannelHandlerContext context) {
            FrameWriter refusal = new FrameWriter(REFUSAL_BYTES);
            refusal.error(
                    0,
                    Protocol.FLAG_CLOSING,
                    ErrorCode.HELLO,
                    "the server has " + max
                            + " connections, the most that it permits: try again later, or raise --connections-max");
            context.writeAndFlush(Buffers.take(refusal, context.channel())).addListener(ChannelFutureListener.CLOSE);
        }

        @Override
        public void channelRead(ChannelHandlerContext context, Object message) {
            ReferenceCountUtil.release(message);
        }

        @Override
        public void exceptionCaught(ChannelHandlerContext context, Throwable cause) {
            context.close();
        }
    }
}
