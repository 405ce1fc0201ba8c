package cedrat.oracle.client;

import cedrat.oracle.protocol.CommitKeys;
import cedrat.oracle.protocol.ErrorCode;
import cedrat.oracle.protocol.FrameWriter;
import cedrat.oracle.protocol.Protocol;
import cedrat.oracle.protocol.ProtocolException;
import cedrat.oracle.protocol.ReplyReader;
import cedrat.oracle.transport.Buffers;
import cedrat.oracle.transport.Input;
import io.netty.buffer.ByteBuf;
import io.netty.channel.Channel;
import io.netty.channel.ChannelHandlerContext;
import io.netty.channel.ChannelInboundHandlerAdapter;
import io.netty.channel.EventLoop;
import io.netty.util.concurrent.Future;
import java.security.SecureRandom;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;

/// One session with an oracle, for many concurrent requests, without allocation for a request.
/// [OracleClient] is built on it, and easier to use.
///
/// ```text
/// Connecting ──▶ Connected ──lost──▶ Waiting ──later──▶ Connecting
///     └───────────────┴─────close, or thrown out───────────┴──▶ Closed
/// ```
///
/// - C1  A request is sent again after each reconnection until it is answered. A repeated request has the same
///   effect: a commit is identified by its start timestamp, and the transaction of a begin whose reply
///   was lost is unknown to every client.
/// - C2  After a reconnection, the client first sends the transactions that it knows to be open. The server
///   aborts the others of the session: they would hold the low-water mark back permanently.
/// - C3  No outcome is guessed: a request without an answer when patience ends fails with
///   [UnavailableException].
/// - C4  Of several servers the client uses the one that answers: a standby server does not listen, and a
///   server that is silent for too long is left for the next, in turn.
/// - C5  A transaction of which a request has failed so does not stay open: when a server answers again, and no
///   other request about it waits, the client ends it if it was to be ended, and resolves it otherwise. It would
///   hold back the low-water mark for as long as the client lives.
/// - C6  A server's name is resolved for each attempt to connect, and a discovery is asked before all servers are tried
///   again: a server that was moved is found.
/// - C7  Requests that wait at the same time share a frame. None waits for others: what one round of the event
///   loop has brought is sent at its end. A transaction begins after [#begin] was called, also in a shared frame.
///
/// **Threads:** it runs on one thread, which also calls [Replies]; all methods but [#execute] must be called by
/// that thread.
///
/// @param <T> tag of a request
public final class Pipeline<T> {
    private static final SecureRandom RANDOM = new SecureRandom();

    private static final int OUT_BYTES = 1 << 10;
    private static final long[] NO_ROWS = {};
    private static final CommitKeys NO_KEYS = new CommitKeys();

    /// Numbers of requests that have no slot.
    private static final long HELLO_ID = -1;
    private static final long ANNOUNCE_ID = -2;
    private static final long CLOSE_ID = -3;
    private static final long NAMESPACE_ID = -4;

    /// Time for which a close waits for the server to confirm that it has closed the session.
    private static final long CLOSE_MS = 1000;

    /// In each of these parts of the time-out the client makes itself heard.
    private static final int TICKS = 4;

    private final EventLoop loop;
    private final ClientOptions options;
    private final Replies<T> replies;
    private final long session;

    private final ReplyReader reader = new ReplyReader();
    private final FrameWriter out = new FrameWriter(OUT_BYTES);
    private final OpenTransactions open = new OpenTransactions();
    private final UsedNamespaces namespaces = new UsedNamespaces();
    private final Slots<T> slots = new Slots<>();
    private final Patience<T> patience;
    private final Outbox<T> outbox = new Outbox<>(out, () -> slots.take(Protocol.BATCH, null, 0));

    /// The present connection; `null` while there is none.
    private Line line;
    private boolean flushIsScheduled;
    private final Runnable flush = this::flush;
    private long reconnectMs;
    private Future<?> ticks;
    private int sessionTimeoutMs;
    private boolean saidSomething;
    private int silentTicks;
    final KnownOracle known = new KnownOracle();
    private final Connector connector;
    private Future<?> watch;
    /// For how many parts of the time that a server may be silent this one was.
    private int silentParts;
    private OracleException closedBecause;
    private final CompletableFuture<Void> closed = new CompletableFuture<>();

    Pipeline(EventLoop loop, ClientOptions options, Replies<T> replies, Connector connector) {
        this.loop = loop;
        this.options = options;
        this.replies = replies;
        this.connector = connector;
        long drawn = RANDOM.nextLong();
        session = drawn == 0 ? 1 : drawn;
        reconnectMs = options.reconnectMin().toMillis();
        patience = new Patience<>(loop, options, slots, this::forEachRequest, this::fail);
    }

    /// Returns the first half of an error message ([Patience#noAnswer]). **Threads:** any may call.
    String noAnswer() {
        return patience.noAnswer();
    }

    /// Runs something on the pipeline's thread. **Threads:** any may call.
    public void execute(Runnable work) {
        loop.execute(work);
    }

    // ---- requests ---------------------------------------------------------------------------------------------------

    /// Begins a transaction; [Replies#begun] answers.
    ///
    /// @throws IllegalStateException if [ClientOptions#outstandingMax] requests are outstanding, as with all
    ///     requests
    /// @throws OracleException if the pipeline is closed, so that no answer can arrive, as with all
    ///     requests
    public void begin(T tag) {
        sendPlain(Protocol.BEGIN, tag);
    }

    private Slot<T> sendPlain(byte kind, T tag) {
        Slot<T> slot = take(kind, tag, 0);
        slot.frame.plain(kind, slot.id());
        send(slot);
        return slot;
    }

    /// Commits a transaction that has written the first `count` of these rows; [Replies#decided] answers. A
    /// refusal leaves the transaction open.
    public void commit(T tag, long start, long[] rows, int count) {
        commit(tag, start, rows, count, NO_ROWS, 0);
    }

    /// Commits a transaction that is to be serialisable: it has read the first `readCount` of `reads`.
    public void commit(T tag, long start, long[] writes, int writeCount, long[] reads, int readCount) {
        commit(tag, start, writes, writeCount, reads, readCount, NO_KEYS);
    }

    /// The same; it has also written and scanned these keys, of tables whose scans are checked.
    public void commit(T tag, long start, long[] writes, int writeCount, long[] reads, int readCount, CommitKeys keys) {
        RequestLimits.checkCommit((long) writeCount + readCount, keys.length(), Protocol.ROWS_MAX);
        Slot<T> slot = take(Protocol.COMMIT, tag, start);
        slot.frame.commit(slot.id(), start, writes, writeCount, reads, readCount, keys);
        send(slot);
    }

    /// Aborts a transaction; [Replies#decided] answers.
    public void abort(T tag, long start) {
        sendStart(Protocol.ABORT, tag, start);
    }

    /// Ends a transaction that has written nothing; [Replies#decided] answers.
    public void end(T tag, long start) {
        sendStart(Protocol.END, tag, start);
    }

    /// Decides a transaction whose client may be dead: it has committed, or aborts. [Replies#decided]
    /// answers.
    public void resolve(T tag, long start) {
        sendStart(Protocol.RESOLVE, tag, start);
    }

    private void sendStart(byte kind, T tag, long start) {
        Slot<T> slot = take(kind, tag, start);
        slot.frame.start(kind, slot.id(), start);
        send(slot);
    }

    /// Asks, on behalf of a transaction that began at `reader`, what became of those that began at the first
    /// `count` of `starts`; [Replies#outcomes] answers.
    public void status(T tag, long reader, long[] starts, int count) {
        RequestLimits.checkStarts(count);
        Slot<T> slot = take(Protocol.STATUS, tag, 0);
        slot.frame.status(slot.id(), reader, starts, count);
        send(slot);
    }

    /// Reports that no reader will meet rows of the transactions that began at the first `count` of `starts` and
    /// request their outcome; [Replies#number] answers.
    public void cleaned(T tag, long[] starts, int count) {
        RequestLimits.checkStarts(count);
        Slot<T> slot = take(Protocol.CLEANED, tag, 0);
        slot.frame.starts(Protocol.CLEANED, 0, slot.id(), starts, 0, count);
        send(slot);
    }

    /// Reports the same of a transaction, without an answer. The report goes with the next requests, at the latest when
    /// the client would otherwise send nothing for a part of the session's time-out, and again after a
    /// reconnection, until the server has received it.
    ///
    /// @throws OracleException if the pipeline is closed
    public void cleaned(long start) {
        checkOpen();
        outbox.addCleaned(start);
        if (outbox.cleaned() >= Outbox.CLEANED_MAX) {
            scheduleFlush();
        }
    }

    /// Registers a namespace, a set of rows that are swept together, before the first commit of one of
    /// them; [Replies#number] answers with its number.
    ///
    /// @param flags of [Protocol#NAMESPACE]: whether its rows end with this client, or it has none any more
    public void use(T tag, long namespace, int flags) {
        Slot<T> slot = take(Protocol.NAMESPACE, tag, 0);
        slot.namespace = namespace;
        slot.flags = flags;
        slot.frame.namespace(slot.id(), namespace, flags);
        send(slot);
    }

    /// Reports that a sweep of all tables of a namespace that began after `mark` was given out has ended;
    /// [Replies#number] answers with the number of transactions that were forgotten. That takes one request for
    /// each thousand of them.
    public void swept(T tag, long namespace, long mark) {
        Slot<T> slot = take(Protocol.SWEPT, tag, mark);
        slot.forgotten = 0;
        slot.namespace = namespace;
        slot.frame.swept(slot.id(), namespace, mark, 1);
        send(slot);
    }

    /// Asks for the low-water mark; [Replies#number] answers.
    public void lowWaterMark(T tag) {
        sendPlain(Protocol.LOW_WATER, tag);
    }

    /// Asks for the identity of the oracle; [Replies#number] answers, with [Protocol#IDENTITY_NONE] if the
    /// server speaks a version without identities.
    public void identity(T tag) {
        sendPlain(Protocol.PING, tag);
    }

    /// Returns the number of requests that were not answered.
    public int outstanding() {
        return slots.outstanding();
    }

    /// Returns the number of frames that were sent, without those that begin a connection.
    public long frames() {
        return outbox.frames();
    }

    // ---- slots ------------------------------------------------------------------------------------------------------

    private Slot<T> take(byte kind, T tag, long start) {
        checkOpen();
        if (!hasRoom()) {
            throw new IllegalStateException(
                    outstanding() + " requests are outstanding: wait for some of their answers");
        }
        Slot<T> slot = slots.take(kind, tag, start);
        if (kind != Protocol.SWEPT) {
            open.asked(start);
        }
        patience.asked(slot);
        return slot;
    }

    private void checkOpen() {
        assert loop.inEventLoop() : "a pipeline lives on one thread";
        if (closedBecause != null) {
            throw closedBecause;
        }
    }

    private boolean hasRoom() {
        return outstanding() < options.outstandingMax();
    }

    /// The slot of an answer; `null` if it answers nothing that was asked.
    private Slot<T> answered(byte kind) {
        Slot<T> slot = slots.find(reader.id());
        return slot != null && (kind == Protocol.ERROR || slot.kind == kind) ? slot : null;
    }

    private void send(Slot<T> slot) {
        if (line == null) {
            return;
        }
        if (!line.hasBatches) {
            outbox.writeAlone(slot);
        } else if (!outbox.add(slot)) {
            outbox.write(); // what was asked before is decided before
            outbox.writeAlone(slot);
        }
        scheduleFlush();
    }

    /// Writes what waits to the frames that are sent next.
    private void write() {
        if (line.hasBatches) {
            outbox.write();
        } else if (outbox.cleaned() > 0 && line.isWelcome) {
            long[] starts = outbox.removeCleaned();
            sendCleaned(starts, starts.length);
        }
    }

    /// Reports clean transactions by a request of their own.
    private void sendCleaned(long[] starts, int count) {
        Slot<T> slot = slots.take(Protocol.CLEANED, null, 0); // also where no other request has room
        patience.asked(slot);
        slot.isInternal = true;
        slot.frame.starts(Protocol.CLEANED, 0, slot.id(), starts, 0, count);
        outbox.writeAlone(slot);
    }

    /// Sends pending frames with one write, after the reads of the present round of the event loop.
    private void scheduleFlush() {
        if (!flushIsScheduled) {
            flushIsScheduled = true;
            loop.execute(flush);
        }
    }

    private void flush() {
        flushIsScheduled = false;
        if (line == null) {
            return;
        }
        write();
        if (out.length() > 0) {
            saidSomething = true;
            line.channel.writeAndFlush(Buffers.take(out, line.channel), line.channel.voidPromise());
        }
    }

    // ---- connections ------------------------------------------------------------------------------------------------

    void connect() {
        if (closedBecause != null) {
            return;
        }
        patience.beginOutage();
        Line attempt = new Line();
        connector.connect(attempt, failure -> {
            if (failure == null) {
                connected(attempt);
            } else if (failure instanceof ClientClosedException && known.identity() == Protocol.IDENTITY_NONE) {
                close((ClientClosedException) failure);
            } else {
                patience.lost(failure.getMessage());
                reconnectLater();
            }
        });
    }

    private void connected(Line attempt) {
        if (closedBecause != null || !attempt.channel.isActive()) {
            attempt.channel.close();
            reconnectLater();
            return;
        }
        line = attempt;
        if (connector.isOneOfMany() && watch == null) {
            long partMs = options.silence().toMillis() / ClientOptions.SILENCE_PARTS;
            watch = loop.scheduleWithFixedDelay(this::watch, partMs, partMs, TimeUnit.MILLISECONDS);
        }
        silentTicks = 0;
        silentParts = 0;
        out.clear();
        known.hello(out, HELLO_ID, session);
        namespaces.write(out, NAMESPACE_ID);
        announce();
        slots.forEach(this::send);
        scheduleFlush();
    }

    /// Sends the transactions that the client knows to be open (C2).
    private void announce() {
        long[] all = open.toArray();
        int from = 0;
        int count;
        do {
            count = Math.min(all.length - from, Protocol.STARTS_MAX);
            boolean last = from + count == all.length;
            out.starts(Protocol.ANNOUNCE, last ? Protocol.FLAG_LAST : 0, ANNOUNCE_ID, all, from, count);
            from += count;
        } while (from < all.length);
    }

    private void lost(Line which) {
        if (which == line) {
            line = null;
            out.clear();
            outbox.clear();
            slots.forEach(this::endBatch);
            patience.lost(which.lossReason());
            reconnectLater();
        }
    }

    /// A batch is not sent again: its requests are, each by itself, and so are its clean transactions.
    private void endBatch(Slot<T> slot) {
        if (slot.kind == Protocol.BATCH) {
            for (int index = 0; index < slot.cleaned; index++) {
                outbox.addCleaned(slot.cleanedStarts[index]);
            }
            slots.give(slot);
        }
    }

    private void reconnectLater() {
        if (closedBecause != null) {
            closed.complete(null);
            return;
        }
        patience.beginOutage();
        if (!connector.next()) {
            loop.execute(this::connect);
            return;
        }
        loop.schedule(this::connect, reconnectMs, TimeUnit.MILLISECONDS);
        reconnectMs = Math.min(2 * reconnectMs, options.reconnectMax().toMillis());
    }

    /// Leaves a server that is silent for too long (C4). Counts parts of that time, and not the time that has passed:
    /// a client that was suspended itself has received nothing.
    private void watch() {
        if (line == null || closedBecause != null) {
            return;
        }
        silentParts = outstanding() == 0 && line.isWelcome ? 0 : silentParts + 1;
        if (silentParts > ClientOptions.SILENCE_PARTS) {
            line.channel.close();
        }
    }

    /// Calls `each`, which may end the request, for all requests but those that are made meanwhile. None of them
    /// waits to be written then.
    private void forEachRequest(Consumer<Slot<T>> each) {
        if (line != null) {
            write();
        }
        slots.forEach(slot -> {
            if (slot.kind != Protocol.BATCH) {
                each.accept(slot);
            }
        });
    }

    private void failAll(OracleException why) {
        forEachRequest(slot -> fail(slot, why));
    }

    private void fail(Slot<T> slot, OracleException why) {
        T tag = slot.tag;
        boolean isInternal = slot.isInternal;
        if (why instanceof UnavailableException && slot.kind != Protocol.SWEPT) {
            open.failed(slot.kind, slot.start);
        }
        slots.give(slot);
        if (!isInternal) {
            tell(() -> replies.failed(tag, why));
        }
    }

    /// Ends what was abandoned, as far as there are slots (C5).
    private void sendAbandoned() {
        while (hasRoom()) {
            OpenTransactions.Abandoned next = open.next();
            if (next == null) {
                return;
            }
            Slot<T> slot = take(next.request, null, next.start);
            slot.isInternal = true;
            slot.frame.start(next.request, slot.id(), next.start);
            send(slot);
        }
    }

    /// Makes itself heard, and notices a server that is not.
    private void tick() {
        if (line == null || closedBecause != null) {
            return;
        }
        if (outbox.cleaned() > 0) {
            scheduleFlush();
        } else if (!saidSomething && hasRoom()) {
            sendPlain(Protocol.PING, null).isInternal = true;
        }
        saidSomething = false;
        sendAbandoned();
        // Ticks of this client, not time that has passed: see the server's.
        silentTicks = outstanding() == 0 ? 0 : silentTicks + 1;
        if (silentTicks > 2 * TICKS) {
            line.channel.close();
        }
    }

    /// Ends the session: its open transactions abort. Requests that were not answered fail with
    /// [ClientClosedException]. A second call does nothing.
    ///
    /// @return ends when the server has heard it, or did not say so for a second
    public CompletableFuture<Void> close() {
        close(new ClientClosedException(null, "the client is closed: make another one", null));
        return closed;
    }

    private void close(OracleException why) {
        if (closedBecause != null) {
            return;
        }
        closedBecause = why;
        patience.stop();
        if (ticks != null) {
            ticks.cancel(false);
        }
        if (watch != null) {
            watch.cancel(false);
        }
        failAll(why);
        if (line == null) {
            closed.complete(null);
            return;
        }
        out.plain(Protocol.CLOSE, CLOSE_ID);
        flush();
        Channel channel = line.channel;
        channel.closeFuture().addListener(done -> closed.complete(null));
        loop.schedule(() -> channel.close(), CLOSE_MS, TimeUnit.MILLISECONDS);
    }

    // ---- replies ----------------------------------------------------------------------------------------------------

    /// A connection.
    private final class Line extends ChannelInboundHandlerAdapter {
        private final Input input = new Input();
        private Channel channel;
        private boolean isWelcome;
        /// Whether its server understands batches, as far as is known.
        private boolean hasBatches;
        /// The reason why it ends, if there is more to say than that.
        private String failure;

        @Override
        public void handlerAdded(ChannelHandlerContext context) {
            channel = context.channel();
        }

        @Override
        public void channelRead(ChannelHandlerContext context, Object message) {
            ByteBuf bytes = (ByteBuf) message;
            try {
                if (line == this) {
                    input.add(bytes);
                    silentTicks = 0;
                    silentParts = 0;
                    read();
                }
            } catch (ProtocolException nonsense) {
                // Perhaps this is the other end of a connection that was cut, perhaps no oracle at all, or one that
                // wants TLS: the next server in turn may answer correctly.
                failure = "the answer is not of the oracle's protocol: " + nonsense.getMessage();
                context.close();
            } finally {
                bytes.release();
            }
        }

        private void read() throws ProtocolException {
            while (line == this) {
                int length = reader.next(input.bytes(), input.from(), input.end());
                if (length == 0) {
                    return;
                }
                boolean sense = reply();
                input.skip(length);
                if (!sense) {
                    channel.close();
                    return;
                }
            }
        }

        @Override
        public void channelInactive(ChannelHandlerContext context) {
            lost(this);
        }

        @Override
        public void exceptionCaught(ChannelHandlerContext context, Throwable cause) {
            failure = Connector.reason(cause);
            context.close();
        }

        private String lossReason() {
            if (failure != null) {
                return failure;
            }
            return isWelcome ? "the connection was lost" : Connector.CLOSED;
        }
    }

    /// Returns `false` if the reply is invalid.
    private boolean reply() {
        if (reader.kind() == Protocol.ERROR) {
            return error();
        }
        long id = reader.id();
        if (id == HELLO_ID) {
            welcome();
            return true;
        }
        if (id == ANNOUNCE_ID || id == CLOSE_ID || id == NAMESPACE_ID) {
            return true;
        }
        Slot<T> slot = answered(reader.request());
        if (slot == null) {
            return false;
        }
        switch (slot.kind) {
            case Protocol.BATCH:
                return batch(slot);
            case Protocol.BEGIN:
            case Protocol.COMMIT:
            case Protocol.ABORT:
            case Protocol.END:
            case Protocol.RESOLVE:
                decided(slot, reader.value());
                return true;
            default:
                other(slot);
                return true;
        }
    }

    /// The answers to a batch. Returns `false` if they are invalid.
    private boolean batch(Slot<T> batch) {
        long id = batch.id();
        int decided = batch.decided;
        boolean begins = batch.memberCount > decided;
        if (reader.values() != decided + (begins ? 1 : 0)) {
            return false;
        }
        long first = begins ? reader.value(decided) : 0;
        if (begins && first <= 0) {
            return false;
        }
        for (int index = 0; index < batch.memberCount; index++) {
            Slot<T> member = batch.member(index);
            if (member != null) {
                decided(member, index < decided ? reader.value(index) : first + index - decided);
            }
        }
        if (slots.find(id) == batch) { // else a listener has closed the pipeline
            slots.give(batch);
        }
        return true;
    }

    /// A transaction has begun, or its outcome has arrived.
    private void decided(Slot<T> slot, long value) {
        T tag = slot.tag;
        long start = slot.start;
        boolean isBegin = slot.kind == Protocol.BEGIN;
        boolean isInternal = slot.isInternal;
        slots.give(slot);
        try {
            if (isBegin) {
                open.began(value);
                replies.begun(tag, value);
            } else {
                open.decided(start);
                if (!isInternal) {
                    replies.decided(tag, start, value);
                }
            }
        } catch (RuntimeException theirs) {
            report(theirs);
        }
    }

    private void other(Slot<T> slot) {
        T tag = slot.tag;
        long start = slot.start;
        byte kind = slot.kind;
        if (kind == Protocol.SWEPT) {
            slot.forgotten += reader.forgotten();
            if (reader.next() != 0) {
                slot.frame.clear();
                slot.frame.swept(slot.id(), slot.namespace, start, reader.next());
                send(slot);
                return;
            }
        }
        long forgotten = slot.forgotten;
        boolean isInternal = slot.isInternal;
        long namespace = slot.namespace;
        int flags = slot.flags;
        slots.give(slot);
        try {
            switch (kind) {
                case Protocol.STATUS:
                    replies.outcomes(tag, reader.allValues());
                    break;
                case Protocol.SWEPT:
                    replies.number(tag, forgotten);
                    break;
                case Protocol.NAMESPACE:
                    namespaces.accepted(namespace, flags);
                    replies.number(tag, namespace);
                    break;
                case Protocol.LOW_WATER:
                    replies.number(tag, reader.value());
                    break;
                default:
                    if (!isInternal) { // else the server lives, or has heard of clean transactions
                        replies.number(tag, kind == Protocol.CLEANED ? reader.value() : known.identity());
                    }
            }
        } catch (RuntimeException theirs) {
            report(theirs);
        }
    }

    private void welcome() {
        line.isWelcome = true;
        line.hasBatches = reader.version() >= Protocol.VERSION_BATCH;
        known.welcome(reader);
        reconnectMs = options.reconnectMin().toMillis();
        patience.endOutage();
        sendAbandoned();
        if (sessionTimeoutMs != reader.sessionTimeoutMs()) {
            sessionTimeoutMs = reader.sessionTimeoutMs();
            if (ticks != null) {
                ticks.cancel(false);
            }
            long tickMs = Math.max(1, sessionTimeoutMs / TICKS);
            ticks = loop.scheduleWithFixedDelay(this::tick, tickMs, tickMs, TimeUnit.MILLISECONDS);
        }
    }

    private boolean error() {
        ErrorCode code = reader.errorCode();
        String text = reader.errorText();
        if ((reader.flags() & Protocol.FLAG_CLOSING) != 0) {
            if (code == null || !code.isOfTheConnection()) {
                close(new ClientClosedException(code, "the oracle has refused the connection: " + text, null));
            }
            line.failure = text;
            patience.beginOutage();
            return true;
        }
        Slot<T> slot = answered(Protocol.ERROR);
        if (slot == null) {
            return false;
        }
        if (slot.kind == Protocol.BATCH) {
            repeat(slot);
        } else {
            fail(slot, new RefusedException(code, text, null));
        }
        return true;
    }

    /// A batch was refused as a whole, for one of its requests: each is sent by itself, and hears its own answer.
    private void repeat(Slot<T> batch) {
        for (int index = 0; index < batch.memberCount; index++) {
            Slot<T> member = batch.member(index);
            if (member != null) {
                outbox.writeAlone(member);
            }
        }
        if (batch.cleaned > 0) {
            sendCleaned(batch.cleanedStarts, batch.cleaned);
        }
        slots.give(batch);
        scheduleFlush();
    }

    private void tell(Runnable listener) {
        try {
            listener.run();
        } catch (RuntimeException theirs) {
            report(theirs);
        }
    }

    /// A listener has thrown. That is no reason to treat others worse.
    private static void report(RuntimeException theirs) {
        Thread thread = Thread.currentThread();
        thread.getUncaughtExceptionHandler().uncaughtException(thread, theirs);
    }
}
