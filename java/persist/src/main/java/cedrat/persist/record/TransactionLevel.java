package cedrat.persist.record;

import cedrat.persist.Transaction;
import java.util.Objects;
import java.util.concurrent.CompletableFuture;

/// A transaction, top-level or nested: one level of a [TopLevel].
///
/// **Threads:** as [Transaction].
public final class TransactionLevel extends Transaction {
    private enum State {
        OPEN,
        COMMITTED,
        ROLLED_BACK
    }

    /// Common state of the levels of a transaction.
    public final TopLevel top;
    /// The one around it, or null.
    final TransactionLevel outer;
    /// Length of the undo log when it began.
    public final int logMark;
    /// Length of the list of made objects when it began, without collected ones.
    int madeMark;
    /// Number of new parts of Java collections when it began.
    final int partMark;
    /// Number of calls of [CollectionCalls] in which it began.
    final int callMark;
    /// The place in pages and heaps to come back to, or less than 0: nothing was done there.
    long savepoint = -1;
    /// A method of the JDK was ended by a refusal, maybe in the middle of a change: it can only be rolled back.
    boolean isBroken;

    private State state = State.OPEN;
    private Action defaultAction = Action.ROLLBACK;
    private boolean leavesLocals;

    TransactionLevel(TopLevel top, TransactionLevel outer) {
        this.top = top;
        this.outer = outer;
        logMark = top.log.size();
        madeMark = top.made.size();
        partMark = top.partCount();
        callMark = outer == null ? 0 : top.context.calls.depth();
    }

    // ---- ways to end it

    @Override
    public void commit() {
        Recorder.get().transactions.end(this, Action.COMMIT);
    }

    @Override
    public CompletableFuture<Void> commitAsync() {
        return Recorder.get().transactions.commitAsync(this);
    }

    @Override
    public void rollback() {
        Recorder.get().transactions.end(this, Action.ROLLBACK);
    }

    @Override
    public void close() {
        Recorder.get().transactions.close(this);
    }

    @Override
    public Action defaultAction() {
        return defaultAction;
    }

    @Override
    public void defaultAction(Action action) {
        Recorder.get().transactions.check(this);
        defaultAction = Objects.requireNonNull(action);
    }

    @Override
    public boolean isOpen() {
        return state == State.OPEN && !top.isDoomed;
    }

    @Override
    public int undoSize() {
        return top.log.size();
    }

    // ---- hand-over

    @Override
    public void detach() {
        Recorder.get().transactions.detach(this);
    }

    @Override
    public void attach() {
        Recorder.get().transactions.attach(this);
    }

    boolean hasEnded() {
        return state != State.OPEN;
    }

    public boolean isRolledBack() {
        return state == State.ROLLED_BACK;
    }

    void ended(Action action) {
        state = action == Action.COMMIT ? State.COMMITTED : State.ROLLED_BACK;
        leavesLocals = action == Action.ROLLBACK;
    }

    /// Whether it was rolled back, and the locals of its scope are not restored yet; the caller restores them.
    boolean takeLocals() {
        boolean leaves = leavesLocals;
        leavesLocals = false;
        return leaves;
    }
}
