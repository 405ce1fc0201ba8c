package cedrat.persist;

/// Counters of all top-level transactions of the process since the agent was loaded, from [Transaction#statistics].
/// They were read one after the other.
///
/// @param commits   transactions that have committed
/// @param rollbacks transactions that were rolled back, victims of deadlocks included
/// @param lockWaits requests for a lock that had to wait
/// @param deadlocks transactions that were rolled back to end a deadlock
public record TransactionStatistics(long commits, long rollbacks, long lockWaits, long deadlocks) {}
