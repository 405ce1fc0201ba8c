package cedrat.persist.bench.bank;

/// Sums of a bank after some transactions.
///
/// @param accounts the sum over all accounts
/// @param tellers  the sum over all tellers
/// @param branches the sum over all branches
/// @param history  the sum over the history
/// @param recorded lines of the history
public record Balances(long accounts, long tellers, long branches, long history, long recorded) {
    /// Returns the balances of a bank after this number of transfers with this total amount.
    public static Balances of(long sum, long transfers) {
        return new Balances(sum, sum, sum, sum, transfers);
    }
}
