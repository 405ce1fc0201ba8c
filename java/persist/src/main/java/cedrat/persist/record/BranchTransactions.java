package cedrat.persist.record;

import cedrat.persist.DeadlockException;
import cedrat.persist.StoreException;
import cedrat.persist.Transaction;
import cedrat.persist.boot.Barrier;
import cedrat.persist.lock.Locks;
import java.util.function.Supplier;

/// Top-level transactions that are branches of ones over several stores: they begin and end on no thread, and
/// those of a thread may be nested in one of them.
///
/// **Threads:** any; what is said of one branch is said by one at a time.
public final class BranchTransactions {
    private final Transactions transactions;
    private final ThreadLocal<Context> contexts;
    private final Locks locks;

    BranchTransactions(Transactions transactions, ThreadLocal<Context> contexts, Locks locks) {
        this.transactions = transactions;
        this.contexts = contexts;
        this.locks = locks;
    }

    /// A top-level transaction, detached.
    ///
    /// @param beforeStored what may throw when all is locked that is to be stored
    public TransactionLevel begin(Runnable beforeStored) {
        Context context = contexts.get();
        TransactionLevel branch =
                new TransactionLevel(new TopLevel(transactions.newOwner(), context, transactions.takenBack()), null);
        branch.top.leave();
        branch.top.beforeStored(beforeStored);
        Barrier.opened();
        return branch;
    }

    /// The transactions of this thread are nested in that one from now on.
    public void enter(TransactionLevel branch) {
        Context context = contexts.get();
        branch.top.give(context);
        context.branch = branch;
    }

    /// Detaches the branch from the transactions of the thread that has it. On any thread.
    ///
    /// @return false if that is in one, and so keeps the branch
    public boolean leave(TransactionLevel branch) {
        boolean isLeft = branch.top.take();
        forget();
        return isLeft;
    }

    /// As that, of one of which nothing will be stored.
    ///
    /// @param atRollback what to do when the thread has rolled it back, if it keeps it
    public boolean giveUp(TransactionLevel branch, Runnable atRollback) {
        boolean isLeft = branch.top.giveUp(atRollback);
        forget();
        return isLeft;
    }

    /// This thread knows of a branch that was ended on another thread.
    public void forget() {
        Context context = contexts.get();
        if (context.branch != null && !context.branch.top.isOn(context)) {
            context.branch = null;
        }
    }

    public boolean isOnThisThread() {
        Context context = contexts.get();
        return context.branch != null && context.branch.top.isOn(context);
    }

    /// Prepares what a detached transaction has changed.
    ///
    /// @return null if it has changed nothing, and so has ended
    /// @throws DeadlockException if it was rolled back to end a deadlock
    /// @throws RuntimeException  if it was rolled back
    public Changes prepare(TransactionLevel transaction, Persistent store, byte[] branch) {
        return ending(transaction, () -> {
            Changes changes = storesOnly(transaction, store).changes(transaction);
            if (changes != null && changes.prepare(branch)) {
                return changes;
            }
            transactions.leave(transaction, Transaction.Action.COMMIT);
            // What it has read may have been committed just now, and not be durable yet.
            store.awaitDurable(store.appended());
            return null;
        });
    }

    /// Commits a detached transaction that has not prepared.
    ///
    /// @throws DeadlockException if it was rolled back to end a deadlock
    /// @throws RuntimeException  if it was rolled back; [StoreException] also if the store has stopped
    public void commit(TransactionLevel transaction, Persistent store) {
        ending(transaction, () -> {
            Changes changes = storesOnly(transaction, store).changes(transaction);
            if (changes != null) {
                changes.commit();
            }
            transactions.leave(transaction, Transaction.Action.COMMIT);
            store.awaitDurable();
            return null;
        });
    }

    /// Rolls back a branch that is on no thread, whether or not it has prepared. Threads that had it are notified,
    /// except those that know of its end.
    public void rollback(TransactionLevel branch) {
        branch.top.rollsBack();
        transactions.rollBackUnrecorded(branch);
    }

    /// A detached transaction, which is to be stored on another thread, waits for no lock from now on: it is
    /// rolled back instead.
    public void endWait(TransactionLevel transaction) {
        locks.endWait(transaction.top.owner);
    }

    /// A detached transaction has committed that had prepared.
    public void committed(TransactionLevel transaction) {
        transactions.leave(transaction, Transaction.Action.COMMIT);
    }

    private Changes ending(TransactionLevel transaction, Supplier<Changes> end) {
        return contexts.get().unrecorded(() -> {
            transaction.top.endsHere(true);
            try {
                return end.get();
            } catch (DeadlockException e) {
                transaction.top.rollsBack();
                try {
                    transactions.doom(transaction);
                } finally {
                    transactions.leave(transaction, Transaction.Action.ROLLBACK);
                }
                throw e;
            } catch (RuntimeException | Error e) {
                if (!transaction.hasEnded()) {
                    transaction.top.rollsBack();
                    transactions.rollBack(transaction);
                }
                throw e;
            } finally {
                transaction.top.endsHere(false);
            }
        });
    }

    /// @throws StoreException if the transaction has changed objects of another store
    private Persistent storesOnly(TransactionLevel transaction, Persistent only) {
        for (Persistent store : transaction.top.changed()) {
            Changes changes = store == only ? null : store.changes(transaction);
            if (changes != null) {
                changes.abandon();
                throw new StoreException("the branch of one store has changed objects of another store, and is "
                        + "rolled back: call delistResource of the first with TMSUCCESS, then enlistResource of the "
                        + "second, before its objects are changed");
            }
        }
        return only;
    }
}
