package cedrat.oracle.state;

import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;

/// The transaction status oracle (ReTSO, Algorithms 1 to 4): gives out timestamps, decides commits, and
/// remembers outcomes.
///
/// A *transaction* is named by its start timestamp. It reads the rows that were committed below it, and may
/// commit if no row that it writes was committed since. Start and commit timestamps come from one sequence:
/// 1, 2, 3, …
///
/// - S1  A transaction has one outcome: every request for it, by whatever call, gets the same answer until
///   the transaction is forgotten.
/// - S2  A transaction aborts only by a decision that [Decisions] receives: for a conflict, for a row that
///   may have been forgotten (T_max), at its client's request, or because another client resolves it
///   ([#resolve]).
/// - S3  Two transactions that both commit, and whose lifetimes overlap, have no row in common. No row that
///   a transaction has reported as read, and no key in a range that it has reported as scanned, was committed
///   between its start and its commit.
/// - S4  A commit timestamp is above every start timestamp that was given out before the decision; so an open
///   transaction has not committed for any present reader.
/// - S5  The same calls in the same order lead to the same answers and decisions; the decisions alone,
///   replayed, lead to the same state, but for sessions, reasons of aborts, and what [#swept] has forgotten.
///
/// It knows no clock, no network and no disk, and allocates nothing for a request except the end of a
/// session and a sweep. For one thread at a time.
public final class StatusOracle {
    /// Answer: the transaction has aborted.
    public static final long ABORTED = -1;

    /// Answer: nothing is known of the transaction. It never began, or has ended and was cleaned up.
    public static final long UNKNOWN = -2;

    /// Answer: the transaction is open.
    public static final long OPEN = -3;

    /// The namespace of clients that name none.
    public static final long UNNAMED = 0;

    /// Maximum number of namespaces besides [#UNNAMED].
    public static final int NAMESPACES_MAX = 1024;

    /// The session of transactions that were open when the oracle was recovered.
    public static final int NO_SESSION = 0;

    /// Answer to a reader about a version's writer (Algorithm 4).
    public enum Visibility {
        /// It committed before the reader began.
        TRUE,
        /// It did not.
        FALSE,
        /// It was cleaned up meanwhile: the row, read again, tells.
        RETRY
    }

    /// Approximate size of an entry of `leftAt`.
    private static final int LEFT_BYTES = 96;

    /// With so many ended sessions, and each time that they have doubled since, those that have left nothing
    /// are forgotten.
    private static final int LEFT_MIN = 1 << 10;

    private static final Keys NO_KEYS = new Keys();
    private static final KeyRanges NO_RANGES = new KeyRanges();

    private final ConflictMap rows;
    private final KeyHistory keys;
    private Transactions transactions;
    private final Transactions.Spilling spilling;
    private final Decisions decisions;
    private final Fault fault;
    private final SweptOutcomes swept = new SweptOutcomes();

    private long begun;
    private long committed;
    private long ended;
    private final long[] aborts = new long[AbortReason.values().length];

    private final Identity identity = new Identity();
    private long newest;
    /// Snapshots of transactions with start timestamps up to this one may have been pruned.
    private long prunedUpTo;
    private final Namespaces namespaces = new Namespaces();
    /// For each session that is over, the newest timestamp at its end.
    private final Map<Integer, Long> leftAt = new HashMap<>();
    /// With more of them, those that have left nothing are searched for.
    private int leftMax = LEFT_MIN;
    /// Mark of the newest sweep whose parts have arrived without a gap from the first on. `sweepNext` is
    /// the start of its next part.
    private long sweepMark;
    private long sweepNext;
    private long sweepSince;
    /// While a snapshot is read: nothing is known yet of transactions that began from `unknownFrom` up to
    /// `unknownTo`.
    private long unknownFrom = 1;
    private long unknownTo;

    /// An oracle that has given out no timestamp. It keeps the newest 15/16 of `2^rowsLog2` committed rows in
    /// memory; and of tables whose scans are checked a quarter as many keys, or 2^16.
    public StatusOracle(int rowsLog2, Decisions decisions) {
        this(rowsLog2, decisions, Transactions.Spilling.never(), Fault.NONE);
    }

    /// The same. What became of transactions is kept in memory as far as that takes no more than
    /// `outcomeBytesMax`, about, and otherwise in the store, which is empty. That changes no answer.
    public StatusOracle(int rowsLog2, Decisions decisions, long outcomeBytesMax, PageStore store) {
        this(rowsLog2, decisions, Transactions.Spilling.past(outcomeBytesMax, store), Fault.NONE);
    }

    StatusOracle(int rowsLog2, Decisions decisions, Transactions.Spilling spilling, Fault fault) {
        this.rows = new ConflictMap(rowsLog2);
        this.keys = new KeyHistory(KeyHistory.capacity(rowsLog2), rows.next());
        this.transactions = new Transactions(1, spilling);
        this.spilling = spilling;
        this.decisions = Objects.requireNonNull(decisions);
        this.fault = fault;
    }

    // ---- requests ----

    /// Begins a transaction; returns its start timestamp.
    public long begin(int session) {
        newest++;
        begun++;
        transactions.begin(newest, session, rows.next());
        return newest;
    }

    /// Says that a commit with these rows is going to be asked for soon. Who has several requests at hand
    /// says so of all before it asks for the first: what they need is brought into the cache together, which
    /// takes less time than one after the other. It changes no answer.
    public void expect(Rows wanted) {
        rows.expect(wanted);
    }

    /// Commits a transaction that has written these rows and, if it is to be serialisable, has read those;
    /// under snapshot isolation `reads` is empty. Returns the commit timestamp, [#ABORTED] or [#UNKNOWN].
    ///
    /// A transaction that wrote nothing needs no outcome: it ends, and its commit timestamp is its start
    /// timestamp. The answer is [#ABORTED] if it had ended before, and its snapshot may have been pruned
    /// since: its session may have expired, and its reads may have missed pruned versions.
    public long commit(long start, Rows writes, Rows reads) {
        return commit(start, writes, reads, NO_KEYS, NO_RANGES);
    }

    /// The same of a transaction that has written these keys, of tables whose scans are checked, and has read
    /// all that is in these ranges of such tables, if it is to be serialisable.
    ///
    /// It aborts if a key in such a range was written since: also one that was not there before, a phantom.
    public long commit(long start, Rows writes, Rows reads, Keys written, KeyRanges scanned) {
        long state = transactions.state(start);
        if (!Transactions.isOpen(state)) {
            state = decided(start, state);
            boolean wroteNothing = state == Transactions.NOTHING && writes.count() == 0 && isGivenOut(start);
            if (wroteNothing) {
                boolean mayHaveGaps = start <= prunedUpTo && fault != Fault.END_AFTER_PRUNING;
                return mayHaveGaps ? ABORTED : start;
            }
            return outcome(state);
        }
        if (writes.count() == 0) {
            ended++;
            transactions.end(start);
            decisions.ended(start);
            return start;
        }
        long position = Transactions.positionAtStart(state);
        // What is written is looked for last: it is going to be put.
        AbortReason reason = conflict(scanned, position);
        reason = reason == null ? conflict(reads, position) : reason;
        reason = reason == null ? conflict(writes, position) : reason;
        if (reason != null) {
            abortOpen(start, reason);
            return ABORTED;
        }
        long commit = ++newest;
        committed++;
        if (fault != Fault.FORGET_KEYS) {
            keys.put(written, rows.next());
        }
        rows.put(writes, commit);
        if (fault != Fault.RESENT_COMMIT_CONFLICTS) {
            transactions.decide(start, commit);
        }
        decisions.committed(start, commit, writes);
        if (written.count() > 0) {
            decisions.wrote(written);
        }
        return commit;
    }

    /// Aborts a transaction because its client wants so. Returns its outcome: [#ABORTED], but the commit
    /// timestamp if it has committed; [#UNKNOWN].
    public long abort(long start) {
        return resolve(start);
    }

    /// Decides a transaction whose client may be dead, so that it is open no longer. Returns its outcome: the
    /// commit timestamp, or [#ABORTED]; [#UNKNOWN].
    public long resolve(long start) {
        long state = transactions.state(start);
        if (Transactions.isOpen(state)) {
            abortOpen(start, AbortReason.RESOLVED);
            return ABORTED;
        }
        return outcome(decided(start, state));
    }

    /// Returns the outcome of a transaction: the commit timestamp, [#OPEN], [#ABORTED] or [#UNKNOWN].
    public long status(long start) {
        long state = transactions.state(start);
        return Transactions.isOpen(state) ? OPEN : outcome(state);
    }

    /// Returns the reason of an abort; `null` if the transaction has not aborted, or aborted before the
    /// oracle was recovered: neither decisions nor snapshots keep the reason (S5 is about outcomes).
    public AbortReason abortReason(long start) {
        return Transactions.reason(decided(start, transactions.state(start)));
    }

    /// Whether the transaction that began at `writer` had committed when the one that began at `reader` did,
    /// which was given out (Algorithm 4).
    public Visibility isCommitted(long writer, long reader) {
        long state = transactions.state(writer);
        if (state == Transactions.NOTHING) {
            return Visibility.RETRY;
        }
        boolean before = !Transactions.isOpen(state) && state < reader; // what is aborted is larger than all
        return before ? Visibility.TRUE : Visibility.FALSE;
    }

    /// Forgets a transaction that its client has cleaned up: no reader will meet its rows and request its
    /// outcome. Returns whether it had an outcome; an open transaction stays open.
    public boolean cleaned(long start) {
        long state = transactions.state(start);
        if (state == Transactions.NOTHING || Transactions.isOpen(state)) {
            return false;
        }
        transactions.forget(start);
        decisions.forgotten(start);
        return true;
    }

    /// Ends an open transaction that has written nothing. Returns whether it was open.
    public boolean end(long start) {
        if (!Transactions.isOpen(transactions.state(start))) {
            return false;
        }
        ended++;
        transactions.end(start);
        decisions.ended(start);
        return true;
    }

    /// Ends a session, whose number is not used again. Its open transactions abort; those that have an
    /// outcome are left to the next sweep ([#swept]). Returns the number of transactions that have aborted.
    public int expire(int session) {
        int[] count = {0};
        transactions.forEachOpenOf(session, (start, state, owner) -> {
            abortOpen(start, AbortReason.EXPIRED);
            count[0]++;
        });
        leftAt.putIfAbsent(session, newest);
        forgetSessions();
        return count[0];
    }

    /// Forgets sessions that were over before anything that is still known began.
    private void forgetSessions() {
        if (leftAt.size() > leftMax) {
            long oldest = transactions.oldest();
            leftAt.values().removeIf(at -> at < oldest);
            leftMax = Math.max(LEFT_MIN, 2 * leftAt.size());
        }
    }

    /// Notes that the client of a session has connected again. Its open transactions are *unclaimed* until
    /// it claims them by [#adopt]: the replies to their begins may be lost.
    public void unclaim(int session) {
        transactions.forEachOpenOf(session, (start, state, owner) -> transactions.unclaim(start));
    }

    /// Aborts the unclaimed transactions of a session, whose client has claimed all that it knows. Returns
    /// their number.
    public int abortUnclaimed(int session) {
        int[] count = {0};
        transactions.forEachOpenOf(session, (start, state, owner) -> {
            if (transactions.isUnclaimed(start)) {
                abortOpen(start, AbortReason.EXPIRED);
                count[0]++;
            }
        });
        return count[0];
    }

    /// Result of a part of [#swept].
    ///
    /// @param forgotten number of transactions that were forgotten
    /// @param next start timestamp from which the next part continues; above the mark if this was the last part
    public record Swept(long forgotten, long next) {}

    /// Gives an oracle without identity one, which is not 0. It tells its timestamps from those of other oracles.
    public void identify(long drawn) {
        identity.set(drawn);
        decisions.identified(drawn);
    }

    /// Returns the identity; 0 before [#identify].
    public long identity() {
        return identity.get();
    }

    /// Begins a generation, with a number other than 0, before the first request of an oracle that has an identity.
    public void beginGeneration(long drawn) {
        identity.restore(drawn);
    }

    /// Returns the generation, which is the identity while the oracle was never restored; 0 before [#identify].
    public long generation() {
        return identity.generation();
    }

    /// Registers a namespace, a set of rows that are swept together. Its clients do so before they commit a
    /// row of it; a client that names none uses [#UNNAMED]. Returns `false`, and does nothing, if there are
    /// [#NAMESPACES_MAX] others.
    public boolean use(long namespace) {
        if (!namespaces.accepts(namespace)) {
            return false;
        }
        if (namespaces.use(namespace)) {
            decisions.used(namespace);
        }
        return true;
    }

    /// Registers a namespace whose rows end with the sessions that use it, once for each of these. No log keeps it:
    /// after a recovery its clients register it again. Returns `false` as [#use].
    public boolean useWhileOpen(long namespace) {
        if (!namespaces.accepts(namespace)) {
            return false;
        }
        namespaces.useWhileOpen(namespace);
        return true;
    }

    /// A session that has registered a namespace by [#useWhileOpen] is over.
    public void release(long namespace) {
        namespaces.release(namespace);
    }

    /// Forgets a namespace that has no rows any more, or none that needs an outcome: no sweep of it is awaited. Clients
    /// must not commit rows of it any more.
    public void retire(long namespace) {
        if (namespaces.retire(namespace)) {
            decisions.retired(namespace);
        }
    }

    /// Returns the number of namespaces.
    public int namespaces() {
        return namespaces.size();
    }

    /// Forgets transactions after a sweep. The sweep has visited all tables of a namespace, and has cleaned all rows of
    /// transactions that had ended. It began after `mark` was given out, and after the last moment at which a
    /// write of a session that had expired by then could arrive.
    ///
    /// A transaction may have rows in any namespace. So transactions of such sessions are forgotten only
    /// when all namespaces were swept since. One call forgets transactions that began from `from` up to
    /// `mark`, at most `countMax`, and takes bounded time.
    ///
    /// From then on readers receive [#UNKNOWN]. A client of such a session that returns still receives the
    /// outcome from [#commit], [#abort] or [#resolve], as long as it is among the last that were swept and
    /// the oracle was not recovered since.
    ///
    /// After [#replay] the oracle knows no sessions. Transactions then count from the expiry of [#NO_SESSION].
    public Swept swept(long namespace, long mark, long from, int countMax) {
        namespaces.swept(namespace, mark);
        long all = namespaces.lowestMark(mark);
        long since = fault == Fault.SWEEP_ONE_NAMESPACE ? mark : Math.min(mark, all);
        long[] count = {0};
        long next = transactions.forEach(from, mark, countMax, (start, state, session) -> {
            boolean isLeft = leftAt.getOrDefault(session, since) < since || fault == Fault.SWEEP_THE_LIVING;
            if (isLeft && !Transactions.isOpen(state)) {
                swept.put(start, state);
                transactions.forget(start);
                decisions.forgotten(start);
                count[0]++;
            }
        });
        boolean isContinued = from == 1 || mark == sweepMark && from == sweepNext && since == sweepSince;
        if (isContinued) {
            sweepMark = mark;
            sweepNext = next;
            sweepSince = since;
            if (next > mark) {
                // Nothing is left of sessions that were over before: all of their transactions began below it.
                leftAt.values().removeIf(at -> at < since);
            }
        }
        return new Swept(count[0], next);
    }

    /// Returns the low-water mark for a pruner, which may remove all versions that only older snapshots see.
    public long prune() {
        long mark = lowWaterMark();
        if (mark - 1 > prunedUpTo) {
            prunedUpTo = mark - 1;
            decisions.pruned(prunedUpTo);
        }
        return mark;
    }

    /// The session of a transaction that is open or has an outcome.
    public int session(long start) {
        return transactions.session(start);
    }

    /// Whether the session of a transaction that has an outcome is over.
    public boolean isLeft(long start) {
        return leftAt.containsKey(transactions.session(start));
    }

    /// Makes a transaction that is open or has an outcome one of another session: its client has come back,
    /// or the oracle was recovered.
    public void adopt(long start, int session) {
        transactions.adopt(start, session);
    }

    // ---- administrators ----

    /// Visits the open transactions that began at `from` or later in parts, the oldest first, at most `countMax`.
    /// Returns the start timestamp from which to go on, 0 after the last. A part may be empty: its work is bounded.
    public long forEachOpen(long from, int countMax, OpenVisitor visitor) {
        return transactions.forEachOpen(from, countMax, (start, state, session) -> visitor.visit(start, session));
    }

    /// Returns namespaces in ascending order, at most `countMax`, from this one on.
    public List<Namespace> namespaces(long from, int countMax) {
        return namespaces.from(from, countMax);
    }

    /// Returns the namespaces with the lowest marks, at most `countMax`: outcomes of sessions that ended after
    /// such a mark are kept, although other namespaces were swept since.
    public List<Namespace> leastSwept(int countMax) {
        return namespaces.leastSwept(countMax);
    }

    // ---- replay ----

    /// Returns the receiver of logged [Decisions], in their order, for a new oracle or one restored from a
    /// snapshot. Replayed decisions are not reported again. A decision that cannot follow the ones before is
    /// refused with an [IllegalArgumentException].
    public Decisions replay() {
        return new Replay();
    }

    /// Timestamps were given out up to this one: those without a decision began transactions.
    public void replayGivenOut(long upTo) {
        while (newest < upTo) {
            newest++;
            transactions.begin(newest, NO_SESSION, rows.next());
        }
    }

    private final class Replay implements Decisions {
        /// The position of the first row of the commit before; below 0 if there is none.
        private long committed = -1;

        @Override
        public void committed(long start, long commit, Rows writes) {
            replayGivenOut(commit - 1);
            check(newest < commit, start);
            newest = commit;
            rows.look(writes);
            committed = rows.next();
            rows.put(writes, commit);
            if (isKnown(start)) {
                check(Transactions.isOpen(transactions.state(start)), start);
                transactions.decide(start, commit);
            }
        }

        @Override
        public void wrote(Keys written) {
            check(committed >= 0, newest);
            keys.put(written, committed);
        }

        @Override
        public void aborted(long start) {
            replayGivenOut(start);
            if (isKnown(start)) {
                check(Transactions.isOpen(transactions.state(start)), start);
                transactions.decide(start, Transactions.ABORTED);
            }
        }

        @Override
        public void ended(long start) {
            replayGivenOut(start);
            if (isKnown(start)) {
                check(Transactions.isOpen(transactions.state(start)), start);
                transactions.end(start);
            }
        }

        @Override
        public void forgotten(long start) {
            if (isKnown(start)) {
                check(transactions.state(start) > 0, start);
                transactions.forget(start);
            }
        }

        @Override
        public void identified(long drawn) {
            identity.set(drawn);
        }

        @Override
        public void used(long namespace) {
            namespaces.add(namespace);
        }

        @Override
        public void retired(long namespace) {
            namespaces.remove(namespace);
        }

        @Override
        public void pruned(long upTo) {
            replayGivenOut(upTo);
            prunedUpTo = upTo;
        }

        /// Whether the transaction is replayed: decisions before a snapshot's part was written are in the part.
        private boolean isKnown(long start) {
            return start < unknownFrom || start > unknownTo;
        }

        private static void check(boolean holds, long start) {
            if (!holds) {
                throw new IllegalArgumentException(
                        "invalid decision on transaction " + start + " in its present state");
            }
        }
    }

    // ---- snapshots ----

    /// Reports the transactions that began from `from` up to `upTo` and are remembered, in this order, at most
    /// `countMax` of them. Returns the start timestamp from which to go on, `upTo + 1` after the last.
    ///
    /// All transactions up to some moment, reported in parts between which the oracle goes on deciding, are a
    /// *snapshot*. A part holds the states of its transactions at the time of the call. So later decisions
    /// on transactions of earlier parts must be kept beside the parts; decisions on transactions of later parts
    /// need not be. The rows of all commits since the first part must be kept.
    ///
    /// A part may be empty before the end: its time is bounded also where few of many transactions are
    /// remembered.
    public long tell(long from, long upTo, int countMax, Remembered to) {
        if (from == 1) {
            identity.tell(to);
            namespaces.lasting().forEach(to::used);
            if (prunedUpTo > 0) {
                to.pruned(prunedUpTo);
            }
        }
        long base = rows.first();
        return transactions.forEach(from, upTo, countMax, (start, state, session) -> {
            if (Transactions.isOpen(state)) {
                to.open(start, Transactions.positionAtStart(state) - base);
            } else if (Transactions.isAborted(state)) {
                to.aborted(start);
            } else {
                to.committed(new Lifetime(start, state));
            }
        });
    }

    /// Begins anew, from a snapshot that was begun when this oracle's [#newest], [#position] and
    /// [#newestCommit] had these values. The content of the snapshot's parts goes to the returned receiver, with
    /// [#restored] after each part. The decisions from the first part on go to [#replay], in the order of the
    /// log.
    ///
    /// No row is restored: all rows that were put before are forgotten. Once as many rows were put as are kept
    /// ([#window]), the state is the same as before, and T_max is what it was.
    public Remembered restore(long newest, long position, long newestCommit) {
        this.newest = newest;
        identity.clear();
        prunedUpTo = 0;
        namespaces.clear();
        transactions.clear();
        transactions = new Transactions(1, spilling);
        rows.restart(position, newestCommit);
        keys.restart(rows.next());
        unknownFrom = 1;
        unknownTo = newest;
        return new Restoring();
    }

    /// Marks all transactions that began below `end` as restored by the parts so far.
    public void restored(long end) {
        unknownFrom = end;
        transactions.continueAt(end);
    }

    private final class Restoring implements Remembered {
        @Override
        public void identified(long drawn) {
            identity.set(drawn);
        }

        @Override
        public void restored(long generation) {
            identity.restore(generation);
        }

        @Override
        public void used(long namespace) {
            namespaces.add(namespace);
        }

        @Override
        public void pruned(long upTo) {
            prunedUpTo = upTo;
        }

        @Override
        public void open(long start, long position) {
            transactions.restore(start, -(rows.first() + position));
        }

        @Override
        public void committed(Lifetime lifetime) {
            transactions.restore(lifetime.start(), lifetime.commit());
        }

        @Override
        public void aborted(long start) {
            transactions.restore(start, Transactions.ABORTED);
        }
    }

    // ---- figures ----

    /// The newest timestamp that was given out; 0 before the first.
    public long newest() {
        return newest;
    }

    /// Returns the number of rows that were committed, each time counted again.
    public long position() {
        return rows.next() - rows.first();
    }

    /// The newest commit timestamp; 0 before the first.
    public long newestCommit() {
        return rows.newestTimestamp();
    }

    /// T_max: no row that was forgotten was committed later. It may lie a little above the newest of them.
    public long forgottenTimestamp() {
        return rows.forgottenTimestamp();
    }

    /// No open transaction has a lower start timestamp, nor will one have that begins later.
    public long lowWaterMark() {
        return transactions.oldestOpen(newest + 1);
    }

    /// Open transactions.
    public long open() {
        return transactions.open();
    }

    /// Transactions that have aborted and were not cleaned up: the half-aborted list.
    public long halfAborted() {
        return transactions.aborted();
    }

    /// Transactions that have committed and were not cleaned up.
    public long halfCommitted() {
        return transactions.committed();
    }

    /// Returns the number of transactions that have begun since the replay.
    public long begun() {
        return begun;
    }

    /// Returns the number of transactions that have committed since the replay.
    public long committed() {
        return committed;
    }

    /// Returns the number of transactions that have ended since the replay without having written.
    public long ended() {
        return ended;
    }

    /// Returns the number of transactions that have aborted since the replay, for this reason.
    public long aborts(AbortReason reason) {
        return aborts[reason.ordinal()];
    }

    /// Returns the number of keys that are kept of tables whose scans are checked.
    public long keys() {
        return keys.count();
    }

    /// Returns the number of the newest committed rows that are kept.
    public long window() {
        return rows.window();
    }

    /// Transactions that have an outcome which is not in memory.
    public long spilledOutcomes() {
        return transactions.spilled().outcomes();
    }

    /// Returns the bytes of spilled outcomes in the store.
    public long spilledBytes() {
        return transactions.spilled().storedBytes();
    }

    /// Returns the number of reads from the store.
    public long spilledReads() {
        return transactions.spilled().reads();
    }

    /// The memory of what is remembered of transactions, in bytes.
    public long transactionBytes() {
        return transactions.bytes() + swept.bytes() + leftAt.size() * (long) LEFT_BYTES;
    }

    /// The memory of the rows, and of keys, in bytes.
    public long rowBytes() {
        return rows.bytes() + keys.bytes();
    }

    // ---- within ----

    private boolean isGivenOut(long timestamp) {
        return timestamp > 0 && timestamp <= newest;
    }

    /// Returns the state of a transaction that is not open, also if a sweep has forgotten it recently.
    private long decided(long start, long state) {
        return state == Transactions.NOTHING ? swept.state(start) : state;
    }

    private static long outcome(long state) {
        if (state == Transactions.NOTHING) {
            return UNKNOWN;
        }
        return Transactions.isAborted(state) ? ABORTED : state;
    }

    private void abortOpen(long start, AbortReason reason) {
        aborts[reason.ordinal()]++;
        if (fault == Fault.FORGET_ABORTED) {
            transactions.end(start);
        } else {
            transactions.decide(start, Transactions.aborted(reason));
        }
        decisions.aborted(start);
    }

    /// Whether one of these ranges was written since, or may have been and is forgotten. Keys are kept no
    /// longer than rows: so an oracle that was made from a snapshot decides as the one before it did.
    private AbortReason conflict(KeyRanges scanned, long since) {
        if (scanned.count() == 0) {
            return null;
        }
        boolean mayBeForgotten = rows.forgottenBefore() > since && fault != Fault.SKIP_T_MAX;
        return mayBeForgotten || keys.isWritten(scanned, since) ? AbortReason.SCAN : null;
    }

    /// Algorithm 3: whether one of these rows was committed since, or may have been and is forgotten; `null`
    /// if not.
    private AbortReason conflict(Rows wanted, long since) {
        if (wanted.count() == 0) {
            return null;
        }
        rows.look(wanted);
        if (rows.newestFound() >= since) {
            return AbortReason.CONFLICT;
        }
        boolean mayBeForgotten = rows.forgottenBefore() > since && fault != Fault.SKIP_T_MAX;
        return mayBeForgotten && rows.isOneAbsent() ? AbortReason.FORGOTTEN : null;
    }
}
