package cedrat.oracle.client;

/// When a transaction committed. Transactions that began later see what it wrote.
public record CommitTimestamp(long value) implements Comparable<CommitTimestamp> {
    @Override
    public int compareTo(CommitTimestamp other) {
        return Long.compare(value, other.value);
    }

    /// Whether a transaction that began then sees it.
    public boolean isBefore(StartTimestamp reader) {
        return value < reader.value();
    }
}
