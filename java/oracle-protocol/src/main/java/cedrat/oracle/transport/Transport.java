package cedrat.oracle.transport;

import io.netty.channel.EventLoopGroup;
import io.netty.channel.IoHandlerFactory;
import io.netty.channel.MultiThreadIoEventLoopGroup;
import io.netty.channel.epoll.Epoll;
import io.netty.channel.epoll.EpollIoHandler;
import io.netty.channel.epoll.EpollServerSocketChannel;
import io.netty.channel.epoll.EpollSocketChannel;
import io.netty.channel.nio.NioIoHandler;
import io.netty.channel.socket.ServerSocketChannel;
import io.netty.channel.socket.SocketChannel;
import io.netty.channel.socket.nio.NioServerSocketChannel;
import io.netty.channel.socket.nio.NioSocketChannel;
import io.netty.util.concurrent.DefaultThreadFactory;

/// How bytes come and go: by epoll where the native library is there, else by the JDK's selector.
public enum Transport {
    /// Linux's epoll, through Netty's native library.
    EPOLL(EpollServerSocketChannel.class, EpollSocketChannel.class),
    /// The JDK's selector.
    NIO(NioServerSocketChannel.class, NioSocketChannel.class);

    private final Class<? extends ServerSocketChannel> server;
    private final Class<? extends SocketChannel> client;

    Transport(Class<? extends ServerSocketChannel> server, Class<? extends SocketChannel> client) {
        this.server = server;
        this.client = client;
    }

    /// The best there is on this machine.
    public static Transport best() {
        return Epoll.isAvailable() ? EPOLL : NIO;
    }

    /// Event loops on so many threads of this name.
    public EventLoopGroup loops(int threads, String name) {
        IoHandlerFactory factory = this == EPOLL ? EpollIoHandler.newFactory() : NioIoHandler.newFactory();
        return new MultiThreadIoEventLoopGroup(threads, new DefaultThreadFactory(name, true), factory);
    }

    /// Returns the channel class of servers.
    public Class<? extends ServerSocketChannel> server() {
        return server;
    }

    /// Returns the channel class of clients.
    public Class<? extends SocketChannel> client() {
        return client;
    }
}
