package cedrat.oracle.bench;

import io.netty.bootstrap.Bootstrap;
import io.netty.bootstrap.ServerBootstrap;
import io.netty.buffer.ByteBuf;
import io.netty.channel.Channel;
import io.netty.channel.ChannelHandlerContext;
import io.netty.channel.ChannelInboundHandlerAdapter;
import io.netty.channel.ChannelInitializer;
import io.netty.channel.ChannelOption;
import io.netty.channel.EventLoopGroup;
import io.netty.channel.MultiThreadIoEventLoopGroup;
import io.netty.channel.epoll.EpollIoHandler;
import io.netty.channel.epoll.EpollServerSocketChannel;
import io.netty.channel.epoll.EpollSocketChannel;
import io.netty.channel.socket.SocketChannel;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.SplittableRandom;
import java.util.concurrent.Callable;
import java.util.concurrent.CountDownLatch;
import picocli.CommandLine;
import picocli.CommandLine.Command;
import picocli.CommandLine.Option;

/// The ceiling of [LoadBench]: the same frames over the same sockets, answered by a server that decides
/// nothing, by a client that keeps nothing. It uses no part of Cedrat, only Netty. Replies to all that one
/// read has brought go out with one write.
@Command(name = "echo", mixinStandardHelpOptions = true, description = "The same frames, answered without a thought.")
final class EchoBench implements Callable<Integer> {
    private static final int HEADER_BYTES = 16;
    private static final int REPLY_BYTES = HEADER_BYTES + 8;
    private static final int ROWS_MAX = 20;
    private static final byte BEGIN = 2;
    private static final byte COMMIT = 3;

    @Option(names = "--clients", defaultValue = "1", description = "Connections (default: ${DEFAULT-VALUE}).")
    private int clients;

    @Option(
            names = "--outstanding",
            defaultValue = "1",
            description = "Pairs of a connection at a time (default: ${DEFAULT-VALUE}).")
    private int outstanding;

    @Option(
            names = "--server-jvm",
            arity = "1",
            description = "An argument of the server's virtual machine; may be repeated.")
    private List<String> serverJvm = new ArrayList<>();

    @Option(
            names = "--warm-up-s",
            defaultValue = "5",
            description = "Seconds before figures count (default: ${DEFAULT-VALUE}).")
    private int warmUpSeconds;

    @Option(
            names = "--warm-up-outstanding",
            defaultValue = "100",
            description =
                    "At least so many pairs of a connection at a time until then, for the compiler's sake (default: ${DEFAULT-VALUE}).")
    private int warmUpOutstanding;

    @Option(names = "--seconds", defaultValue = "5", description = "Seconds of figures (default: ${DEFAULT-VALUE}).")
    private int seconds;

    private volatile boolean warm;
    private volatile boolean measuring;
    private volatile boolean ending;

    EchoBench() {}

    public static void main(String[] arguments) {
        System.exit(new CommandLine(new EchoBench()).execute(arguments));
    }

    private static EventLoopGroup loops() {
        return new MultiThreadIoEventLoopGroup(1, EpollIoHandler.newFactory());
    }

    /// Whole frames, out of pieces.
    private abstract static class Frames extends ChannelInboundHandlerAdapter {
        private ByteBuf rest;

        @Override
        public void channelRead(ChannelHandlerContext context, Object message) {
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
                rest = context.alloc().directBuffer(1 << 17).writeBytes(bytes);
            }
            bytes.release();
        }

        abstract void frame(ByteBuf bytes, int at);
    }

    // ---- server -----------------------------------------------------------------------------------------------------

    /// The server's process.
    static final class Server {
        private Server() {}

        public static void main(String[] arguments) throws InterruptedException {
            EventLoopGroup loops = loops();
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
    }

    private static final class Echo extends Frames {
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
                    .writeIntLE(bytes.getByte(at + 4) | 0x80)
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

    // ---- client -----------------------------------------------------------------------------------------------------

    @Override
    public Integer call() throws IOException, InterruptedException {
        EventLoopGroup loops = loops();
        try (ServerProcess process = new ServerProcess(serverJvm, Server.class.getName(), List.of())) {
            List<Client> all = new ArrayList<>();
            CountDownLatch ended = new CountDownLatch(clients);
            for (int number = 0; number < clients; number++) {
                Client client = new Client(number, ended);
                client.channel = new Bootstrap()
                        .group(loops)
                        .channel(EpollSocketChannel.class)
                        .option(ChannelOption.TCP_NODELAY, true)
                        .handler(client)
                        .connect(process.address())
                        .sync()
                        .channel();
                all.add(client);
            }
            all.forEach(client -> client.channel.eventLoop().execute(client::begin));
            Thread.sleep(Duration.ofSeconds(warmUpSeconds));
            warm = true;
            Thread.sleep(Duration.ofSeconds(1));
            long before = System.nanoTime();
            measuring = true;
            Thread.sleep(Duration.ofSeconds(seconds));
            measuring = false;
            double passed = (System.nanoTime() - before) / 1e9;
            ending = true;
            ended.await();
            Histogram starts = new Histogram();
            Histogram commits = new Histogram();
            all.forEach(client -> starts.add(client.starts));
            all.forEach(client -> commits.add(client.commits));
            Figures figures =
                    new Figures("echo", "\"log\":\"none\",\"clients\":" + clients + ",\"outstanding\":" + outstanding);
            figures.print("commits_per_s", commits.total() / passed, "1/s");
            figures.print("p50_us", commits.quantileMicros(0.50), "us");
            figures.print("p99_us", commits.quantileMicros(0.99), "us");
            figures.print("start_p50_us", starts.quantileMicros(0.50), "us");
        }
        loops.shutdownGracefully().awaitUninterruptibly();
        return 0;
    }

    private final class Client extends Frames {
        final SplittableRandom random;
        final CountDownLatch ended;
        final Histogram starts = new Histogram();
        final Histogram commits = new Histogram();
        final long[] asked = new long[Math.max(outstanding, warmUpOutstanding)];
        Channel channel;
        private ByteBuf requests;
        private int running = asked.length;

        Client(int number, CountDownLatch ended) {
            random = new SplittableRandom(number);
            this.ended = ended;
        }

        void begin() {
            for (int worker = 0; worker < asked.length; worker++) {
                begin(worker);
            }
            flush();
        }

        private void begin(int worker) {
            if (ending) {
                if (--running == 0) {
                    ended.countDown();
                }
                return;
            }
            if (warm && running > outstanding) {
                running--;
                return;
            }
            asked[worker] = System.nanoTime();
            header(HEADER_BYTES, BEGIN, worker);
        }

        private void commit(int worker, long start) {
            int rows = random.nextInt(ROWS_MAX + 1);
            asked[worker] = System.nanoTime();
            header(HEADER_BYTES + 16 + 8 * rows, COMMIT, worker);
            requests.writeLongLE(start).writeLongLE(rows);
            for (int row = 0; row < rows; row++) {
                requests.writeLongLE(random.nextLong());
            }
        }

        private void header(int length, byte kind, int worker) {
            if (requests == null) {
                requests = channel.alloc().directBuffer(1 << 17);
            }
            requests.writeIntLE(length - 4).writeIntLE(kind).writeLongLE(worker);
        }

        @Override
        void frame(ByteBuf bytes, int at) {
            int worker = (int) bytes.getLongLE(at + 8);
            boolean begun = (bytes.getByte(at + 4) & 0x7f) == BEGIN;
            if (measuring) {
                (begun ? starts : commits).add(System.nanoTime() - asked[worker]);
            }
            if (begun) {
                commit(worker, bytes.getLongLE(at + 16));
            } else {
                begin(worker);
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
    }
}
