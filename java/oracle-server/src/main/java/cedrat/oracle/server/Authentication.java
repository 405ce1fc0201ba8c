package cedrat.oracle.server;

import cedrat.oracle.protocol.ErrorCode;
import cedrat.oracle.protocol.FrameWriter;
import cedrat.oracle.protocol.Mechanism;
import cedrat.oracle.protocol.Protocol;
import cedrat.oracle.transport.Buffers;
import cedrat.oracle.transport.KerberosLogin;
import io.netty.channel.Channel;
import io.netty.channel.ChannelFutureListener;
import io.netty.util.AttributeKey;
import java.io.IOException;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Executors;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.BiConsumer;
import javax.security.auth.callback.Callback;
import javax.security.auth.callback.UnsupportedCallbackException;
import javax.security.sasl.AuthorizeCallback;
import javax.security.sasl.Sasl;
import javax.security.sasl.SaslException;
import javax.security.sasl.SaslServer;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/// Authentication of clients by SASL, and the files that say who they are and what they may do. **Threads:** any may
/// call.
///
/// - A1  A client has a name only from its certificate, or from an exchange that its mechanism has completed. The name
///   says which: no client of one mechanism has the name of a client of another.
/// - A2  Exchanges run on a thread of their own: neither the decide thread nor a network thread waits for them.
/// - A3  All connections together hold at most [#WAITING_BYTES_MAX] of input before their hello, each at most
///   [Protocol#FIRST_FRAME_BYTES_MAX] and one read, besides a record of TLS that arrives. Their time is that of the
///   hello.
/// - A4  A removed token is refused from then on, and connections that it has authenticated are closed within
///   [#REFRESH_MS] and the time to read the file, also if their clients read no reply.
final class Authentication implements AutoCloseable {
    /// Bytes of input before the hello that all connections together may have.
    static final long WAITING_BYTES_MAX = 64L << 20;

    private static final long REFRESH_MS = 1000;
    private static final Logger RECORDS = LoggerFactory.getLogger(Authentication.class);
    private static final AttributeKey<String> NAME = AttributeKey.valueOf(Authentication.class, "name");
    private static final int REFUSAL_BYTES = 256;

    /// `null` without tokens.
    private final Tokens tokens;
    /// `null` without Kerberos.
    private final KerberosLogin kerberos;
    private final String service;
    private final Roles roles;
    private final Fault fault;
    private final ScheduledExecutorService thread;
    private final AtomicLong waitingBytes = new AtomicLong();
    private final AtomicLong failed = new AtomicLong();
    private final Seldom records = new Seldom();
    /// Connections that a token has authenticated, with its id.
    private final Map<Channel, Tokens.Token> byToken = new ConcurrentHashMap<>();

    /// Event of a connection whose client is not authenticated any more.
    record Revoked(String why) {}

    /// Reads the files, and follows their changes.
    ///
    /// @throws IOException if one of them cannot be used
    Authentication(AuthenticationOptions options, Roles roles, Fault fault) throws IOException {
        this.roles = roles;
        this.fault = fault;
        tokens = options.tokens().isPresent() ? new Tokens(options.tokens().get()) : null;
        AuthenticationOptions.Kerberos keys = options.kerberos().orElse(null);
        kerberos = keys == null ? null : KerberosLogin.server(keys.principal(), keys.keytab());
        service = keys == null ? null : keys.service();
        thread = Executors.newSingleThreadScheduledExecutor(
                Thread.ofPlatform().name("authenticate").daemon().factory());
        thread.scheduleWithFixedDelay(this::refresh, REFRESH_MS, REFRESH_MS, TimeUnit.MILLISECONDS);
    }

    /// Returns the number of exchanges that have failed.
    long failed() {
        return failed.get();
    }

    /// Returns the bytes of input before the hello that all connections have.
    long waitingBytes() {
        return waitingBytes.get();
    }

    /// Counts more bytes of such input, or fewer. Returns whether they are no more than permitted.
    boolean count(long bytes) {
        return waitingBytes.addAndGet(bytes) <= WAITING_BYTES_MAX;
    }

    /// Returns the name of the client at the other end, from its exchange or else from its certificate; empty if it has
    /// shown neither.
    static String name(Channel channel) {
        String name = channel.attr(NAME).get();
        return name == null ? Handshakes.name(channel) : name;
    }

    /// Begins an exchange.
    ///
    /// @throws SaslException if this server has no such mechanism
    SaslServer begin(Mechanism mechanism) throws SaslException {
        if (mechanism == Mechanism.PLAIN && tokens != null) {
            return new TokenExchange(tokens);
        }
        if (mechanism == Mechanism.GSSAPI && kerberos != null) {
            return as(() -> Sasl.createSaslServer(
                    mechanism.name(), service, null, Map.of(Sasl.QOP, "auth"), Authentication::authorize));
        }
        throw new SaslException("the server has no authentication by "
                + (mechanism == Mechanism.PLAIN
                        ? "tokens: it runs without --tokens"
                        : "Kerberos: it runs without --kerberos-keytab"));
    }

    /// A client acts for itself only.
    private static void authorize(Callback[] callbacks) throws UnsupportedCallbackException {
        for (Callback callback : callbacks) {
            if (!(callback instanceof AuthorizeCallback authorize)) {
                throw new UnsupportedCallbackException(callback);
            }
            if (authorize.getAuthenticationID().equals(authorize.getAuthorizationID())) {
                authorize.setAuthorized(true);
                authorize.setAuthorizedID(authorize.getAuthorizationID());
            }
        }
    }

    private <T> T as(Callable<T> action) throws SaslException {
        try {
            return kerberos == null ? action.call() : kerberos.call(action);
        } catch (SaslException refused) {
            throw refused;
        } catch (Exception problem) {
            throw new SaslException(problem.getMessage(), problem);
        }
    }

    /// Continues an exchange on the thread of exchanges (A2). `then` is called there, with the next message, `null` if
    /// there is none, or with the failure.
    void evaluate(SaslServer exchange, byte[] message, BiConsumer<byte[], SaslException> then) {
        try {
            thread.execute(() -> {
                byte[] next = null;
                SaslException failure = null;
                try {
                    next = as(() -> exchange.evaluateResponse(message));
                } catch (SaslException refused) {
                    failure = refused;
                }
                then.accept(next, failure);
            });
        } catch (RejectedExecutionException ended) {
            // the server ends, and closes all connections
        }
    }

    /// Names the client of a connection after its exchange is complete.
    void complete(Channel channel, SaslServer exchange) {
        String name = exchange.getAuthorizationID();
        if (exchange instanceof TokenExchange ofToken) {
            channel.attr(NAME).set("token:" + name);
            byToken.put(channel, ofToken.token());
            channel.closeFuture().addListener(closed -> byToken.remove(channel));
        } else {
            channel.attr(NAME).set("kerberos:" + name);
        }
    }

    /// Records a failed exchange. The client does not hear what is recorded here.
    void failed(Channel channel, Mechanism mechanism, SaslException why) {
        long count = failed.incrementAndGet();
        if (records.isDue()) {
            Throwable cause = why;
            while (cause.getCause() != null) {
                cause = cause.getCause();
            }
            RECORDS.atWarn()
                    .addKeyValue("peer", channel.remoteAddress())
                    .addKeyValue("mechanism", mechanism)
                    .addKeyValue("failed", count)
                    .addKeyValue(
                            "reason", why == cause ? why.getMessage() : why.getMessage() + ": " + cause.getMessage())
                    .log("an authentication has failed");
        }
    }

    /// Refuses a connection before its hello, and closes it. It has asked nothing about the state of the oracle, so
    /// this waits for no append (D1).
    static void refuse(Channel channel, long id, ErrorCode code, String text) {
        FrameWriter refusal = new FrameWriter(REFUSAL_BYTES);
        refusal.error(id, Protocol.FLAG_CLOSING, code, text);
        channel.writeAndFlush(Buffers.take(refusal, channel)).addListener(ChannelFutureListener.CLOSE);
    }

    private void refresh() {
        try {
            if (fault != Fault.KEEPS_ROLES) {
                roles.refresh();
            }
        } catch (IOException problem) {
            RECORDS.atWarn().setCause(problem).log("changed roles cannot be used; those from before still are");
        }
        if (tokens == null) {
            return;
        }
        try {
            tokens.refresh();
        } catch (IOException problem) {
            RECORDS.atWarn().setCause(problem).log("changed tokens cannot be used; those from before still are");
        }
        // Not only after a change: the exchange may have read the tokens just before.
        byToken.forEach((channel, token) -> {
            if (!tokens.has(token.id())) {
                String why = "the token of " + token.name() + " was removed: authenticate with another one";
                channel.pipeline().fireUserEventTriggered(new Revoked(why));
                byToken.remove(channel);
            }
        });
    }

    /// Follows changes now, and waits for it. For tests.
    void refreshNow() {
        CompletableFuture.runAsync(this::refresh, thread).join();
    }

    @Override
    public void close() {
        thread.shutdownNow();
        if (kerberos != null) {
            kerberos.close();
        }
    }
}
