package cedrat.oracle.server;

import cedrat.oracle.log.EntryWriter;
import cedrat.oracle.log.Log;
import cedrat.oracle.protocol.ErrorCode;
import cedrat.oracle.protocol.Protocol;
import cedrat.oracle.protocol.ProtocolException;
import cedrat.oracle.protocol.RequestReader;
import cedrat.oracle.state.Rows;
import cedrat.oracle.state.StatusOracle;
import cedrat.oracle.transport.Buffers;
import io.netty.buffer.ByteBuf;
import io.netty.channel.Channel;
import io.netty.channel.ChannelFutureListener;
import io.netty.channel.EventLoop;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.function.Consumer;

/// Decides requests, appends the decisions to the log in batches, and releases the replies of a batch when its append was
/// acknowledged.
///
/// ```text
/// receive            decide                  persist                    reply
/// bytes of a ──────▶ the open batch ───────▶ batches in flight ───────▶ one write for each
/// connection         entry and replies       in the order of the log    connection of the batch
/// ```
///
/// - D1  No byte of any reply, a refusal included, leaves before the acknowledgement of an append that was made after its
///   request had arrived (O6). So a server that was replaced while it slept can answer nothing.
/// - D2  The open batch is appended when it is full, or when all that has arrived was decided and the log has room for another
///   append. No timer: a request that comes alone waits for nobody.
/// - D3  What one connection may have outstanding is bounded, and so is the open batch. Where there is no room, bytes stay
///   where they are, and the connection is not read from: the sender's kernel makes it wait.
/// - D4  After a failed append nothing is answered any more, and the server stops.
///
/// Lives on one event loop, the "decide" thread; nothing here is synchronized. Connections may live on the same loop, or on
/// others: Netty then carries bytes here and replies there.
final class Decider implements Log.Listener {
    /// Bugs that tests plant, to see that they are found.
    enum Fault {
        NONE,
        REPLIES_BEFORE_THE_LOG,
        STARTS_BEFORE_THE_LOG
    }

    /// A batch with so many requests is full; so that the first of them does not wait for long.
    private static final int BATCH_REQUESTS_MAX = 1 << 12;

    /// A batch whose entry has so many bytes is full.
    private static final int BATCH_BYTES_MAX = 256 << 10;

    private static final int SPARE_BATCHES_MAX = 16;

    /// A session that was silent for so many ticks, and a part of one, expires. Ticks of a server that runs, not time that has
    /// passed: whoever is stopped for a minute and goes on has heard nothing of anybody, and must not blame them.
    static final int SESSION_TICKS = 8;

    private final EventLoop loop;
    private final ServerOptions options;
    private final StatusOracle oracle;
    private final EntryWriter entry;
    private final Log log;
    private final Consumer<Throwable> stop;
    private final Fault fault;

    private final RequestReader request;
    private final Rows writes = new Rows();
    private final Rows reads = new Rows();

    private final ArrayDeque<Batch> inFlight = new ArrayDeque<>();
    private final ArrayDeque<Batch> spare = new ArrayDeque<>();
    private final ArrayDeque<Connection> waiting = new ArrayDeque<>();
    private Batch open = new Batch();
    private boolean closeIsScheduled;
    private boolean resumeIsScheduled;
    private long appended;
    /// No request is decided any more.
    private boolean ending;
    /// Nothing is answered any more.
    private boolean stopped;

    /// Written by the log's thread.
    private volatile long acknowledged;

    private final Runnable closeBatch = () -> guard(this::closeBatch);
    private final Runnable release = () -> guard(this::release);
    private final Runnable resume = () -> guard(this::resume);

    private final Map<Long, Session> sessions = new HashMap<>();
    private int newestSession = StatusOracle.NO_SESSION;
    /// Ticks until transactions that were open at recovery, and that nobody has announced, abort; 0 if there are none.
    private int recoveredTicks;

    /// A decider of an oracle that writes its decisions to `entry`. `stop` is told once, when the log or the decider itself fails.
    Decider(EventLoop loop, ServerOptions options, StatusOracle oracle, EntryWriter entry, Log log,
            Consumer<Throwable> stop, Fault fault) {
        this.loop = loop;
        this.options = options;
        this.oracle = oracle;
        this.entry = entry;
        this.log = log;
        this.stop = stop;
        this.fault = fault;
        request = new RequestReader(options.rowsMax());
    }

    /// The log was replayed: requests may come.
    void begin() {
        entry.begin(oracle.newest());
        recoveredTicks = oracle.open() > 0 ? SESSION_TICKS + 1 : 0;
    }

    // ---- receive ----------------------------------------------------------------------------------------------------

    /// Bytes have arrived. The buffer is the decider's from now on.
    void receive(Connection connection, ByteBuf bytes) {
        try {
            if (!ending && !connection.finished) {
                connection.input.add(bytes);
                if (!connection.waiting) {
                    decide(connection);
                }
            }
        } catch (RuntimeException | Error broken) {
            fail(broken);
        } finally {
            bytes.release();
        }
    }

    /// The client has read enough of its replies that more can be sent.
    void writable(Connection connection) {
        if (connection.waiting) {
            scheduleResume();
        }
    }

    /// The connection is gone.
    void closed(Connection connection) {
        connection.finished = true;
        connection.input.clear();
        if (connection.session != null && connection.session.connection == connection) {
            connection.session.connection = null;
        }
    }

    private boolean mayDecide(Connection connection) {
        return connection.outstanding < options.outstandingMax() && hasRoom();
    }

    private boolean hasRoom() {
        if (!isFull()) {
            return true;
        }
        if (inFlight.size() >= log.appendsMax()) {
            return false;
        }
        append();
        return true;
    }

    private boolean isFull() {
        return open.requests >= BATCH_REQUESTS_MAX || entry.length() >= BATCH_BYTES_MAX;
    }

    private void hold(Connection connection) {
        connection.waiting = true;
        connection.setReading(false);
        waiting.add(connection);
    }

    private void scheduleResume() {
        if (!resumeIsScheduled) {
            resumeIsScheduled = true;
            loop.execute(resume);
        }
    }

    private void resume() {
        resumeIsScheduled = false;
        for (int count = waiting.size(); count > 0; count--) {
            Connection connection = waiting.poll();
            connection.waiting = false;
            decide(connection);
            if (!connection.waiting) {
                connection.setReading(true);
            }
        }
    }

    // ---- decide -----------------------------------------------------------------------------------------------------

    private void decide(Connection connection) {
        assert loop.inEventLoop() : "only the decide thread decides";
        if (!connection.channel.isWritable()) {
            hold(connection);
            return;
        }
        while (!connection.finished && !ending) {
            if (!mayDecide(connection)) {
                hold(connection);
                return;
            }
            try {
                int length = request.next(connection.input.bytes(), connection.input.from(), connection.input.end());
                if (length == 0) {
                    return;
                }
                answer(connection);
                connection.input.skip(length);
            } catch (ProtocolException refused) {
                if (refused.isFatal()) {
                    refuse(connection, request.id(), refused.code(), refused.getMessage());
                } else {
                    error(connection, refused.code(), refused.getMessage());
                    connection.input.skip(refused.skip());
                }
            }
        }
        connection.input.clear();
    }

    private void answer(Connection connection) {
        long id = request.id();
        byte kind = request.kind();
        Session session = connection.session;
        if (kind == Protocol.HELLO || session == null) {
            hello(connection);
            return;
        }
        session.silentTicks = 0;
        switch (kind) {
            case Protocol.BEGIN -> {
                connection.replies.value(kind, id, oracle.begin(session.number));
                replied(connection);
                if (fault == Fault.STARTS_BEFORE_THE_LOG) {
                    connection.channel.writeAndFlush(Buffers.take(connection.replies, connection.channel));
                }
            }
            case Protocol.COMMIT -> {
                if (isGivenOut(connection, request.start())) {
                    readRows();
                    value(connection, oracle.commit(request.start(), writes, reads));
                }
            }
            case Protocol.END -> {
                if (isGivenOut(connection, request.start())) {
                    writes.clear();
                    reads.clear();
                    value(connection, oracle.commit(request.start(), writes, reads));
                }
            }
            case Protocol.ABORT -> {
                if (isGivenOut(connection, request.start())) {
                    value(connection, oracle.abort(request.start()));
                }
            }
            case Protocol.RESOLVE -> {
                if (isGivenOut(connection, request.start())) {
                    value(connection, oracle.resolve(request.start()));
                }
            }
            case Protocol.STATUS -> {
                if (isGivenOut(connection, request.reader()) && areGivenOut(connection)) {
                    status(connection);
                }
            }
            case Protocol.CLEANED -> {
                if (areGivenOut(connection)) {
                    cleaned(connection);
                }
            }
            case Protocol.ANNOUNCE -> {
                if (areGivenOut(connection)) {
                    announce(connection);
                }
            }
            case Protocol.LOW_WATER -> value(connection, oracle.lowWaterMark());
            case Protocol.PING -> {
                connection.replies.done(kind, id);
                replied(connection);
            }
            case Protocol.CLOSE -> {
                connection.replies.done(kind, id);
                replied(connection);
                finish(connection);
                expire(session);
            }
            default -> throw new AssertionError("a request of kind " + kind + " passed the reader");
        }
    }

    /// Looks a timestamp up that a client claims to know. A transaction that never began cannot be asked about: nothing that is
    /// said of it now would hold when it begins.
    private boolean isGivenOut(Connection connection, long timestamp) {
        if (timestamp <= oracle.newest()) {
            return true;
        }
        error(connection, ErrorCode.TIMESTAMP, "timestamp " + timestamp + " was not given out yet");
        return false;
    }

    private boolean areGivenOut(Connection connection) {
        for (int index = 0; index < request.starts(); index++) {
            if (!isGivenOut(connection, request.start(index))) {
                return false;
            }
        }
        return true;
    }

    private void readRows() {
        writes.clear();
        reads.clear();
        int writeCount = request.writes();
        for (int index = 0; index < writeCount; index++) {
            writes.add(request.row(index));
        }
        int all = writeCount + request.reads();
        for (int index = writeCount; index < all; index++) {
            reads.add(request.row(index));
        }
    }

    private void status(Connection connection) {
        int count = request.starts();
        int values = connection.replies.values(Protocol.STATUS, request.id(), count);
        for (int index = 0; index < count; index++) {
            connection.replies.putValue(values, index, oracle.status(request.start(index)));
        }
        replied(connection);
    }

    private void cleaned(Connection connection) {
        long forgotten = 0;
        for (int index = 0; index < request.starts(); index++) {
            forgotten += oracle.cleaned(request.start(index)) ? 1 : 0;
        }
        value(connection, forgotten);
    }

    private void value(Connection connection, long value) {
        connection.replies.value(request.kind(), request.id(), value);
        replied(connection);
    }

    private void error(Connection connection, ErrorCode code, String text) {
        connection.replies.error(request.id(), 0, code, text);
        replied(connection);
    }

    /// Refuses the connection itself: behind this reply it is closed.
    private void refuse(Connection connection, long id, ErrorCode code, String text) {
        connection.replies.error(id, Protocol.FLAG_CLOSING, code, text);
        replied(connection);
        finish(connection);
    }

    private static void finish(Connection connection) {
        connection.finished = true;
        connection.closing = true;
    }

    /// A reply was put into the open batch.
    private void replied(Connection connection) {
        if (connection.repliesCount++ == 0) {
            open.add(connection);
        }
        connection.outstanding++;
        open.requests++;
        scheduleClose();
    }

    // ---- sessions ---------------------------------------------------------------------------------------------------

    private void hello(Connection connection) {
        if (connection.session != null || request.kind() != Protocol.HELLO) {
            refuse(connection, request.id(), ErrorCode.HELLO, "a connection begins with one hello");
            return;
        }
        Session session = sessions.get(request.session());
        if (session == null) {
            session = new Session(request.session(), ++newestSession);
            sessions.put(session.token, session);
        } else {
            Connection before = session.connection;
            if (before != null) {
                refuse(before, 0, ErrorCode.TAKEN_OVER, "another connection has taken over the session");
                before.input.clear();
            }
            session.earlier.add(session.number);
            session.number = ++newestSession;
        }
        session.connection = connection;
        session.silentTicks = 0;
        connection.session = session;
        connection.replies.welcome(request.id(), Protocol.VERSION, (int) options.sessionTimeout().toMillis(),
                options.rowsMax(), options.outstandingMax());
        replied(connection);
    }

    /// A session that has come back says which transactions it knows of. Others may have begun, with replies that were lost:
    /// nobody will ever end those, so they abort.
    private void announce(Connection connection) {
        Session session = connection.session;
        int count = request.starts();
        int values = connection.replies.values(Protocol.ANNOUNCE, request.id(), count);
        for (int index = 0; index < count; index++) {
            long start = request.start(index);
            long outcome = oracle.status(start);
            if (outcome == StatusOracle.OPEN) {
                int owner = oracle.session(start);
                if (owner == StatusOracle.NO_SESSION || session.earlier.contains(owner)) {
                    oracle.adopt(start, session.number);
                }
            }
            connection.replies.putValue(values, index, outcome);
        }
        replied(connection);
        if ((request.flags() & Protocol.FLAG_LAST) != 0) {
            session.earlier.forEach(oracle::expire);
            session.earlier.clear();
        }
    }

    /// A part of the time-out of sessions has passed.
    void tick() {
        guard(this::age);
    }

    private void age() {
        if (ending || isFull()) {
            return; // nobody could make itself heard
        }
        for (Session session : new ArrayList<>(sessions.values())) {
            if (session.connection == null || !session.connection.waiting) {
                session.silentTicks++; // else it may have said much, and was not listened to
            }
            if (session.silentTicks > SESSION_TICKS) {
                if (session.connection != null) {
                    refuse(session.connection, 0, ErrorCode.EXPIRED, "nothing was heard of the session for "
                            + options.sessionTimeout().toMillis() + " ms: it has expired, and its open transactions have aborted");
                }
                expire(session);
            }
        }
        if (recoveredTicks > 0) {
            recoveredTicks--;
            if (recoveredTicks == 0) {
                oracle.expire(StatusOracle.NO_SESSION);
            }
        }
        scheduleClose();
    }

    private void expire(Session session) {
        sessions.remove(session.token);
        session.connection = null;
        oracle.expire(session.number);
        session.earlier.forEach(oracle::expire);
        session.earlier.clear();
    }

    // ---- persist ----------------------------------------------------------------------------------------------------

    /// The batch closes when all that has arrived is decided: this runs behind the reads of the present round of the loop.
    private void scheduleClose() {
        if (!closeIsScheduled) {
            closeIsScheduled = true;
            loop.execute(closeBatch);
        }
    }

    private void closeBatch() {
        closeIsScheduled = false;
        if (inFlight.size() < log.appendsMax()) {
            append();
        }
        // Otherwise an acknowledgement closes it.
    }

    private void append() {
        if (stopped || open.size == 0 && entry.isEmpty()) {
            return;
        }
        entry.close(oracle.newest());
        for (int at = 0; at < open.size; at++) {
            Connection connection = open.connections[at];
            open.replies[at] = Buffers.take(connection.replies, connection.channel);
            open.counts[at] = connection.repliesCount;
            open.closing[at] = connection.closing;
            connection.repliesCount = 0;
        }
        Batch batch = open;
        open = spare.isEmpty() ? new Batch() : spare.pop();
        batch.number = ++appended;
        inFlight.add(batch);
        if (fault == Fault.REPLIES_BEFORE_THE_LOG) {
            reply(inFlight.poll());
        }
        long number = log.append(entry.bytes(), 0, entry.length());
        assert number == appended : "L1";
        entry.begin(oracle.newest());
        release();
    }

    @Override
    public void acknowledged(long number) {
        acknowledged = number;
        if (!loop.inEventLoop()) {
            loop.execute(release);
        }
    }

    @Override
    public void failed(Exception cause) {
        loop.execute(() -> fail(cause));
    }

    // ---- reply ------------------------------------------------------------------------------------------------------

    private void release() {
        boolean some = false;
        while (!stopped && !inFlight.isEmpty() && inFlight.peek().number <= acknowledged) {
            reply(inFlight.poll());
            some = true;
        }
        if (some) {
            if (!waiting.isEmpty()) {
                scheduleResume();
            }
            if (open.size > 0 || !entry.isEmpty()) {
                scheduleClose();
            }
        }
    }

    private void reply(Batch batch) {
        for (int at = 0; at < batch.size; at++) {
            Connection connection = batch.connections[at];
            Channel channel = connection.channel;
            connection.outstanding -= batch.counts[at];
            if (batch.closing[at]) {
                channel.writeAndFlush(batch.replies[at]).addListener(ChannelFutureListener.CLOSE);
            } else {
                channel.writeAndFlush(batch.replies[at], channel.voidPromise());
            }
        }
        batch.clear();
        if (spare.size() < SPARE_BATCHES_MAX) {
            spare.push(batch);
        }
    }

    // ---- the end ----------------------------------------------------------------------------------------------------

    /// Decides nothing more, and appends what was decided; then the log may be closed.
    void flush() {
        ending = true;
        append();
    }

    /// Releases what was acknowledged, and answers nothing more.
    void end() {
        release();
        stopped = true;
        inFlight.forEach(Batch::drop);
        inFlight.clear();
    }

    private void guard(Runnable work) {
        try {
            work.run();
        } catch (RuntimeException | Error broken) {
            fail(broken);
        }
    }

    /// D4: the log has failed, or a promise of ours is broken.
    private void fail(Throwable cause) {
        if (!stopped) {
            ending = true;
            stopped = true;
            inFlight.forEach(Batch::drop);
            inFlight.clear();
            stop.accept(cause);
        }
    }

    /// How many requests are in the open batch.
    int decided() {
        return open.requests;
    }

    /// How many requests were decided and not answered.
    int outstanding() {
        return open.requests + inFlight.stream().mapToInt(batch -> batch.requests).sum();
    }

    /// Runs something on the decide thread. **Threads:** any may call.
    CompletableFuture<Void> run(Runnable work) {
        return CompletableFuture.runAsync(work, loop);
    }
}
