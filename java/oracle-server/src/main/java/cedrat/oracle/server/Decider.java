package cedrat.oracle.server;

import cedrat.oracle.log.Identities;
import cedrat.oracle.log.Log;
import cedrat.oracle.protocol.AdminKind;
import cedrat.oracle.protocol.ErrorCode;
import cedrat.oracle.protocol.Protocol;
import cedrat.oracle.protocol.ProtocolException;
import cedrat.oracle.protocol.RequestReader;
import cedrat.oracle.state.KeyRanges;
import cedrat.oracle.state.Keys;
import cedrat.oracle.state.Rows;
import cedrat.oracle.state.StatusOracle;
import cedrat.oracle.transport.Buffers;
import io.netty.buffer.ByteBuf;
import io.netty.channel.EventLoop;
import io.netty.util.concurrent.Future;
import java.util.ArrayDeque;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.Locale;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.function.BiFunction;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/// Decides requests.
///
/// ```text
/// receive            decide                  persist                    reply
/// bytes of a ──────▶ the open batch ───────▶ batches in flight ───────▶ one write for each
/// connection         entry and replies       in the order of the log    connection of the batch
/// ```
///
/// - D3  The outstanding requests of a connection are bounded, and so is the open batch, in number and in
///   bytes of replies. One request alone may exceed a bound of bytes. Where there is no room, bytes stay
///   where they are, and the connection is not read from: the sender's kernel makes it wait.
///
/// The other sentences are [Persister]'s. Lives on one event loop, the "decide" thread; nothing here is
/// synchronized. Connections may live on the same loop, or on others: Netty then carries bytes here and
/// replies there.
final class Decider {
    private static final Logger RECORDS = LoggerFactory.getLogger(Decider.class);

    /// Of so many transactions at most is one request of a sweep; others wait meanwhile.
    private static final int SWEPT_MAX = 1 << 12;

    /// A connection with this many bytes of outstanding replies, or more, waits.
    static final int OUTSTANDING_BYTES_MAX = 1 << 20;

    /// Rows of commits that count as a further request.
    private static final int ROWS_COUNTED = 64;

    private final EventLoop loop;
    private final ServerOptions options;
    private final StatusOracle oracle;
    private final Persister persister;
    private final Sessions sessions;
    private final Administration administration;
    private final Accounts accounts = new Accounts(System::nanoTime);
    private final Fault fault;

    private final Requests requests;
    /// Request that is being decided.
    private RequestReader request;
    /// Rows of its commits.
    private int rows;

    /// Commits of a batch.
    private final RequestReader[] commits = new RequestReader[CommitGroup.COUNT_MAX];
    private final CommitGroup group;

    private final Rows none = new Rows();
    private final Keys keys = new Keys();
    private final KeyRanges ranges = new KeyRanges();
    private final RequestReader.KeyListener keysAndRanges = new RequestReader.KeyListener() {
        @Override
        public void wrote(long table, byte[] bytes, int from, int length) {
            keys.add(table, bytes, from, length);
        }

        @Override
        public void scanned(long table, byte[] bytes, int from, int fromLength, int to, int toLength) {
            ranges.add(table, bytes, from, fromLength, to, toLength);
        }
    };

    /// Connections with input, but without room for the answers.
    private final ArrayDeque<Connection> waiting = new ArrayDeque<>();
    private boolean resumeIsScheduled;
    private final Runnable resume;
    /// Until the next rate has room; `null` if none is awaited.
    private Future<?> rateTimer;
    /// No request is decided any more.
    private boolean ending;

    /// A decider of an oracle whose decisions `persister` appends.
    Decider(
            EventLoop loop,
            ServerOptions options,
            StatusOracle oracle,
            Persister persister,
            Log.Kind log,
            Fault fault) {
        this.loop = loop;
        this.options = options;
        this.oracle = oracle;
        this.persister = persister;
        this.fault = fault;
        sessions = new Sessions(oracle);
        administration = new Administration(oracle, sessions, persister, log, options.sessionTimeout());
        requests = new Requests(oracle, options.rowsMax());
        group = new CommitGroup(oracle);
        Arrays.setAll(commits, each -> new RequestReader(options.rowsMax()));
        resume = () -> persister.guard(this::resume);
    }

    /// The log was replayed: requests may come.
    void begin() {
        if (fault != Fault.KEEPS_RECOVERED) {
            sessions.begin();
        }
        persister.begin(() -> {
            if (!waiting.isEmpty() || accounts.hasHeld()) {
                scheduleResume();
            }
        });
        if (oracle.identity() == 0) {
            // A new log that no command has initialised, or one of a version without identities.
            oracle.identify(Identities.draw());
        }
    }

    // ---- receive ----------------------------------------------------------------------------------------------------

    /// Registers a new connection.
    void opened(Connection connection) {
        if (!connection.finished) {
            sessions.opened(connection);
        }
    }

    /// Bytes have arrived. The buffer is the decider's from now on.
    void receive(Connection connection, ByteBuf bytes) {
        try {
            if (!isEnding() && !connection.finished) {
                connection.input.add(bytes);
                if (!connection.waiting) {
                    decideInput(connection);
                }
            }
        } catch (RuntimeException | Error broken) {
            persister.fail(broken);
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
        if (fault != Fault.KEEPS_CUT_CONNECTIONS) {
            accounts.leave(connection);
        }
        persister.backup().closed(connection);
        sessions.closed(connection);
    }

    private boolean isEnding() {
        return ending || persister.isStopped();
    }

    private boolean mayDecide(Connection connection) {
        return connection.outstanding < options.outstandingMax()
                && connection.outstandingBytes() < OUTSTANDING_BYTES_MAX
                && connection.channel.isWritable()
                && persister.hasRoom();
    }

    private void hold(Connection connection) {
        connection.waiting = true;
        connection.requestReading();
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
            goOn(connection);
        }
        long nanos = accounts.resume(this::goOn);
        if (rateTimer != null) {
            rateTimer.cancel(false);
        }
        rateTimer = nanos == 0 ? null : loop.schedule(resume, nanos, TimeUnit.NANOSECONDS);
    }

    private void goOn(Connection connection) {
        connection.waiting = false;
        decideInput(connection);
        if (!connection.waiting) {
            connection.requestReading();
        }
    }

    // ---- decide -----------------------------------------------------------------------------------------------------

    private void decideInput(Connection connection) {
        int before = connection.input.length();
        decide(connection);
        accounts.settle(connection, connection.input.length() < before);
    }

    private void decide(Connection connection) {
        assert loop.inEventLoop() : "only the decide thread decides";
        requests.clear();
        while (!connection.finished && !isEnding()) {
            if (!mayDecide(connection)) {
                waiting.add(connection);
                hold(connection);
                return;
            }
            if (accounts.holds(connection)) {
                hold(connection);
                scheduleResume(); // it finds out when a rate has room
                return;
            }
            try {
                int length = requests.next(connection.input);
                if (length == 0) {
                    return;
                }
                request = requests.reader();
                rows = 0;
                answer(connection);
                accounts.decided(connection, requestCount());
                connection.input.skip(length);
            } catch (ProtocolException refused) {
                request = requests.reader();
                accounts.decided(connection, 1);
                if (refused.isFatal() || connection.session == null) {
                    refuse(connection, request.id(), refused.code(), refused.getMessage());
                } else {
                    error(connection, refused.code(), refused.getMessage());
                    connection.input.skip(refused.skip());
                }
            }
        }
        connection.input.clear();
    }

    /// A request counts as one for each transaction that it names, and as one more for each so many rows.
    private int requestCount() {
        if (fault == Fault.COUNTS_FRAMES) {
            return 1;
        }
        int transactions =
                switch (request.kind()) {
                    case Protocol.BATCH -> request.commits() + request.starts() + request.begins();
                    case Protocol.STATUS, Protocol.CLEANED, Protocol.ANNOUNCE -> request.starts();
                    default -> 1;
                };
        return Math.max(1, transactions) + rows / ROWS_COUNTED;
    }

    private void answer(Connection connection) {
        byte kind = request.kind();
        Session session = connection.session;
        if (kind == Protocol.HELLO || kind == Protocol.AUTHENTICATE || session == null) {
            hello(connection);
            return;
        }
        session.silentTicks = 0;
        if (!connection.role.permits(kind, request.flags())) {
            error(connection, ErrorCode.FORBIDDEN, forbidden(connection, Role.needed(kind, request.flags())));
            return;
        }
        switch (kind) {
            case Protocol.BEGIN -> beginTransaction(connection);
            case Protocol.COMMIT -> commit(connection);
            case Protocol.BATCH -> batch(connection);
            case Protocol.END -> end(connection);
            case Protocol.ABORT -> abort(connection);
            case Protocol.RESOLVE -> resolve(connection);
            case Protocol.STATUS -> status(connection);
            case Protocol.CLEANED -> cleaned(connection);
            case Protocol.NAMESPACE -> use(connection);
            case Protocol.SWEPT -> swept(connection);
            case Protocol.ANNOUNCE -> announce(connection);
            case Protocol.LOW_WATER -> value(connection, oracle.prune());
            case Protocol.PING -> done(connection);
            case Protocol.ADMIN -> administer(connection);
            case Protocol.CLOSE -> {
                done(connection);
                finish(connection);
                sessions.expire(session);
            }
            default -> throw new AssertionError("a request of kind " + kind + " passed the reader");
        }
    }

    private static String forbidden(Connection connection, Role needed) {
        return "the role of " + connection.name + " does not permit that: it takes the role "
                + needed.name().toLowerCase(Locale.ROOT);
    }

    private void beginTransaction(Connection connection) {
        value(connection, oracle.begin(connection.session.number));
        if (fault == Fault.STARTS_BEFORE_THE_LOG) {
            connection.channel.writeAndFlush(Buffers.take(connection.replies, connection.channel));
        }
    }

    private void commit(Connection connection) {
        if (isGivenOut(connection, request.start())) {
            value(connection, commit(connection, request, requests.writes(), requests.reads()));
        }
    }

    /// Decides a commit; returns the outcome.
    private long commit(Connection connection, RequestReader commit, Rows writes, Rows reads) {
        long start = commit.start();
        if (fault == Fault.RESENT_COMMITS_CONFLICT && oracle.status(start) > 0) {
            return Protocol.ABORTED;
        }
        rows += commit.writes() + commit.reads();
        readKeys(commit);
        if (commit.writes() > 0 && !connection.session.hasNamespace) {
            oracle.use(StatusOracle.UNNAMED);
        }
        return outcome(connection, start, oracle.commit(start, writes, reads, keys, ranges));
    }

    private void end(Connection connection) {
        if (isGivenOut(connection, request.start())) {
            value(connection, end(connection, request.start()));
        }
    }

    private long end(Connection connection, long start) {
        if (fault == Fault.COMMITS_PRUNED_READERS && oracle.status(start) == StatusOracle.UNKNOWN) {
            return start;
        }
        return outcome(connection, start, oracle.commit(start, none, none));
    }

    /// Decides all of a batch, or refuses it. Transactions begin last: they see what the batch commits.
    private void batch(Connection connection) {
        if (!isGivenOut(connection, request.newest())) {
            return;
        }
        int begins = request.begins();
        int abortsFrom = request.ends();
        int cleanedFrom = abortsFrom + request.aborts();
        int decided = request.commits() + cleanedFrom;
        int values = connection.replies.values(Protocol.BATCH, request.id(), decided + (begins > 0 ? 1 : 0));
        int index = commits(connection, values);
        for (int at = 0; at < cleanedFrom; at++) {
            long start = request.start(at);
            long outcome = at < abortsFrom ? end(connection, start) : outcome(connection, start, oracle.abort(start));
            connection.replies.putValue(values, index++, outcome);
        }
        for (int at = cleanedFrom; at < request.starts(); at++) {
            oracle.cleaned(request.start(at));
        }
        if (begins > 0) {
            connection.replies.putValue(values, index, oracle.begin(connection.session.number));
            for (int more = 1; more < begins; more++) {
                oracle.begin(connection.session.number);
            }
        }
        persister.replied(connection, Math.max(1, decided + begins));
        if (begins > 0 && fault == Fault.STARTS_BEFORE_THE_LOG) {
            connection.channel.writeAndFlush(Buffers.take(connection.replies, connection.channel));
        }
    }

    /// Decides the commits of a batch; returns their number.
    private int commits(Connection connection, int values) {
        int count = request.commits();
        int index = 0;
        while (index < count) {
            int size = Math.min(count - index, CommitGroup.COUNT_MAX);
            for (int which = 0; which < size; which++) {
                request.nextCommit(commits[which]);
                group.expect(which, commits[which]);
            }
            for (int which = 0; which < size; which++) {
                persister.makeRoom();
                long outcome = commit(connection, commits[which], group.writes(which), group.reads(which));
                connection.replies.putValue(values, index++, outcome);
            }
        }
        return count;
    }

    private void abort(Connection connection) {
        if (isGivenOut(connection, request.start())) {
            outcome(connection, oracle.abort(request.start()));
        }
    }

    private void resolve(Connection connection) {
        if (isGivenOut(connection, request.start())) {
            outcome(connection, oracle.resolve(request.start()));
        }
    }

    private void use(Connection connection) {
        Session session = connection.session;
        long namespace = request.namespace();
        if ((request.flags() & Protocol.FLAG_RETIRED) != 0) {
            oracle.retire(namespace);
            done(connection);
            return;
        }
        boolean isVolatile =
                (request.flags() & Protocol.FLAG_VOLATILE) != 0 && fault != Fault.KEEPS_VOLATILE_NAMESPACES;
        boolean isUsed = fault == Fault.FORGETS_NAMESPACES
                || (isVolatile
                        ? session.volatileNamespaces.contains(namespace) || oracle.useWhileOpen(namespace)
                        : oracle.use(namespace));
        if (!isUsed) {
            error(
                    connection,
                    ErrorCode.NAMESPACES,
                    "cannot register another namespace: the oracle has the maximum of " + StatusOracle.NAMESPACES_MAX);
            return;
        }
        if (isVolatile && fault != Fault.FORGETS_NAMESPACES) {
            session.volatileNamespaces.add(namespace);
        }
        session.hasNamespace = true;
        done(connection);
    }

    private void done(Connection connection) {
        connection.replies.done(request.kind(), request.id());
        persister.replied(connection);
    }

    /// Looks a timestamp up that a client claims to know. A transaction that never began cannot be asked
    /// about: nothing that is said of it now would hold when it begins.
    private boolean isGivenOut(Connection connection, long timestamp) {
        if (timestamp <= oracle.newest()) {
            return true;
        }
        error(connection, ErrorCode.TIMESTAMP, "invalid timestamp " + timestamp + ": the oracle has not issued it yet");
        return false;
    }

    /// Registers a namespace. Returns `false`, and refuses the request, if there are too many.
    private boolean areGivenOut(Connection connection) {
        for (int index = 0; index < request.starts(); index++) {
            if (!isGivenOut(connection, request.start(index))) {
                return false;
            }
        }
        return true;
    }

    private void readKeys(RequestReader commit) {
        keys.clear();
        ranges.clear();
        if (commit.hasKeys()) {
            commit.tellKeys(keysAndRanges);
        }
    }

    private void status(Connection connection) {
        if (!isGivenOut(connection, request.reader()) || !areGivenOut(connection)) {
            return;
        }
        int count = request.starts();
        int values = connection.replies.values(Protocol.STATUS, request.id(), count);
        for (int index = 0; index < count; index++) {
            long start = request.start(index);
            connection.replies.putValue(values, index, outcome(connection, start, oracle.status(start)));
        }
        persister.replied(connection);
    }

    private void cleaned(Connection connection) {
        if (!areGivenOut(connection)) {
            return;
        }
        long forgotten = 0;
        for (int index = 0; index < request.starts(); index++) {
            forgotten += oracle.cleaned(request.start(index)) ? 1 : 0;
        }
        value(connection, forgotten);
    }

    private void swept(Connection connection) {
        if (!isGivenOut(connection, request.mark())) {
            return;
        }
        StatusOracle.Swept part = oracle.swept(request.sweptNamespace(), request.mark(), request.from(), SWEPT_MAX);
        connection.replies.sweptReply(request.id(), part.forgotten(), part.next() <= request.mark() ? part.next() : 0);
        persister.replied(connection);
    }

    private void outcome(Connection connection, long outcome) {
        value(connection, outcome(connection, request.start(), outcome));
    }

    /// Returns the protocol's number of the oracle's outcome of a transaction. It is the same, except that
    /// it states the reason of an abort to clients that know of reasons, unlike those of version 1.
    private long outcome(Connection connection, long start, long outcome) {
        if (outcome != StatusOracle.ABORTED || connection.version < Protocol.VERSION_REASONS) {
            return outcome;
        }
        return switch (oracle.abortReason(start)) {
            case null -> Protocol.ABORTED;
            case CONFLICT -> Protocol.ABORTED_CONFLICT;
            case FORGOTTEN -> Protocol.ABORTED_FORGOTTEN;
            case SCAN -> Protocol.ABORTED_SCAN;
            case RESOLVED -> Protocol.ABORTED_RESOLVED;
            case EXPIRED -> Protocol.ABORTED_EXPIRED;
        };
    }

    private void value(Connection connection, long value) {
        connection.replies.value(request.kind(), request.id(), value);
        persister.replied(connection);
    }

    private void error(Connection connection, ErrorCode code, String text) {
        connection.replies.error(request.id(), 0, code, text);
        persister.refused();
        persister.replied(connection);
    }

    /// Refuses the connection itself: behind this reply it is closed.
    private void refuse(Connection connection, long id, ErrorCode code, String text) {
        if (connection.finished) {
            return;
        }
        connection.replies.error(id, Protocol.FLAG_CLOSING, code, text);
        persister.refused();
        persister.replied(connection);
        finish(connection);
    }

    private void finish(Connection connection) {
        connection.finished = true;
        connection.closing = true;
        sessions.finished(connection);
    }

    /// Refuses a connection whose replies need not arrive any more. It is closed also if its client reads none of
    /// them.
    private void cut(Connection connection, ErrorCode code, String text) {
        if (connection.finished) {
            connection.channel.close();
        } else {
            connection.cutsOff = true;
            refuse(connection, 0, code, text);
        }
    }

    /// The credentials by which its client has authenticated itself are no longer valid.
    void revoked(Connection connection, String why) {
        if (!isEnding()) {
            cut(connection, ErrorCode.HELLO, why);
        }
    }

    // ---- sessions ---------------------------------------------------------------------------------------------------

    private void hello(Connection connection) {
        if (connection.session != null || request.kind() != Protocol.HELLO) {
            refuse(connection, request.id(), ErrorCode.HELLO, "a connection begins with one hello");
            return;
        }
        connection.name = Authentication.name(connection.channel);
        if (connection.name.isEmpty() && options.needsNames()) {
            String text = "the client has not authenticated itself: configure a certificate, a token or Kerberos";
            refuse(connection, request.id(), ErrorCode.AUTHENTICATION, text);
            return;
        }
        connection.role = options.roles().of(connection.name);
        if (connection.role == null) {
            String text = "the oracle has no role for " + connection.name + ": add one to its --roles";
            refuse(connection, request.id(), ErrorCode.FORBIDDEN, text);
            return;
        }
        boolean isOther = request.identity() != Protocol.IDENTITY_NONE && request.identity() != oracle.identity();
        if (isOther && fault != Fault.SERVES_OTHERS) {
            refuse(connection, request.id(), ErrorCode.OTHER_ORACLE, otherOracle(request.identity()));
            return;
        }
        if (isOfEarlierGeneration()) {
            refuse(connection, request.id(), ErrorCode.RESTORED, earlierGeneration());
            return;
        }
        Session known = sessions.get(request.session());
        if (known != null && !known.client.equals(connection.name)) {
            String text = "the session belongs to another client than " + connection.name;
            refuse(connection, request.id(), ErrorCode.FORBIDDEN, text);
            return;
        }
        Connection replaced = known == null ? null : known.connection;
        Limits limits =
                fault == Fault.IGNORES_LIMITS ? Limits.NONE : options.roles().limits(connection.name);
        Limits.Kind exhausted = accounts.enter(connection, connection.name, limits, replaced);
        if (exhausted != null) {
            String what = exhausted == Limits.Kind.RATE ? "hellos a second" : "connections";
            String text =
                    connection.name + " has as many " + what + " as the limits in --roles permit: try again later";
            refuse(connection, request.id(), ErrorCode.LIMIT, text);
            return;
        }
        Connection before = sessions.hello(request.session(), connection);
        if (before != null) {
            cut(before, ErrorCode.TAKEN_OVER, "another connection has taken over the session");
            accounts.leave(before);
        }
        connection.version = request.version();
        connection.replies.welcome(
                request.id(),
                connection.version,
                (int) options.sessionTimeout().toMillis(),
                options.rowsMax(),
                options.outstandingMax(),
                oracle.identity(),
                oracle.generation());
        persister.replied(connection);
    }

    /// Whether the client has lived through a restore (O6i). Clients of versions without generations do not say.
    private boolean isOfEarlierGeneration() {
        return request.generation() != Protocol.IDENTITY_NONE && request.generation() != oracle.generation();
    }

    private String earlierGeneration() {
        HexFormat hex = HexFormat.of();
        return "the oracle " + hex.toHexDigits(oracle.identity()) + " was restored from a backup: the client knows its "
                + "generation " + hex.toHexDigits(request.generation()) + ", and this server serves the generation "
                + hex.toHexDigits(oracle.generation())
                + "; what the client knows of transactions may not hold any more: open another one";
    }

    private String otherOracle(long known) {
        HexFormat hex = HexFormat.of();
        return "this is another oracle: the client knows the oracle " + hex.toHexDigits(known)
                + ", and this server serves the oracle " + hex.toHexDigits(oracle.identity())
                + "; the address leads to another log, or the log was replaced";
    }

    private void announce(Connection connection) {
        if (!areGivenOut(connection)) {
            return;
        }
        int count = request.starts();
        int values = connection.replies.values(Protocol.ANNOUNCE, request.id(), count);
        for (int index = 0; index < count; index++) {
            long start = request.start(index);
            long outcome = sessions.announce(connection.session, start);
            connection.replies.putValue(values, index, outcome(connection, start, outcome));
        }
        persister.replied(connection);
        if ((request.flags() & Protocol.FLAG_LAST) != 0 && fault != Fault.KEEPS_UNANNOUNCED) {
            sessions.announcedAll(connection.session);
        }
    }

    private void administer(Connection connection) {
        AdminKind kind = request.adminKind();
        long from = request.adminFrom();
        if (kind == AdminKind.END_SESSION) {
            endSession(connection, from);
        } else {
            administration.page(connection, request.id(), kind, from);
        }
    }

    /// Ends a session on behalf of an administrator, as silence does (O8d).
    private void endSession(Connection connection, long token) {
        Session session = sessions.get(token);
        if (session == null) {
            administration.ended(connection, request.id(), false, 0);
            return;
        }
        Connection ofSession = session.connection;
        administration.ended(connection, request.id(), true, sessions.expire(session));
        if (ofSession == connection) {
            finish(connection);
        } else if (ofSession != null) {
            refuse(
                    ofSession,
                    0,
                    ErrorCode.EXPIRED,
                    "an administrator has ended the session; its open transactions have aborted");
        }
        RECORDS.atWarn()
                .addKeyValue("session", HexFormat.of().toHexDigits(token))
                .log("an administrator has ended a session");
    }

    /// A part of the time-out of sessions has passed.
    void tick() {
        persister.guard(this::age);
    }

    private void age() {
        if (isEnding() || persister.isFull() || fault == Fault.KEEPS_SILENT) {
            return; // no request can be taken, so silence means nothing
        }
        accounts.forgetUnused();
        String time = options.sessionTimeout().toMillis() + " ms";
        sessions.age(silent -> refuse(
                silent,
                0,
                ErrorCode.EXPIRED,
                "the session has expired, because its client was silent for " + time
                        + "; its open transactions have aborted"));
        persister.scheduleClose();
    }

    /// Counts a tick of the hello timeout.
    void helloTick() {
        persister.guard(this::ageAwaited);
    }

    private void ageAwaited() {
        if (isEnding() || persister.isFull()) {
            return; // as above
        }
        String text =
                "the client has sent no hello for " + options.helloTimeout().toMillis() + " ms";
        sessions.ageAwaited(late -> {
            if (late.finished) {
                late.channel.close(); // its client does not read the replies in front of the last one
            } else {
                refuse(late, 0, ErrorCode.HELLO, text);
            }
        });
    }

    // ---- the end ----------------------------------------------------------------------------------------------------

    /// Decides nothing more, and has appended what was decided; then the log may be closed.
    void flush() {
        ending = true;
        persister.flush();
    }

    /// Returns the number of connections that are [Connection#waiting].
    int waiting() {
        return waiting.size();
    }

    /// The numbers of this moment.
    Reading reading() {
        return Reading.of(oracle, sessions, persister, accounts);
    }

    /// Returns the number of identities that use something of their limits, or may not use all at once.
    int accounts() {
        accounts.forgetUnused();
        return accounts.count();
    }

    /// Returns what a function makes of the oracle and its sessions.
    <T> T inspect(BiFunction<StatusOracle, Sessions, T> function) {
        return function.apply(oracle, sessions);
    }

    /// Runs something on the decide thread. **Threads:** any may call.
    CompletableFuture<Void> run(Runnable work) {
        return CompletableFuture.runAsync(work, loop);
    }
}
