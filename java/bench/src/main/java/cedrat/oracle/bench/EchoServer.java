package cedrat.oracle.bench;

import io.netty.bootstrap.ServerBootstrap;
import io.netty.buffer.ByteBuf;
import io.netty.channel.Channel;
import io.netty.channel.ChannelHandlerContext;
import io.netty.channel.ChannelInitializer;
import io.netty.channel.ChannelOption;
import io.netty.channel.EventLoopGroup;
import io.netty.channel.MultiThreadIoEventLoopGroup;
import io.netty.channel.epoll.EpollIoHandler;
import io.netty.channel.epoll.EpollServerSocketChannel;
import io.netty.channel.socket.SocketChannel;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.nio.file.Path;

/// The ceiling of the network: the same frames over the same sockets, answered by a server that decides
/// nothing. It uses no part of Cedrat, only Netty. Replies to all that one read has brought go out with one
/// write.
///
/// With a directory as its argument it writes a synced block of 4 KiB before these: the ceiling of a server
/// whose log is on the disk that this directory is on.
final class EchoServer {
    private EchoServer() {}

    public static void main(String[] arguments) throws InterruptedException, IOException {
        Disk.Blocks blocks = arguments.length == 0 ? null : new Disk.Blocks(Path.of(arguments[0]));
        EventLoopGroup loops = new MultiThreadIoEventLoopGroup(1, EpollIoHandler.newFactory());
        Channel listening = new ServerBootstrap()
                .group(loops)
                .channel(EpollServerSocketChannel.class)
                .childOption(ChannelOption.TCP_NODELAY, true)
                .childHandler(new ChannelInitializer<SocketChannel>() {
                    @Override
                    protected void initChannel(SocketChannel channel) {
                        channel.pipeline().addLast(new Echo(channel, blocks));
                    }
                })
                .bind("127.0.0.1", 0)
                .sync()
                .channel();
        System.out.println("listening on 127.0.0.1:" + ((InetSocketAddress) listening.localAddress()).getPort());
        listening.closeFuture().sync();
    }

    private static final class Echo extends EchoFrames {
        private final Channel channel;
        private final Disk.Blocks blocks;
        private ByteBuf replies;
        private long newest;

        Echo(Channel channel, Disk.Blocks blocks) {
            this.channel = channel;
            this.blocks = blocks;
        }

        @Override
        void frame(ByteBuf bytes, int at) {
            if (replies == null) {
                replies = channel.alloc().directBuffer(1 << 16);
            }
            newest++;
            replies.writeIntLE(REPLY_BYTES - 4)
                    .writeIntLE(bytes.getByte(at + 4) | REPLY)
                    .writeLongLE(bytes.getLongLE(at + 8))
                    .writeLongLE(newest);
        }

        @Override
        public void channelReadComplete(ChannelHandlerContext context) throws IOException {
            if (replies != null) {
                if (blocks != null) {
                    blocks.write();
                }
                context.writeAndFlush(replies, context.voidPromise());
                replies = null;
            }
        }
    }
}
