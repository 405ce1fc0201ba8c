package cedrat.oracle.client;

/// When a transaction committed. Transactions that began later see what it wrote.
public final class CommitTimestamp implements Comparable<CommitTimestamp> {
    private final long value;

    /// The timestamp with this number.
    public CommitTimestamp(long value) {
        this.value = value;
    }

    /// Returns the number.
    public long value() {
        return value;
    }

    @Override
    public int compareTo(CommitTimestamp other) {
        return Long.compare(value, other.value);
    }

    /// Whether a transaction that began then sees it.
    public boolean isBefore(StartTimestamp reader) {
        return value < reader.value();
    }

    @Override
    public boolean equals(Object other) {
        if (!(other instanceof CommitTimestamp)) {
            return false;
        }
        CommitTimestamp commitTimestamp = (CommitTimestamp) other;
        return value == commitTimestamp.value;
    }

    @Override
    public int hashCode() {
        return Long.hashCode(value);
    }

    @Override
    public String toString() {
        return "CommitTimestamp[value=" + value + "]";
    }
}
