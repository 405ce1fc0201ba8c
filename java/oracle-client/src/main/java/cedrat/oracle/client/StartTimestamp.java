package cedrat.oracle.client;

/// When a transaction began; its name.
public record StartTimestamp(long value) implements Comparable<StartTimestamp> {
    @Override
    public int compareTo(StartTimestamp other) {
        return Long.compare(value, other.value);
    }
}
