package cedrat.oracle.transport;

import cedrat.oracle.protocol.FrameWriter;
import io.netty.buffer.ByteBuf;
import io.netty.channel.Channel;

/// From arrays to what Netty writes.
public final class Buffers {
    private Buffers() {}

    /// A buffer for the channel with all frames; the writer is empty then. One copy, so that however many
    /// frames there are go out with one call.
    public static ByteBuf take(FrameWriter frames, Channel channel) {
        ByteBuf buffer = channel.alloc().directBuffer(frames.length());
        buffer.writeBytes(frames.bytes(), 0, frames.length());
        frames.clear();
        return buffer;
    }
}
