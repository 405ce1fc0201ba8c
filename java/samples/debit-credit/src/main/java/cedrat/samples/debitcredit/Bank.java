package cedrat.samples.debitcredit;

import cedrat.persist.RwLock;
import java.util.List;
import java.util.function.Function;
import java.util.stream.IntStream;
import java.util.stream.LongStream;

/// The bank of the Debit-Credit benchmark (Transactions for Java, §4.1): ordinary objects, of which one has a
/// name in a store. Any number of threads may use it at a time.
final class Bank {
    final List<Branch> branches;

    Bank(int branches) {
        this.branches = IntStream.range(0, branches).mapToObj(_ -> new Branch()).toList();
    }

    /// Books an amount, which is negative if it is paid out: on the account, with the teller, at the teller's
    /// branch and in its history. When it returns, that lasts.
    ///
    /// All lock in the same order (accounts, tellers, branches), so no transaction is a deadlock victim.
    static void book(Account account, Teller teller, long cents) {
        Branch branch = teller.branch;
        transaction (commit) {
            RwLock.acquireWrite(account);
            account.cents += cents;
            RwLock.acquireWrite(teller);
            teller.cents += cents;
            RwLock.acquireWrite(branch);
            branch.cents += cents;
            branch.history.add(new Branch.Entry(account, teller, cents, System.currentTimeMillis()));
        }
    }

    /// Throws [IllegalStateException] unless accounts, tellers, branches and their histories have the same sum.
    /// No booking may run meanwhile.
    ///
    /// @return the number of entries and their sum
    Books books() {
        long accounts = all(branch -> branch.accounts.stream().mapToLong(account -> account.cents));
        long tellers = all(branch -> branch.tellers.stream().mapToLong(teller -> teller.cents));
        long sums = all(branch -> LongStream.of(branch.cents));
        long histories = all(branch -> branch.history.stream().mapToLong(Branch.Entry::cents));
        if (accounts != tellers || tellers != sums || sums != histories) {
            throw new IllegalStateException("accounts " + accounts + ", tellers " + tellers + ", branches " + sums
                    + ", histories " + histories);
        }
        return new Books(branches.stream().mapToLong(branch -> branch.history.size()).sum(), sums);
    }

    /// Number of entries in the books, and their sum.
    record Books(long entries, long cents) {}

    private long all(Function<Branch, LongStream> of) {
        return branches.stream().flatMapToLong(of).sum();
    }
}
