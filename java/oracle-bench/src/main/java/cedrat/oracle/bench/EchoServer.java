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
import java.net.InetSocketAddress;

/// The ceiling of the network: the same frames over the same sockets, answered by a server that decides
/// nothing. It uses no part of Cedrat, only Netty. Replies to all that one read has brought go out with one
/// write.
final class EchoServer {
    private EchoServer() {}

    public static void main(String[] arguments) throws InterruptedException {
        EventLoopGroup loops = new MultiThreadIoEventLoopGroup(1, EpollIoHandler.newFactory());
        Channel listening = new ServerBootstrap()
                .group(loops)
                .channel(EpollServerSocketChannel.class)
                .childOption(ChannelOption.TCP_NODELAY, true)
                .childHandler(new ChannelInitializer<SocketChannel>() {
                    @Override
                    protected void initChannel(SocketChannel channel) {
                        channel.pipeline().addLast(new Echo(channel));
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
        private ByteBuf replies;
        private long newest;

        Echo(Channel channel) {
            this.channel = channel;
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
        public void channelReadComplete(ChannelHandlerContext context) {
            if (replies != null) {
                context.writeAndFlush(replies, context.voidPromise());
                replies = null;
            }
        }
    }
}
