package cedrat.oracle.client;

import cedrat.oracle.authentication.Credentials;
import cedrat.oracle.protocol.ErrorCode;
import cedrat.oracle.protocol.FrameWriter;
import cedrat.oracle.protocol.Protocol;
import cedrat.oracle.protocol.ProtocolException;
import cedrat.oracle.protocol.ReplyReader;
import cedrat.oracle.transport.Buffers;
import cedrat.oracle.transport.ClientExchange;
import cedrat.oracle.transport.Input;
import io.netty.buffer.ByteBuf;
import io.netty.channel.ChannelHandlerContext;
import io.netty.channel.ChannelInboundHandlerAdapter;
import io.netty.channel.EventLoop;
import io.netty.util.concurrent.Future;
import java.io.IOException;
import java.util.concurrent.Callable;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;

/// Authenticates a client on a connection that was just made, and is gone then. For the thread of its event loop.
///
/// The exchange runs on threads of its own, because Kerberos asks its key distribution centre. Each answer of the
/// server is awaited for a limited time; that centre has its own limits.
final class Authenticator extends ChannelInboundHandlerAdapter {
    /// Name of the threads of exchanges.
    static final String THREAD = "oracle-client-authenticate";

    private static final long ID = -5;
    private static final int FRAME_BYTES = 256;

    private final EventLoop loop;
    private final int timeoutMs;
    private final Credentials credentials;
    private final String host;
    private final Consumer<Throwable> done;
    private final Input input = new Input();
    private final ReplyReader reader = new ReplyReader();
    private ChannelHandlerContext context;
    private ClientExchange exchange;
    private Future<?> timer;
    private boolean isEvaluating;
    private boolean isEnded;

    /// `done` receives the failure, or `null`. A [ClientClosedException] would happen again with these credentials.
    Authenticator(EventLoop loop, Credentials credentials, String host, int timeoutMs, Consumer<Throwable> done) {
        this.loop = loop;
        this.credentials = credentials;
        this.host = host;
        this.timeoutMs = timeoutMs;
        this.done = done;
    }

    @Override
    public void handlerAdded(ChannelHandlerContext added) {
        context = added;
    }

    /// There is no connection.
    void failed(Throwable why) {
        if (!isEnded) {
            isEnded = true;
            done.accept(why);
        }
    }

    /// The connection is there: the exchange begins.
    void begin() {
        evaluate(() -> {
            exchange = ClientExchange.begin(credentials, host);
            return exchange.first();
        });
    }

    /// Sends the message that an action makes on another thread; ends if it makes none.
    private void evaluate(Callable<byte[]> action) {
        isEvaluating = true;
        Thread evaluates = new Thread(
                () -> {
                    try {
                        byte[] message = action.call();
                        finish(() -> evaluated(message, null));
                    } catch (Exception problem) {
                        finish(() -> evaluated(null, problem));
                    }
                },
                THREAD);
        evaluates.setDaemon(true);
        evaluates.start();
    }

    /// Ends an evaluation, on the event loop's thread if there still is one.
    private void finish(Runnable evaluated) {
        try {
            loop.execute(evaluated);
        } catch (RejectedExecutionException closed) {
            isEvaluating = false;
            forget();
        }
    }

    private void evaluated(byte[] message, Exception failure) {
        isEvaluating = false;
        if (isEnded) {
            forget();
        } else if (message == null) {
            end(failure);
        } else {
            send(message);
        }
    }

    private void forget() {
        if (exchange != null && !isEvaluating) {
            exchange.close();
            exchange = null;
        }
    }

    private void send(byte[] message) {
        FrameWriter frame = new FrameWriter(FRAME_BYTES);
        frame.authenticate(ID, exchange.mechanism(), message);
        timer = loop.schedule(
                () -> end(new IOException("the server has not answered an authentication for " + timeoutMs + " ms")),
                timeoutMs,
                TimeUnit.MILLISECONDS);
        context.writeAndFlush(Buffers.take(frame, context.channel()));
    }

    @Override
    public void channelRead(ChannelHandlerContext of, Object message) {
        ByteBuf bytes = (ByteBuf) message;
        try {
            input.add(bytes);
            int length = reader.next(input.bytes(), input.from(), input.end());
            if (length > 0) {
                input.skip(length);
                reply();
            }
        } catch (ProtocolException invalid) {
            end(new IOException("the answer is not of the oracle's protocol: " + invalid.getMessage(), invalid));
        } finally {
            bytes.release();
        }
    }

    private void reply() {
        if (reader.kind() == Protocol.ERROR) {
            end(refusal(reader.errorCode(), reader.errorText()));
        } else if (reader.request() != Protocol.AUTHENTICATE || timer == null) {
            end(new IOException("the answer is none to an authentication: update the server, or this program"));
        } else {
            timer.cancel(false);
            timer = null;
            byte[] message = reader.message();
            boolean isDone = (reader.flags() & Protocol.FLAG_DONE) != 0;
            evaluate(() -> exchange.next(message, isDone));
        }
    }

    private Exception refusal(ErrorCode code, String text) {
        if (code != null && code.isOfTheConnection()) {
            return new IOException(text);
        }
        String why = (reader.flags() & Protocol.FLAG_CLOSING) == 0
                ? "the server does not know authentication by tokens and Kerberos: update it (" + text + ")"
                : "the oracle has refused the connection: " + text;
        return new ClientClosedException(code, why, null);
    }

    @Override
    public void channelInactive(ChannelHandlerContext of) {
        end(new IOException(Connector.CLOSED));
        of.fireChannelInactive();
    }

    @Override
    public void exceptionCaught(ChannelHandlerContext of, Throwable cause) {
        end(new IOException(Connector.reason(cause), cause));
    }

    private void end(Exception failure) {
        if (isEnded) {
            return;
        }
        isEnded = true;
        if (timer != null) {
            timer.cancel(false);
        }
        forget();
        if (failure == null) {
            context.pipeline().remove(this);
        } else {
            context.close();
        }
        done.accept(failure);
    }
}
