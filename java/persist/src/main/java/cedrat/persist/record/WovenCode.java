package cedrat.persist.record;

import cedrat.persist.DeadlockException;
import cedrat.persist.PersistenceRuntime;
import cedrat.persist.Transaction;
import cedrat.persist.lock.Locks;
import cedrat.persist.lock.MonitorCycles;

/// Replacements in woven code for the methods of [Transaction]. Only the weaver writes calls of these: a
/// class that calls them itself has no write barriers.
///
/// **Threads:** as [Transaction].
public final class WovenCode {
    private static final int CAUSES_MAX = 100;

    private WovenCode() {}

    /// @throws IllegalStateException if a build has woven the caller, and the agent is not loaded
    private static Transactions transactions() {
        Recorder recorder = Recorder.get();
        if (recorder == null) {
            throw PersistenceRuntime.notLoaded();
        }
        return recorder.transactions;
    }

    /// In place of [Transaction#begin()].
    public static Transaction begin() {
        Transactions transactions = transactions();
        return transactions.begin(transactions.newOwner());
    }

    /// In place of [Transaction#close()], where the scope has locals to restore.
    ///
    /// @return whether they are to be restored
    public static boolean close(Transaction transaction) {
        transaction.close();
        return ((TransactionLevel) transaction).takeLocals();
    }

    /// In place of what Kotlin's `use` closes a transaction with, where the scope has locals to restore.
    ///
    /// @param cause the exception with which the scope ends; `null` if there is none
    /// @return whether they are to be restored
    public static boolean closeFinally(AutoCloseable transaction, Throwable cause) {
        try {
            return close((Transaction) transaction);
        } catch (RuntimeException | Error failure) {
            if (cause == null) {
                throw failure;
            }
            cause.addSuppressed(failure);
            return ((TransactionLevel) transaction).takeLocals();
        }
    }

    /// In place of [Transaction#rollback()], where locals are restored.
    public static void rollback(Transaction transaction) {
        transaction.rollback();
        ((TransactionLevel) transaction).takeLocals();
    }

    /// In place of [Transaction#run(Transaction.Work)].
    public static <E extends Exception> void run(Transaction.Work<E> work) throws E {
        WovenCode.<Void, E>call(transaction -> {
            work.run(transaction);
            return null;
        });
    }

    /// In place of [Transaction#run(Transaction.PlainWork)].
    public static <E extends Exception> void run(Transaction.PlainWork<E> work) throws E {
        WovenCode.<Void, E>call(transaction -> {
            work.run();
            return null;
        });
    }

    /// In place of [Transaction#call(Transaction.PlainCall)].
    public static <T, E extends Exception> T call(Transaction.PlainCall<T, E> work) throws E {
        return WovenCode.<T, E>call(transaction -> work.call());
    }

    /// In place of [Transaction#call(Transaction.Call)].
    public static <T, E extends Exception> T call(Transaction.Call<T, E> work) throws E {
        Transactions transactions = transactions();
        boolean isNested = transactions.isInTransaction();
        Locks.Owner owner = transactions.newOwner();
        while (true) {
            TransactionLevel transaction = transactions.begin(owner);
            try (transaction) {
                T result = work.call(transaction);
                if (!transaction.hasEnded()) {
                    transaction.commit();
                }
                return result;
            } catch (Throwable e) {
                // Reflection wraps what is thrown below it, as programs do.
                boolean isVictim = !isNested && transaction.top.isDoomed && isDeadlock(e);
                if (!isVictim || !MonitorCycles.letPass(transaction.top.owner)) {
                    throw e;
                }
                // The transaction keeps its age, so that it is not the youngest in every deadlock.
                owner = new Locks.Owner(owner);
            }
        }
    }

    /// Whether an exception is that of a deadlock's victim, or was thrown because of one.
    private static boolean isDeadlock(Throwable thrown) {
        // Causes may form a cycle: deeper wrapping is not followed.
        Throwable cause = thrown;
        for (int depth = 0; cause != null && depth < CAUSES_MAX; depth++) {
            if (cause instanceof DeadlockException) {
                return true;
            }
            cause = cause.getCause();
        }
        return false;
    }
}
