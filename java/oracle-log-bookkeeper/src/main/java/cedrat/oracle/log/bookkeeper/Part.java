package cedrat.oracle.log.bookkeeper;

/// A ledger of the log, and the number of its first entry.
record Part(long ledger, long firstNumber) {}
