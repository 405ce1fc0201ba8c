package cedrat.samples.bank;

import cedrat.persist.RwLock;
import java.util.List;

/// Operations on accounts, each a transaction (Transactions for Java, §2.1). Any number of threads may call
/// them at a time. Each method throws [cedrat.persist.DeadlockException] if its transaction was the victim of
/// a deadlock: its changes were rolled back, and the method is to be called again. If it was called in a
/// transaction, that was rolled back too, and is to be run again.
final class Bank {
    /// Money that is to go from one account to another.
    record Payment(Account from, Account to, long cents) {}

    private Bank() {}

    /// Makes a payment, unless an account would become negative. Then it returns false, and both accounts are
    /// unchanged.
    static boolean pay(Payment payment) {
        boolean isMade = false;
        transaction {
            // What is written is locked anyway; that it is read before makes the lock due now.
            RwLock.acquireWrite(payment.from);
            RwLock.acquireWrite(payment.to);
            payment.from.book(-payment.cents);
            payment.to.book(payment.cents);
            isMade = true;
            if (payment.from.cents() >= 0) {
                commit;
            } else {
                rollback; // isMade is false again
            }
        }
        return isMade;
    }

    /// Makes those of the payments that are covered, each a transaction within this one. If they are fewer
    /// than `enough`, none is made. Returns how many were.
    static int payAll(List<Payment> payments, int enough) {
        int made = 0;
        transaction (commit) {
            for (Payment payment : payments) {
                if (pay(payment)) {
                    made++;
                }
            }
            if (made < enough) {
                rollback; // what has been committed within is undone, and made is 0
            }
        }
        return made;
    }

    /// Returns the sum of all accounts, at one moment.
    static long total(List<Account> accounts) {
        transaction {
            long cents = 0;
            for (Account account : accounts) {
                RwLock.acquireRead(account);
                cents += account.cents();
            }
            return cents; // nothing was changed, so the default action does
        }
    }
}
