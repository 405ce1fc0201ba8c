package cedrat.oracle.bench;

import io.netty.buffer.ByteBuf;
import io.netty.channel.ChannelHandlerContext;
import io.netty.channel.ChannelInboundHandlerAdapter;

/// Assembles frames of the oracle's protocol from pieces, without a part of Cedrat.
abstract class EchoFrames extends ChannelInboundHandlerAdapter {
    static final int HEADER_BYTES = 16;
    static final int REPLY_BYTES = HEADER_BYTES + 8;
    static final byte BEGIN = 2;
    static final byte COMMIT = 3;
    static final int REPLY = 0x80;

    private static final int REST_BYTES = 1 << 17;

    private ByteBuf rest;

    @Override
    public final void channelRead(ChannelHandlerContext context, Object message) {
        ByteBuf bytes = (ByteBuf) message;
        if (rest != null) {
            rest.writeBytes(bytes);
            bytes.release();
            bytes = rest;
            rest = null;
        }
        while (bytes.readableBytes() >= HEADER_BYTES) {
            int length = 4 + bytes.getIntLE(bytes.readerIndex());
            if (bytes.readableBytes() < length) {
                break;
            }
            frame(bytes, bytes.readerIndex());
            bytes.skipBytes(length);
        }
        if (bytes.isReadable()) {
            rest = context.alloc().directBuffer(REST_BYTES).writeBytes(bytes);
        }
        bytes.release();
    }

    /// A frame begins at `at`.
    abstract void frame(ByteBuf bytes, int at);
}
