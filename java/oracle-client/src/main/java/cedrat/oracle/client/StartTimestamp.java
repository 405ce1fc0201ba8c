package cedrat.oracle.client;

/// When a transaction began; its name.
public final class StartTimestamp implements Comparable<StartTimestamp> {
    private final long value;

    /// The timestamp with this number.
    public StartTimestamp(long value) {
        this.value = value;
    }

    /// Returns the number.
    public long value() {
        return value;
    }

    @Override
    public int compareTo(StartTimestamp other) {
        return Long.compare(value, other.value);
    }

    @Override
    public boolean equals(Object other) {
        if (!(other instanceof StartTimestamp)) {
            return false;
        }
        StartTimestamp startTimestamp = (StartTimestamp) other;
        return value == startTimestamp.value;
    }

    @Override
    public int hashCode() {
        return Long.hashCode(value);
    }

    @Override
    public String toString() {
        return "StartTimestamp[value=" + value + "]";
    }
}
