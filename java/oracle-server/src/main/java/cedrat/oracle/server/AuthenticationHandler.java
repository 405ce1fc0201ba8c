package cedrat.oracle.server;

import cedrat.oracle.protocol.ErrorCode;
import cedrat.oracle.protocol.FrameWriter;
import cedrat.oracle.protocol.Mechanism;
import cedrat.oracle.protocol.Protocol;
import cedrat.oracle.protocol.ProtocolException;
import cedrat.oracle.protocol.RequestReader;
import cedrat.oracle.transport.Buffers;
import io.netty.buffer.ByteBuf;
import io.netty.channel.ChannelHandlerContext;
import io.netty.channel.ChannelInboundHandlerAdapter;
import io.netty.util.ReferenceCountUtil;
import java.util.concurrent.RejectedExecutionException;
import javax.security.sasl.SaslException;
import javax.security.sasl.SaslServer;

/// The beginning of a connection: exchanges that authenticate its client, if it begins one. Lives on the channel's
/// event loop.
///
/// ```text
/// First ──AUTHENTICATE──▶ Evaluating ──reply──▶ First ──another frame──▶ the decider
///   └──────────────────────────┴──failure──▶ Refused
/// ```
///
/// With the first frame of another kind it hands the connection over to the decider, and is gone.
final class AuthenticationHandler extends ChannelInboundHandlerAdapter {
    private static final int REPLY_BYTES = 256;

    private final Authentication authentication;
    /// Input that was not consumed; `null` if there is none. `counted` is what the total has of it (A3).
    private ByteBuf input;
    private int counted;
    /// `null` before the first message.
    private SaslServer exchange;
    private Mechanism mechanism;
    private boolean isEvaluating;
    private boolean isComplete;
    private boolean isRefused;

    AuthenticationHandler(Authentication authentication) {
        this.authentication = authentication;
    }

    @Override
    public void channelRead(ChannelHandlerContext context, Object message) {
        if (isRefused) {
            ReferenceCountUtil.release(message);
            return;
        }
        add(context, (ByteBuf) message);
        if (!isEvaluating) {
            read(context);
        }
        if (!count() && input != null) {
            refuse(
                    context,
                    0,
                    ErrorCode.HELLO,
                    "too many connections send their first bytes too slowly: try again later");
        }
    }

    private void add(ChannelHandlerContext context, ByteBuf bytes) {
        if (input == null) {
            input = bytes;
            return;
        }
        int all = input.readableBytes() + bytes.readableBytes();
        if (input.writableBytes() < bytes.readableBytes()) {
            ByteBuf longer = context.alloc().buffer(Math.max(all, 2 * input.capacity()));
            longer.writeBytes(input);
            input.release();
            input = longer;
        }
        input.writeBytes(bytes);
        bytes.release();
    }

    /// Counts what is held: the capacity of the buffer, however few bytes there are in it. Returns whether all
    /// connections together hold no more than permitted.
    private boolean count() {
        int held = input == null ? 0 : input.capacity();
        int more = held - counted;
        counted = held;
        return authentication.count(more);
    }

    private void read(ChannelHandlerContext context) {
        while (input != null && !isEvaluating && !isRefused) {
            if (input.readableBytes() <= Integer.BYTES) {
                return;
            }
            long length = Integer.BYTES + input.getUnsignedIntLE(input.readerIndex());
            if (length < Protocol.HEADER_BYTES || length > Protocol.FRAME_BYTES_MAX) {
                handOver(context); // the decider says what it is not
                return;
            }
            if (length > Protocol.FIRST_FRAME_BYTES_MAX) {
                refuse(
                        context,
                        0,
                        ErrorCode.TOO_LONG,
                        "a frame of " + length + " bytes before the hello; at most " + Protocol.FIRST_FRAME_BYTES_MAX
                                + " are taken");
                return;
            }
            if (input.readableBytes() < length) {
                return;
            }
            if (input.getByte(input.readerIndex() + Integer.BYTES) != Protocol.AUTHENTICATE) {
                handOver(context);
                return;
            }
            byte[] frame = new byte[(int) length];
            input.readBytes(frame);
            if (!input.isReadable()) {
                input.release();
                input = null;
            }
            message(context, frame);
        }
    }

    private void handOver(ChannelHandlerContext context) {
        ByteBuf all = input;
        input = null;
        count();
        forget();
        context.fireChannelRead(all);
        context.pipeline().remove(this);
    }

    private void message(ChannelHandlerContext context, byte[] frame) {
        RequestReader request = new RequestReader(1);
        long id = 0;
        try {
            request.next(frame, 0, frame.length);
            id = request.id();
            if (isComplete) {
                refuse(
                        context,
                        id,
                        ErrorCode.AUTHENTICATION,
                        "the client is authenticated already: a hello comes next");
                return;
            }
            if (exchange == null) {
                mechanism = request.mechanism();
                exchange = authentication.begin(mechanism);
            } else if (mechanism != request.mechanism()) {
                refuse(context, id, ErrorCode.AUTHENTICATION, "the mechanism has changed within an authentication");
                return;
            }
        } catch (ProtocolException invalid) {
            refuse(context, id, invalid.code(), invalid.getMessage());
            return;
        } catch (SaslException unsupported) {
            refuse(context, id, ErrorCode.UNSUPPORTED, unsupported.getMessage());
            return;
        }
        evaluate(context, id, request.message());
    }

    private void evaluate(ChannelHandlerContext context, long id, byte[] message) {
        isEvaluating = true;
        context.channel().config().setAutoRead(false);
        authentication.evaluate(exchange, message, (next, failure) -> {
            try {
                context.executor().execute(() -> evaluated(context, id, next, failure));
            } catch (RejectedExecutionException ended) {
                // the server has ended
            }
        });
    }

    private void evaluated(ChannelHandlerContext context, long id, byte[] next, SaslException failure) {
        isEvaluating = false;
        if (!context.channel().isActive()) {
            forget();
            return;
        }
        if (failure != null) {
            authentication.failed(context.channel(), mechanism, failure);
            refuse(
                    context,
                    id,
                    ErrorCode.AUTHENTICATION,
                    switch (mechanism) {
                        case PLAIN -> "the oracle does not know this name and token";
                        case GSSAPI -> "the oracle does not accept this ticket of Kerberos; its log says why";
                    });
            return;
        }
        isComplete = exchange.isComplete();
        FrameWriter reply = new FrameWriter(REPLY_BYTES);
        reply.authenticateReply(id, mechanism, next == null ? new byte[0] : next, isComplete);
        if (isComplete) {
            authentication.complete(context.channel(), exchange);
            forget();
        }
        context.writeAndFlush(Buffers.take(reply, context.channel()));
        context.channel().config().setAutoRead(true); // D7: the decider has received nothing yet
        read(context);
        count();
    }

    private void refuse(ChannelHandlerContext context, long id, ErrorCode code, String text) {
        isRefused = true;
        context.channel().config().setAutoRead(false);
        drop();
        Authentication.refuse(context.channel(), id, code, text);
    }

    /// Releases what is held. An exchange that is being evaluated is forgotten behind that.
    private void drop() {
        if (input != null) {
            input.release();
            input = null;
        }
        count();
        if (!isEvaluating) {
            forget();
        }
    }

    private void forget() {
        if (exchange != null && !isEvaluating) {
            try {
                exchange.dispose();
            } catch (SaslException impossible) {
                throw new IllegalStateException("an exchange cannot be forgotten", impossible);
            }
            exchange = null;
        }
    }

    @Override
    public void userEventTriggered(ChannelHandlerContext context, Object event) {
        if (!(event instanceof Authentication.Revoked revoked)) {
            context.fireUserEventTriggered(event);
        } else if (!isRefused) {
            refuse(context, 0, ErrorCode.HELLO, revoked.why());
        }
    }

    @Override
    public void channelInactive(ChannelHandlerContext context) {
        isRefused = true;
        drop();
        context.fireChannelInactive();
    }
}
