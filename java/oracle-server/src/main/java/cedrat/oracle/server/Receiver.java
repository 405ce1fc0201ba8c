package cedrat.oracle.server;

import io.netty.buffer.ByteBuf;
import io.netty.channel.ChannelHandlerContext;
import io.netty.channel.ChannelInboundHandlerAdapter;
import io.netty.channel.EventLoop;

/// Carries what happens on a connection to the decide thread: by a call if that is the thread of the
/// connection too.
final class Receiver extends ChannelInboundHandlerAdapter {
    private final Decider decider;
    private final EventLoop decides;
    private Connection connection;

    Receiver(Decider decider, EventLoop decides) {
        this.decider = decider;
        this.decides = decides;
    }

    @Override
    public void handlerAdded(ChannelHandlerContext context) {
        connection = new Connection(context.channel(), decides);
    }

    @Override
    public void channelActive(ChannelHandlerContext context) {
        run(() -> decider.opened(connection));
    }

    @Override
    public void channelRead(ChannelHandlerContext context, Object message) {
        ByteBuf bytes = (ByteBuf) message;
        if (decides.inEventLoop()) {
            decider.receive(connection, bytes);
            return;
        }
        int count = bytes.readableBytes();
        connection.handOver(count);
        decides.execute(() -> {
            decider.receive(connection, bytes);
            connection.received(count);
        });
    }

    @Override
    public void channelWritabilityChanged(ChannelHandlerContext context) {
        if (context.channel().isWritable()) {
            run(() -> decider.writable(connection));
        }
    }

    @Override
    public void channelInactive(ChannelHandlerContext context) {
        run(() -> decider.closed(connection));
    }

    @Override
    public void userEventTriggered(ChannelHandlerContext context, Object event) {
        if (event instanceof Authentication.Revoked revoked) {
            run(() -> decider.revoked(connection, revoked.why()));
        }
        context.fireUserEventTriggered(event);
    }

    /// The peer, or the network, has closed the connection in its own way: nothing that the server has done
    /// wrong.
    @Override
    public void exceptionCaught(ChannelHandlerContext context, Throwable cause) {
        context.close();
    }

    private void run(Runnable work) {
        if (decides.inEventLoop()) {
            work.run();
        } else {
            decides.execute(work);
        }
    }
}
