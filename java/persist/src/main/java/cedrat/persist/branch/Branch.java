package cedrat.persist.branch;

import cedrat.persist.DeadlockException;
import cedrat.persist.GraphStore;
import cedrat.persist.GraphStoreException;
import cedrat.persist.StoreException;
import cedrat.persist.record.BranchTransactions;
import cedrat.persist.record.Changes;
import cedrat.persist.record.Recorder;
import cedrat.persist.record.TransactionLevel;
import java.util.EnumSet;
import java.util.concurrent.TimeUnit;
import java.util.function.LongSupplier;
import javax.transaction.xa.XAException;

/// The part of a transaction over several stores that belongs to one of persistent objects (XA).
///
/// ```text
///           suspend, resume
///             ┌───────┐          prepare, or
///             ▼       │ end      commit in one phase
/// begin ──▶ Active ◀──┴──▶ Idle ──▶ Ending ──▶ Prepared ──commit, rollback──▶ Ended
///             │ ▲            │ │       └──stored in one phase, or rolled back───┤
///             │ └────join────┘ └──rollback──────────────────────────────────────┤
///             ├──end: too late, failed, a deadlock's victim──▶ Failed ─rollback─┤
///             │                                                  ▲              │
///             │                                 marked as failed │              │
///             └──rollback, or marked failed, while its thread    │              │
///                is in a nested transaction──▶ Given up ──its thread leaves─────┤
///                                                      InDoubt ─commit, rollback┘
/// ```
///
/// - Active    a thread has it: the transactions of that thread are nested in it
/// - Suspended none has it, and one takes it up by `resume`
/// - Idle      none has it; all that it has changed is in memory, and locked
/// - Ending    on the way from Idle to Prepared, or to the end in one phase: it may wait for locks, and its monitor
///             is not held meanwhile
/// - Prepared  that is on the disk as well, and stays locked in memory
/// - InDoubt   prepared in an earlier opening; what it has changed is not in memory
/// - Failed    it was rolled back, or will be, and the transaction manager gets that answer
/// - Given up  nothing of it will be stored; the thread that has it rolls it back when it leaves the outermost
///             transaction that is nested in it
///
/// Invariants:
///
/// - When a branch votes to commit, its prepare record is durable, and so is everything that it has read of
///   this store. The same holds when it votes that it has only read.
/// - From the vote to the outcome no other transaction changes what the branch has changed: in memory
///   because of its locks, in the store because of the locks of the branch there, which alone remain in
///   later openings.
/// - An outcome is durable in the store before memory shows it, and locks are released after that. If the
///   store cannot report its outcome, it has stopped, and memory and locks wait for the next opening.
/// - A transaction manager ends a branch on any thread, and need not notify the thread that has it. No
///   transaction of that thread is nested in a branch that has ended. If another thread rolled the branch
///   back, its own thread gets one exception, because its next changes may be meant to be part of it.
/// - If anything is thrown while a branch prepares or commits in one phase, the branch has ended once, and
///   the answer states its outcome.
/// - The store answers that it has no such branch only where that is known. After a refused outcome the
///   transaction manager may give the outcome again.
/// - A branch stays on its thread while any resource that has called `start` has not called `end`.
///
/// - While a branch waits for a lock to prepare or to commit in one phase, `recover` and `close` do not wait
///   for it, and a rollback ends the wait. After the wait its time limit is checked again.
///
/// **Threads:** any; its monitor is held over each call, but while a branch prepares or commits in one phase.
final class Branch {
    private enum State {
        ACTIVE,
        SUSPENDED,
        IDLE,
        ENDING,
        PREPARED,
        IN_DOUBT,
        FAILED,
        GIVEN_UP,
        ENDED
    }

    final BranchId id;
    private final Branches branches;
    private final BranchStore store;
    private final Recorder recorder;
    private final BranchTransactions transactions;
    private final LongSupplier nanos;
    private final long began;
    private final int timeoutSeconds;
    /// Of one that is in doubt.
    private final GraphStore.Changed changed;

    /// Changed under the monitor.
    private volatile State state;
    private TransactionLevel transaction;
    /// The thread that has it.
    private Thread thread;
    /// Number of resources of the store that have it on that thread, and number that have it suspended: a
    /// transaction manager calls `start` and `end` for each.
    private int joined;

    private int suspended;
    /// The prepared commit.
    private Changes prepared;
    /// Why it has failed.
    private XAException failure;
    /// The store has committed what was prepared, or is in doubt.
    private boolean isStored;
    /// Of one that is given up: the transaction manager will not ask for it again.
    private boolean isForgotten;
    /// Of one that is ending: the transaction manager rolls it back.
    private volatile boolean isUnwanted;
    /// Why it ended instead of being stored: it was too late.
    private XAException lateness;
    /// It was to prepare or to commit in one phase, and the store has nothing of it.
    private boolean isRolledBackAtEnd;

    /// One that begins.
    Branch(Branches branches, BranchId id, LongSupplier nanos, int timeoutSeconds) {
        this(branches, id, nanos, nanos.getAsLong(), timeoutSeconds, null, State.SUSPENDED);
    }

    /// One of an earlier opening.
    Branch(Branches branches, BranchId id, GraphStore.Changed changed) {
        this(branches, id, () -> 0, 0, 0, changed, State.IN_DOUBT);
    }

    private Branch(
            Branches branches,
            BranchId id,
            LongSupplier nanos,
            long began,
            int timeoutSeconds,
            GraphStore.Changed changed,
            State state) {
        this.branches = branches;
        this.id = id;
        this.nanos = nanos;
        this.began = began;
        this.timeoutSeconds = timeoutSeconds;
        this.changed = changed;
        this.state = state;
        store = branches.store;
        recorder = branches.recorder;
        transactions = recorder.branches;
    }

    /// Without waiting for anybody.
    boolean isInDoubt() {
        State now = state;
        return now == State.PREPARED || now == State.IN_DOUBT;
    }

    // ---- on a thread, and off it

    synchronized void begin() throws XAException {
        checkThread();
        try {
            store.check();
        } catch (RuntimeException e) {
            throw refused(e);
        }
        transaction = transactions.begin(this::checkBeforeStored);
        enterThread();
    }

    synchronized void join() throws XAException {
        if (isOnThisThread()) {
            joined++;
        } else {
            comeBack(State.IDLE);
        }
    }

    synchronized void resume() throws XAException {
        if (isOnThisThread() && suspended > 0) {
            joined++;
        } else {
            comeBack(State.SUSPENDED);
        }
        suspended--;
    }

    private boolean isOnThisThread() {
        return state == State.ACTIVE && thread == Thread.currentThread();
    }

    private void comeBack(State from) throws XAException {
        throwFailure();
        expect(from);
        checkThread();
        enterThread();
    }

    private void checkThread() throws XAException {
        if (recorder.transactions.isInTransaction()) {
            throw BranchResource.failure(
                    XAException.XAER_OUTSIDE,
                    "cannot start the branch " + id
                            + ", because this thread is in a transaction: end or detach it first",
                    null);
        }
        if (transactions.isOnThisThread()) {
            throw protocol(
                    "this thread is in another branch, of this or of another store of objects; end or suspend that "
                            + "first. Two stores of objects take part in a global transaction one after the other: "
                            + "enlistResource of the first, changes of its objects, delistResource with TMSUCCESS, then the "
                            + "second");
        }
    }

    private void enterThread() {
        transactions.enter(transaction);
        state = State.ACTIVE;
        thread = Thread.currentThread();
        joined = 1;
    }

    private void leaveThread() throws XAException {
        if (!transactions.leave(transaction)) {
            throw protocol("a transaction that is nested in it is open; end that first");
        }
        left();
    }

    /// As that, of one that is to be rolled back.
    ///
    /// @return false if its thread does so, because it is in a transaction that is nested in it
    private boolean giveUp() {
        if (!transactions.giveUp(transaction, this::rolledBackByItsThread)) {
            state = State.GIVEN_UP;
            return false;
        }
        left();
        return true;
    }

    private synchronized void rolledBackByItsThread() {
        thread = null;
        state = State.FAILED;
        failure = hasFailed();
        if (isForgotten) {
            ended();
        }
    }

    private XAException hasFailed() {
        return BranchResource.failure(
                XAException.XA_RBROLLBACK, "the branch " + id + " has failed: roll it back", null);
    }

    private void left() {
        thread = null;
        if (transaction.top.isDoomed) {
            fail(BranchResource.failure(
                    XAException.XA_RBDEADLOCK, "the branch " + id + " was rolled back to end a deadlock", null));
        }
    }

    synchronized void suspend() throws XAException {
        throwFailure();
        expect(State.ACTIVE);
        if (thread != Thread.currentThread()) {
            throw protocol("it is on another thread; call from that thread");
        }
        if (joined > 1) {
            joined--;
        } else {
            leaveThread();
            throwFailure();
            state = State.SUSPENDED;
        }
        suspended++;
    }

    synchronized void end(boolean fails) throws XAException {
        throwFailure();
        expect(State.ACTIVE, State.SUSPENDED, State.GIVEN_UP);
        if (state == State.GIVEN_UP) {
            throw hasFailed();
        }
        if (!fails && isLeftToOthers()) {
            return;
        }
        if (state == State.ACTIVE) {
            if (!fails) {
                leaveThread();
            } else if (!giveUp()) {
                return;
            }
        }
        throwFailure();
        if (!fails && state == State.ACTIVE && suspended > 0) {
            state = State.SUSPENDED;
            return;
        }
        suspended = 0;
        state = State.IDLE;
        failIfTooLate();
        throwFailure();
        if (fails) {
            // The transaction manager knows it.
            fail(hasFailed());
        }
    }

    /// One resource of several ends the branch.
    private boolean isLeftToOthers() {
        if (state == State.ACTIVE && joined > 1) {
            joined--;
            return true;
        }
        if (state == State.SUSPENDED && suspended > 1) {
            suspended--;
            return true;
        }
        return false;
    }

    // ---- the outcome

    /// @return whether it waits for its outcome; otherwise it has only read
    boolean prepare() throws XAException {
        beginEnding(false);
        Changes changes;
        try {
            changes = transactions.prepare(transaction, store, id.stored());
        } catch (RuntimeException | Error e) {
            throw rolledBack(e);
        }
        return hasPrepared(changes);
    }

    private synchronized boolean hasPrepared(Changes changes) {
        if (changes == null) {
            ended();
            return false;
        }
        prepared = changes;
        state = State.PREPARED;
        notifyAll();
        return true;
    }

    void commitOnePhase() throws XAException {
        beginEnding(true);
        try {
            transactions.commit(transaction, store);
        } catch (RuntimeException | Error e) {
            throw rolledBack(e);
        }
        ended();
    }

    private synchronized void beginEnding(boolean inOnePhase) throws XAException {
        failIfTooLate();
        throwFailureAndEnd();
        if (inOnePhase && isInDoubt()) {
            throw protocol("it is prepared; commit it in two phases");
        }
        expect(State.IDLE);
        state = State.ENDING;
    }

    /// All is locked that is to be stored, and that may have taken long.
    ///
    /// @throws StoreException if it is not to be stored
    private void checkBeforeStored() {
        if (isUnwanted) {
            throw new StoreException(
                    "the transaction manager is rolling back the branch " + id + ": begin another global transaction");
        }
        if (isTooLate()) {
            lateness = lateness();
            throw new StoreException(lateness.getMessage());
        }
    }

    /// Lets the thread that prepares it or commits it in one phase finish, without waiting for locks.
    private void awaitEnding() {
        isUnwanted = true;
        transactions.endWait(transaction);
        boolean wasInterrupted = false;
        while (state == State.ENDING) {
            try {
                wait();
            } catch (InterruptedException e) {
                // The branch's outcome has to be known; the interrupt is kept for the next blocking call.
                wasInterrupted = true;
            }
        }
        if (wasInterrupted) {
            Thread.currentThread().interrupt();
        }
    }

    synchronized void commit() throws XAException {
        expect(State.PREPARED, State.IN_DOUBT);
        if (!isStored) {
            tell(() -> store.commitPrepared(id));
            isStored = true;
        }
        if (state == State.PREPARED) {
            tell(prepared::committed);
            transactions.committed(transaction);
        } else {
            tell(() -> store.finishCommit(id, changed));
        }
        ended();
    }

    synchronized void rollback() throws XAException {
        if (state == State.ENDING) {
            awaitEnding();
            if (isRolledBackAtEnd) {
                return;
            }
        }
        switch (state) {
            case ACTIVE -> {
                if (!giveUp()) {
                    isForgotten = true;
                    return;
                }
                if (state != State.FAILED) {
                    restore();
                }
            }
            case SUSPENDED, IDLE -> restore();
            case PREPARED, IN_DOUBT -> {
                if (isStored) {
                    throw protocol("it has committed; commit it again");
                }
                tell(() -> store.rollbackPrepared(id));
                if (state == State.PREPARED) {
                    prepared.rolledBack();
                    restore();
                } else {
                    store.finishRollback(id);
                }
            }
            case GIVEN_UP -> {
                isForgotten = true;
                return;
            }
            case FAILED -> {}
            case ENDED -> throw gone();
        }
        ended();
    }

    /// Memory is as it was, and unlocked; should a place of it not be, the branch has ended all the same.
    private void restore() throws XAException {
        try {
            transactions.rollback(transaction);
        } catch (RuntimeException | Error e) {
            ended();
            throw BranchResource.failure(
                    XAException.XAER_RMERR,
                    "the branch " + id + " was rolled back, but not all objects in memory were restored: "
                            + e.getMessage(),
                    e);
        }
    }

    /// The store closes, and has the branch in doubt: memory is as it was.
    synchronized void leave() {
        if (state == State.PREPARED) {
            prepared.rolledBack();
            // Whether it has rolled back is for the next opening to say.
            recorder.transactions.rollBackUnrecorded(transaction);
        }
        state = State.ENDED;
    }

    private interface Word {
        void say() throws GraphStoreException;
    }

    private void tell(Word word) throws XAException {
        try {
            store.check();
            word.say();
        } catch (GraphStoreException e) {
            throw refused(store.refused(e));
        } catch (RuntimeException | Error e) {
            throw refused(e);
        }
    }

    private synchronized void ended() {
        state = State.ENDED;
        branches.remove(this);
        notifyAll();
    }

    // ---- what is not as it should be

    private void expect(State... states) throws XAException {
        if (state == State.ENDED) {
            throw gone();
        }
        if (!EnumSet.of(states[0], states).contains(state)) {
            throw protocol("it is " + state.name().toLowerCase().replace('_', ' '));
        }
    }

    private XAException protocol(String why) {
        return BranchResource.failure(
                XAException.XAER_PROTO, "invalid call in the state of the branch " + id + ": " + why, null);
    }

    XAException notHeuristic() {
        return protocol("no operator has ended it; commit it or roll it back");
    }

    private XAException gone() {
        return branches.unknown(id);
    }

    /// Error of a call that may be repeated: by XAER_RMERR a transaction manager takes the branch for rolled back.
    private XAException refused(Throwable why) {
        return BranchResource.failure(XAException.XAER_RMFAIL, why.getMessage(), why);
    }

    /// The transaction has ended: it was rolled back, unless the store has stopped, or no caller has waited until its
    /// commit is on the disk.
    private synchronized XAException rolledBack(Throwable why) {
        isRolledBackAtEnd = !store.hasStopped() && transaction.isRolledBack();
        ended();
        if (!isRolledBackAtEnd) {
            return refused(why);
        }
        if (lateness != null) {
            return lateness;
        }
        boolean isVictim = why instanceof DeadlockException && !isUnwanted;
        int code = isVictim ? XAException.XA_RBDEADLOCK : XAException.XA_RBROLLBACK;
        return BranchResource.failure(code, why.getMessage(), why);
    }

    private void fail(XAException why) {
        try {
            transactions.rollback(transaction);
        } catch (RuntimeException | Error e) {
            // It has ended all the same; the cause carries this failure.
            why.addSuppressed(e);
        }
        state = State.FAILED;
        failure = why;
    }

    private void throwFailure() throws XAException {
        if (state == State.FAILED) {
            throw failure;
        }
    }

    /// As that, of a call after which the transaction manager knows it, and does not roll it back itself.
    private void throwFailureAndEnd() throws XAException {
        if (state == State.FAILED) {
            ended();
            throw failure;
        }
    }

    private void failIfTooLate() {
        if (state == State.IDLE && isTooLate()) {
            fail(lateness());
        }
    }

    private boolean isTooLate() {
        return timeoutSeconds != 0 && nanos.getAsLong() - began > TimeUnit.SECONDS.toNanos(timeoutSeconds);
    }

    private XAException lateness() {
        String what = "the branch " + id + " has taken longer than " + timeoutSeconds + " seconds";
        return BranchResource.failure(XAException.XA_RBTIMEOUT, what + ", and was rolled back", null);
    }
}
