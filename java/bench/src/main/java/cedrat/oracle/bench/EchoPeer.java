package cedrat.oracle.bench;

import io.netty.bootstrap.Bootstrap;
import io.netty.buffer.ByteBuf;
import io.netty.channel.Channel;
import io.netty.channel.ChannelHandlerContext;
import io.netty.channel.ChannelOption;
import io.netty.channel.EventLoopGroup;
import io.netty.channel.MultiThreadIoEventLoopGroup;
import io.netty.channel.epoll.EpollIoHandler;
import io.netty.channel.epoll.EpollSocketChannel;
import java.net.InetSocketAddress;

/// A client of [EchoServer] that keeps nothing: what the network takes at least.
final class EchoPeer implements Peer {
    private static final int WRITE_BYTES = 1 << 17;

    private final EventLoopGroup loops = new MultiThreadIoEventLoopGroup(1, EpollIoHandler.newFactory());

    EchoPeer() {}

    @Override
    public Connection connect(InetSocketAddress server, int outstandingMax, Load load) throws InterruptedException {
        Frames frames = new Frames(load);
        frames.channel = new Bootstrap()
                .group(loops)
                .channel(EpollSocketChannel.class)
                .option(ChannelOption.TCP_NODELAY, true)
                .handler(frames)
                .connect(server)
                .sync()
                .channel();
        return frames;
    }

    private static final class Frames extends EchoFrames implements Connection {
        private final Load load;
        private Channel channel;
        private ByteBuf requests;

        Frames(Load load) {
            this.load = load;
        }

        @Override
        public void execute(Runnable work) {
            channel.eventLoop().execute(() -> {
                work.run();
                flush();
            });
        }

        @Override
        public void begin(int worker) {
            header(HEADER_BYTES, BEGIN, worker);
        }

        @Override
        public void commit(int worker, long start, long[] rows, int count) {
            header(HEADER_BYTES + 16 + 8 * count, COMMIT, worker);
            requests.writeLongLE(start).writeLongLE(count);
            for (int row = 0; row < count; row++) {
                requests.writeLongLE(rows[row]);
            }
        }

        private void header(int length, byte kind, int worker) {
            if (requests == null) {
                requests = channel.alloc().directBuffer(WRITE_BYTES);
            }
            requests.writeIntLE(length - 4).writeIntLE(kind).writeLongLE(worker);
        }

        @Override
        void frame(ByteBuf bytes, int at) {
            int worker = (int) bytes.getLongLE(at + 8);
            long value = bytes.getLongLE(at + 16);
            if ((bytes.getByte(at + 4) & REPLY - 1) == BEGIN) {
                load.begun(worker, value);
            } else {
                load.decided(worker, value);
            }
        }

        @Override
        public void channelReadComplete(ChannelHandlerContext context) {
            flush();
        }

        private void flush() {
            if (requests != null) {
                channel.writeAndFlush(requests, channel.voidPromise());
                requests = null;
            }
        }

        @Override
        public void close() {
            channel.close();
        }
    }
}
