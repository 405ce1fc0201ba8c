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
import java.util.ArrayDeque;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;

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
/// - C6  A server's name is resolved for each attempt to connect: a server that was moved is found.
///
/// **Threads:** it runs on one thread, which also calls [Replies]; all methods but [#execute] must be called by
/// that thread.
///
/// @param <T> tag of a request
public final class Pipeline<T> {
    private static final SecureRandom RANDOM = new SecureRandom();

    private static final int OUT_BYTES = 1 << 10;
    private static final int SLOTS = 16;
    private static final long[] NO_ROWS = {};
    private static final CommitKeys NO_KEYS = new CommitKeys();

    /// Numbers of requests that have no slot.
    private static final long HELLO_ID = -1;
    private static final long ANNOUNCE_ID = -2;
    private static final long CLOSE_ID = -3;
    private static final long NAMESPACE_ID = -4;

    /// Time for which a close waits for the server to confirm that it has closed the session.
    private static final long CLOSE_MS = 1000;

    /// Number of equal parts of the patience. Requests whose time ends within the same part fail together.
    private static final int PATIENCE_PARTS = 64;

    /// In each of these parts of the time-out the client makes itself heard.
    private static final int TICKS = 4;

    private final EventLoop loop;
    private final ClientOptions options;
    private final Replies<T> replies;
    private final long session;

    private final ReplyReader reader = new ReplyReader();
    private final FrameWriter out = new FrameWriter(OUT_BYTES);
    private final OpenTransactions open = new OpenTransactions();
    /// Namespaces that a server has accepted, to be named again to the next, and the flags of that.
    private final Map<Long, Integer> namespaces = new LinkedHashMap<>();
    private Slot<T>[] slots = newSlots(SLOTS);
    private int slotCount;
    private final ArrayDeque<Slot<T>> free = new ArrayDeque<>();
    private int outstanding;

    /// The present connection; `null` while there is none.
    private Line line;
    private boolean flushIsScheduled;
    private final Runnable flush = this::flush;
    private long reconnectMs;
    /// `null` while a server answers. Written by the pipeline's thread.
    private volatile Outage outage;
    /// Reason why the newest connection was lost or could not be made.
    private volatile String lossReason = "the client has just been opened";
    /// Fails requests that have waited for too long; `null` if none waits.
    private Future<?> patienceTimer;
    private Future<?> ticks;
    private int sessionTimeoutMs;
    private boolean saidSomething;
    private int silentTicks;
    /// Identity of the oracle, once a server has stated it. From then on only versions that state it are offered.
    private long identity = Protocol.IDENTITY_NONE;
    /// Generation of that oracle. A server without generations cannot read the log of a restored oracle.
    private long generation = Protocol.IDENTITY_NONE;
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
    }

    @SuppressWarnings("unchecked")
    private static <T> Slot<T>[] newSlots(int count) {
        return (Slot<T>[]) new Slot<?>[count];
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
        RequestLimits.checkCommit((long) writeCount + readCount, keys);
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
        return outstanding;
    }

    // ---- slots ------------------------------------------------------------------------------------------------------

    private Slot<T> take(byte kind, T tag, long start) {
        assert loop.inEventLoop() : "a pipeline lives on one thread";
        if (closedBecause != null) {
            throw closedBecause;
        }
        if (outstanding >= options.outstandingMax()) {
            throw new IllegalStateException(outstanding + " requests are outstanding: wait for some of their answers");
        }
        Slot<T> slot = free.isEmpty() ? makeSlot() : free.pop();
        slot.kind = kind;
        slot.tag = tag;
        slot.start = start;
        if (kind != Protocol.SWEPT) {
            open.asked(start);
        }
        slot.outage = outage;
        if (slot.outage != null) {
            slot.askedNanos = System.nanoTime();
            awaitServer();
        }
        outstanding++;
        return slot;
    }

    private Slot<T> makeSlot() {
        if (slotCount == slots.length) {
            slots = Arrays.copyOf(slots, 2 * slotCount);
        }
        Slot<T> slot = new Slot<>(slotCount);
        slots[slotCount++] = slot;
        return slot;
    }

    private void give(Slot<T> slot) {
        slot.kind = 0;
        slot.tag = null;
        slot.isInternal = false;
        slot.outage = null;
        slot.uses++;
        slot.frame.clear();
        outstanding--;
        free.push(slot);
    }

    /// The slot of an answer; `null` if it answers nothing that was asked.
    private Slot<T> answered(byte kind) {
        long id = reader.id();
        int index = (int) id;
        if (index < 0 || index >= slotCount) {
            return null;
        }
        Slot<T> slot = slots[index];
        boolean fits = kind == Protocol.ERROR ? slot.kind != 0 : slot.kind == kind;
        return fits && slot.id() == id ? slot : null;
    }

    private void send(Slot<T> slot) {
        if (line != null) {
            out.copy(slot.frame.bytes(), 0, slot.frame.length());
            scheduleFlush();
        }
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
        if (line != null && out.length() > 0) {
            saidSomething = true;
            line.channel.writeAndFlush(Buffers.take(out, line.channel), line.channel.voidPromise());
        }
    }

    // ---- connections ------------------------------------------------------------------------------------------------

    void connect() {
        if (closedBecause != null) {
            return;
        }
        beginOutage();
        Line attempt = new Line();
        boolean isOneOfMany = options.servers().size() > 1;
        long connectMs = (isOneOfMany ? options.silence() : options.patience()).toMillis();
        if (isOneOfMany && watch == null) {
            long partMs = options.silence().toMillis() / ClientOptions.SILENCE_PARTS;
            watch = loop.scheduleWithFixedDelay(this::watch, partMs, partMs, TimeUnit.MILLISECONDS);
        }
        connector.connect(attempt, (int) connectMs, failure -> {
            if (failure == null) {
                connected(attempt);
            } else {
                lossReason = failure.getMessage();
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
        silentTicks = 0;
        silentParts = 0;
        out.clear();
        out.hello(HELLO_ID, lowestVersion(), Protocol.VERSION, session, identity, generation);
        namespaces.forEach((namespace, flags) -> out.namespace(NAMESPACE_ID, namespace, flags));
        announce();
        for (int index = 0; index < slotCount; index++) {
            if (slots[index].kind != 0) {
                send(slots[index]);
            }
        }
        scheduleFlush();
    }

    /// The log of an oracle with an identity, or of a restored one, cannot be read by servers of versions before.
    private int lowestVersion() {
        if (identity == Protocol.IDENTITY_NONE) {
            return Protocol.VERSION_LOWEST;
        }
        return generation == identity ? Protocol.VERSION_IDENTITY : Protocol.VERSION_GENERATION;
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
            lossReason = which.lossReason();
            reconnectLater();
        }
    }

    private void reconnectLater() {
        if (closedBecause != null) {
            closed.complete(null);
            return;
        }
        beginOutage();
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
        silentParts = outstanding == 0 && line.isWelcome ? 0 : silentParts + 1;
        if (silentParts > ClientOptions.SILENCE_PARTS) {
            line.channel.close();
        }
    }

    private void beginOutage() {
        if (outage == null) {
            outage = Outage.now();
            if (outstanding > 0) {
                awaitServer();
            }
        }
    }

    private void endOutage() {
        outage = null;
        if (patienceTimer != null) {
            patienceTimer.cancel(false);
            patienceTimer = null;
        }
    }

    private void awaitServer() {
        if (patienceTimer == null) {
            startPatienceTimer(options.patience().toNanos());
        }
    }

    private void startPatienceTimer(long nanos) {
        patienceTimer = loop.schedule(this::losePatience, nanos, TimeUnit.NANOSECONDS);
    }

    /// Fails the requests that have waited without a server for as long as the client's patience; no
    /// outcome is guessed (C3). Each request waits that long, also if others have waited before it: a
    /// caller that tries again immediately does not fail sooner.
    private void losePatience() {
        patienceTimer = null;
        if (outage == null) {
            return;
        }
        long patience = options.patience().toNanos();
        long now = System.nanoTime();
        long least = Long.MAX_VALUE;
        int count = slotCount;
        int[] uses = uses(count);
        for (int index = 0; index < count; index++) {
            Slot<T> slot = slots[index];
            if (slot.kind == 0 || slot.uses != uses[index]) {
                continue;
            }
            long left = patience - (now - (slot.outage == outage ? slot.askedNanos : outage.nanos()));
            if (left <= 0) {
                fail(slot, unavailable());
            } else {
                least = Math.min(least, left);
            }
        }
        if (least < Long.MAX_VALUE && closedBecause == null) {
            if (patienceTimer != null) { // for a request that a listener has made just now
                patienceTimer.cancel(false);
            }
            // Requests that were sent shortly one after the other fail together.
            startPatienceTimer(Math.max(least, patience / PATIENCE_PARTS));
        }
    }

    private UnavailableException unavailable() {
        return new UnavailableException(noAnswer() + "; whether the request took effect is unknown", null);
    }

    /// Returns the first half of an error message: for how long a request has waited, and for what.
    /// **Threads:** any may call.
    String noAnswer() {
        Outage now = outage;
        String waited = options.patience().toMillis() + " ms";
        return now == null
                ? "the oracle at " + options.servers() + " has not answered for " + waited
                : "no oracle at " + options.servers() + " could be reached since " + now.since() + " (" + lossReason
                        + "), and the request has waited for " + waited;
    }

    /// Returns the uses of the first slots, to recognise new requests of a listener: they do not fail with
    /// the others.
    private int[] uses(int count) {
        int[] uses = new int[count];
        for (int index = 0; index < count; index++) {
            uses[index] = slots[index].uses;
        }
        return uses;
    }

    private void failAll(OracleException why) {
        int count = slotCount;
        int[] uses = uses(count);
        for (int index = 0; index < count; index++) {
            Slot<T> slot = slots[index];
            if (slot.kind != 0 && slot.uses == uses[index]) {
                fail(slot, why);
            }
        }
    }

    private void fail(Slot<T> slot, OracleException why) {
        T tag = slot.tag;
        boolean isInternal = slot.isInternal;
        if (why instanceof UnavailableException && slot.kind != Protocol.SWEPT) {
            open.failed(slot.kind, slot.start);
        }
        give(slot);
        if (!isInternal) {
            tell(() -> replies.failed(tag, why));
        }
    }

    /// Ends what was abandoned, as far as there are slots (C5).
    private void sendAbandoned() {
        while (outstanding < options.outstandingMax()) {
            OpenTransactions.Abandoned next = open.next();
            if (next == null) {
                return;
            }
            Slot<T> slot = take(next.request(), null, next.start());
            slot.isInternal = true;
            slot.frame.start(next.request(), slot.id(), next.start());
            send(slot);
        }
    }

    /// Makes itself heard, and notices a server that is not.
    private void tick() {
        if (line == null || closedBecause != null) {
            return;
        }
        if (!saidSomething && outstanding < options.outstandingMax()) {
            sendPlain(Protocol.PING, null).isInternal = true;
        }
        saidSomething = false;
        sendAbandoned();
        // Ticks of this client, not time that has passed: see the server's.
        silentTicks = outstanding == 0 ? 0 : silentTicks + 1;
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
        if (patienceTimer != null) {
            patienceTimer.cancel(false);
        }
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
        T tag = slot.tag;
        long start = slot.start;
        byte kind = slot.kind;
        if (kind == Protocol.SWEPT) {
            slot.forgotten += reader.forgotten();
            if (reader.next() != 0) {
                slot.frame.clear();
                slot.frame.swept(slot.id(), slot.namespace, start, reader.next());
                send(slot);
                return true;
            }
        }
        long forgotten = slot.forgotten;
        boolean isInternal = slot.isInternal;
        long namespace = slot.namespace;
        int flags = slot.flags;
        give(slot);
        try {
            switch (kind) {
                case Protocol.BEGIN -> {
                    open.began(reader.value());
                    replies.begun(tag, reader.value());
                }
                case Protocol.COMMIT, Protocol.ABORT, Protocol.END, Protocol.RESOLVE -> {
                    open.decided(start);
                    if (!isInternal) {
                        replies.decided(tag, start, reader.value());
                    }
                }
                case Protocol.STATUS -> {
                    long[] outcomes = new long[reader.values()];
                    for (int index = 0; index < outcomes.length; index++) {
                        outcomes[index] = reader.value(index);
                    }
                    replies.outcomes(tag, outcomes);
                }
                case Protocol.SWEPT -> replies.number(tag, forgotten);
                case Protocol.NAMESPACE -> {
                    remember(namespace, flags);
                    replies.number(tag, namespace);
                }
                case Protocol.CLEANED, Protocol.LOW_WATER -> replies.number(tag, reader.value());
                default -> {
                    if (!isInternal) { // else the server lives
                        replies.number(tag, identity);
                    }
                }
            }
        } catch (RuntimeException theirs) {
            report(theirs);
        }
        return true;
    }

    private void remember(long namespace, int flags) {
        if ((flags & Protocol.FLAG_RETIRED) == 0) {
            namespaces.put(namespace, flags);
        } else {
            namespaces.remove(namespace);
        }
    }

    private void welcome() {
        line.isWelcome = true;
        identity = reader.identity();
        generation = reader.version() < Protocol.VERSION_GENERATION ? identity : reader.generation();
        reconnectMs = options.reconnectMin().toMillis();
        endOutage();
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
            beginOutage();
            return true;
        }
        Slot<T> slot = answered(Protocol.ERROR);
        if (slot == null) {
            return false;
        }
        fail(slot, new RefusedException(code, text, null));
        return true;
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
