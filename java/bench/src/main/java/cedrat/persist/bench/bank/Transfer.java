package cedrat.persist.bench.bank;

import java.util.random.RandomGenerator;

/// One transaction of Debit-Credit: an amount is added to the balance of an account, of the teller
/// and of the branch, and recorded in the history (TPC-B; Transactions for Java, §4.1.1).
///
/// @param account its number
/// @param teller  the number of the teller
/// @param branch  the number of the teller's branch
/// @param amount  may be negative
public record Transfer(int account, int teller, int branch, long amount) {
    /// Number of branches: with fewer, eight threads would mostly wait for each other's branch.
    public static final int BRANCHES = 64;
    /// Tellers of all branches.
    public static final int TELLERS = 10 * BRANCHES;
    /// Accounts of all branches. All of it fits into memory, as in the paper.
    public static final int ACCOUNTS = 1000 * BRANCHES;

    /// One account in seven is another branch's.
    private static final int PERCENT_AT_HOME = 85;

    /// The next one.
    public static Transfer next(RandomGenerator random) {
        int teller = random.nextInt(TELLERS);
        int branch = teller % BRANCHES;
        boolean isAtHome = random.nextInt(100) < PERCENT_AT_HOME;
        int account = isAtHome ? random.nextInt(ACCOUNTS / BRANCHES) * BRANCHES + branch : random.nextInt(ACCOUNTS);
        return new Transfer(account, teller, branch, random.nextLong(-999_999, 1_000_000));
    }
}
