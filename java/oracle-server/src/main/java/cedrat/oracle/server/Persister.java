package cedrat.oracle.server;

import cedrat.oracle.log.EntryWriter;
import cedrat.oracle.log.Log;
import cedrat.oracle.log.SnapshotRule;
import cedrat.oracle.log.SnapshotWriter;
import cedrat.oracle.protocol.Protocol;
import cedrat.oracle.state.StatusOracle;
import cedrat.oracle.transport.Buffers;
import io.netty.channel.Channel;
import io.netty.channel.ChannelFuture;
import io.netty.channel.ChannelFutureListener;
import io.netty.channel.EventLoop;
import java.util.ArrayDeque;
import java.util.function.Consumer;

/// Appends decisions to the log in batches, and releases the replies of a batch when its append was
/// acknowledged.
///
/// - D1  No byte of any reply, a refusal included, leaves before the acknowledgement of an append that was
///   made after its request had arrived (O6). So a server that was replaced while it was suspended can answer
///   nothing.
/// - D2  The open batch is appended when it is full, or when all arrived requests were decided and the log has
///   room for another append. There is no timer: a single request does not wait for others.
/// - D4  After a failed append nothing is answered any more, and the server stops.
/// - D5  While there is something to append, the log is bounded: each batch is followed by one part of the
///   snapshot that is due, if one is, and entries that acknowledged snapshots replace are forgotten (O5).
/// - D6  An entry is no longer than a log accepts: the decisions on one request, or on the expiry of a session,
///   may fill several. Replies are released by the last of them.
///
/// Runs on the decide thread, except for the calls by the log.
final class Persister implements Log.Listener {
    /// A batch with so many requests is full; so that the first of them does not wait for long.
    private static final int BATCH_REQUESTS_MAX = 1 << 12;

    /// A batch whose entry has so many bytes is full.
    static final int BATCH_BYTES_MAX = 256 << 10;

    /// Bytes of replies with which a batch is full.
    static final int REPLIES_BYTES_MAX = 1 << 20;

    /// An entry is never longer: it was no full batch when the newest request was decided, of which either
    /// all decisions but a commit fit several entries, or the commit is no longer than its frame; but for
    /// some lengths, which take a byte more.
    static final int ENTRY_BYTES_MAX = BATCH_BYTES_MAX + Protocol.FRAME_BYTES_MAX + 1024;

    private static final int SPARE_BATCHES_MAX = 16;

    private final EventLoop loop;
    private final StatusOracle oracle;
    private final EntryWriter entry;
    private final Log log;
    private final SnapshotRule rule;
    private final SnapshotWriter snapshot;
    private final BackupStream backup = new BackupStream();
    private final Consumer<Throwable> stop;
    private final Fault fault;

    private final ArrayDeque<Batch> inFlight = new ArrayDeque<>();
    private final ArrayDeque<Batch> spare = new ArrayDeque<>();
    private Batch open = new Batch();
    private boolean closeIsScheduled;
    /// Entries that were there when the log was opened.
    private long replayed;
    private long logBytes;
    private long refusals;
    private final Durations replyDurations = new Durations();
    private final Durations appendDurations = new Durations();
    private boolean stopped;
    /// With a planted fault: the log has failed, and replies do not wait for it.
    private boolean ignoresLog;
    private long keptFrom;
    /// The oracle's position behind the newest batch that was released.
    private long position;
    /// Called when batches were released, so that there may be room.
    private Runnable released = () -> {};

    /// Written by the log's thread.
    private volatile long acknowledged;

    private final Runnable closeBatch = () -> guard(this::closeBatch);
    private final Runnable release = () -> guard(this::release);

    /// Persists the decisions of an oracle that writes them to `entry`. `stop` is called once, when the log or the
    /// server itself fails.
    Persister(
            EventLoop loop,
            StatusOracle oracle,
            EntryWriter entry,
            Log log,
            SnapshotRule rule,
            Consumer<Throwable> stop,
            Fault fault) {
        this.loop = loop;
        this.oracle = oracle;
        this.entry = entry;
        this.log = log;
        this.rule = rule;
        this.stop = stop;
        this.fault = fault;
        snapshot = new SnapshotWriter(oracle);
        entry.whenFull(BATCH_BYTES_MAX, this::appendFull);
    }

    /// The log was replayed: decisions may come. `released` is called when there may be room again.
    void begin(Runnable released) {
        this.released = released;
        position = oracle.position();
        replayed = rule.entries();
        acknowledged = replayed;
        entry.begin(oracle.newest());
    }

    // ---- the open batch ---------------------------------------------------------------------------------------------

    /// Whether another request may be decided. Appends a batch that is full, if the log has room.
    boolean hasRoom() {
        if (!isFull()) {
            return true;
        }
        if (inFlight.size() >= log.appendsMax()) {
            return false;
        }
        append();
        return true;
    }

    /// Whether the open batch takes no more.
    boolean isFull() {
        return open.requests >= BATCH_REQUESTS_MAX
                || open.bytes >= REPLIES_BYTES_MAX
                || entry.length() >= BATCH_BYTES_MAX;
    }

    /// A reply was put into a connection's part of the open batch.
    void replied(Connection connection) {
        replied(connection, 1);
    }

    /// A reply to so many requests was put there.
    void replied(Connection connection, int count) {
        if (connection.repliesCount == 0) {
            open.add(connection);
        }
        connection.replied(count);
        open.bytes += connection.replies.length() - connection.repliesBytes;
        connection.repliesBytes = connection.replies.length();
        if (open.requests == 0) {
            open.openedNanos = System.nanoTime();
            open.underWay = inFlight.isEmpty() ? 0 : inFlight.peekLast().number;
        }
        open.requests += count;
        scheduleClose();
    }

    /// The batch closes when all that has arrived is decided: this runs behind the reads of the present round
    /// of the loop.
    void scheduleClose() {
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

    // ---- persist ----------------------------------------------------------------------------------------------------

    private void append() {
        if (stopped || open.size == 0 && entry.isEmpty()) {
            return;
        }
        entry.close(oracle.newest());
        for (int at = 0; at < open.size; at++) {
            Connection connection = open.connections[at];
            connection.bytesInFlight += connection.replies.length();
            connection.repliesBytes = 0;
            open.replies[at] = Buffers.take(connection.replies, connection.channel);
            open.counts[at] = connection.repliesCount;
            open.closing[at] = connection.closing;
            connection.repliesCount = 0;
        }
        open.appendedNanos = System.nanoTime();
        Batch batch = open;
        open = spare.isEmpty() ? new Batch() : spare.pop();
        batch.number = rule.entries() + 1;
        if (fault == Fault.APPENDS_FROM_BEFORE_ANSWER && batch.underWay > 0) {
            batch.number = batch.underWay;
        }
        batch.position = oracle.position();
        inFlight.add(batch);
        if (fault == Fault.REPLIES_BEFORE_THE_LOG || ignoresLog) {
            reply(inFlight.poll());
        }
        append(entry.bytes(), entry.length());
        if (snapshot.hasMore() || rule.isDue(oracle.position()) || backup.needsSnapshot()) {
            appendPart();
        }
        entry.begin(oracle.newest());
        release();
    }

    /// D6, in front of a commit that is one of several in a request.
    void makeRoom() {
        if (entry.length() >= BATCH_BYTES_MAX) {
            appendFull();
        }
    }

    /// D6. What was decided so far goes to the log, ahead of what is decided on the same request.
    private void appendFull() {
        entry.close(oracle.newest());
        if (!stopped) {
            append(entry.bytes(), entry.length());
        }
        entry.begin(oracle.newest());
    }

    private void append(byte[] bytes, int length) {
        assert length <= ENTRY_BYTES_MAX : "D6";
        rule.entry(length);
        logBytes += length;
        backup.entry(bytes, length);
        long number = log.append(bytes, 0, length);
        assert number == rule.entries() : "entries are numbered one by one";
    }

    private void appendPart() {
        boolean isFirst = !snapshot.hasMore();
        if (isFirst) {
            snapshot.begin();
            backup.snapshotBegins();
        }
        snapshot.part();
        append(snapshot.bytes(), snapshot.length());
        if (isFirst) {
            rule.begun(snapshot.position());
        }
        if (!snapshot.hasMore()) {
            rule.ended();
            backup.snapshotEnds();
        }
    }

    /// Returns the backup that is being made, if one is.
    BackupStream backup() {
        return backup;
    }

    @Override
    public void acknowledged(long number) {
        acknowledged = number;
        if (!loop.inEventLoop()) {
            loop.execute(release);
        } // else it is the append that releases
    }

    @Override
    public void failed(Exception cause) {
        loop.execute(fault == Fault.IGNORES_FAILURES ? this::ignoreLog : () -> fail(cause));
    }

    private void ignoreLog() {
        ignoresLog = true;
        while (!inFlight.isEmpty()) {
            reply(inFlight.poll());
        }
        released.run();
    }

    // ---- reply ------------------------------------------------------------------------------------------------------

    private void release() {
        long kept = acknowledged;
        boolean some = false;
        while (!stopped && !inFlight.isEmpty() && inFlight.peek().number <= kept) {
            position = inFlight.peek().position;
            reply(inFlight.poll());
            some = true;
        }
        if (!stopped) {
            forget(kept);
        }
        if (some) {
            released.run();
            if (open.size > 0 || !entry.isEmpty()) {
                scheduleClose();
            }
        }
    }

    private void forget(long kept) {
        long from = rule.keepFrom(kept, position);
        if (from > keptFrom) {
            keptFrom = from;
            log.forgetBefore(from);
        }
    }

    private void reply(Batch batch) {
        long now = System.nanoTime();
        appendDurations.record(now - batch.appendedNanos, 1);
        if (batch.requests > 0) {
            replyDurations.record(now - batch.openedNanos, batch.requests);
        }
        for (int at = 0; at < batch.size; at++) {
            Connection connection = batch.connections[at];
            Channel channel = connection.channel;
            connection.released(batch.counts[at], batch.replies[at].readableBytes());
            if (batch.closing[at]) {
                ChannelFuture written = channel.writeAndFlush(batch.replies[at]);
                if (connection.cutsOff) {
                    channel.close();
                } else {
                    written.addListener(ChannelFutureListener.CLOSE);
                }
            } else {
                channel.writeAndFlush(batch.replies[at], channel.voidPromise());
            }
        }
        batch.clear();
        if (spare.size() < SPARE_BATCHES_MAX) {
            spare.push(batch);
        }
    }

    // ---- figures ----------------------------------------------------------------------------------------------------

    /// A reply that refuses was put into the open batch.
    void refused() {
        refusals++;
    }

    long refusals() {
        return refusals;
    }

    /// Returns the number of entries that the log was given.
    long appended() {
        return rule.entries() - replayed;
    }

    /// Returns the number of entries that are acknowledged.
    long acknowledged() {
        return acknowledged - replayed;
    }

    /// Returns the number of rows committed since the newest complete snapshot was begun, each time counted again.
    long snapshotAge() {
        return rule.age(oracle.position());
    }

    /// Returns the length of the log's entries in bytes.
    long logBytes() {
        return logBytes;
    }

    /// From the first request of a batch to its replies.
    Durations replyDurations() {
        return replyDurations;
    }

    /// From appends to acknowledgements.
    Durations appendDurations() {
        return appendDurations;
    }

    // ---- the end ----------------------------------------------------------------------------------------------------

    /// Appends what was decided; then the log may be closed. Nothing more may be decided.
    void flush() {
        append();
    }

    /// The log is closed: what it has acknowledged was released before this, and nothing more is answered.
    void end() {
        stopped = true;
        drop();
    }

    boolean isStopped() {
        return stopped;
    }

    /// Runs something of the decide thread's own. That it throws is a broken promise of ours, and ends the
    /// server: what memory holds may not be what the log says.
    void guard(Runnable work) {
        try {
            work.run();
        } catch (RuntimeException | Error broken) {
            fail(broken);
        }
    }

    /// D4.
    void fail(Throwable cause) {
        if (!stopped) {
            stopped = true;
            drop();
            stop.accept(cause);
        }
    }

    private void drop() {
        inFlight.forEach(Batch::drop);
        inFlight.clear();
    }

    /// Returns the number of requests in the open batch.
    int decided() {
        return open.requests;
    }

    /// Returns the bytes of replies that were not released.
    long outstandingBytes() {
        return open.bytes + inFlight.stream().mapToLong(batch -> batch.bytes).sum();
    }

    /// Returns the number of requests that were decided and not answered.
    int outstanding() {
        return open.requests
                + inFlight.stream().mapToInt(batch -> batch.requests).sum();
    }
}
