package cedrat.oracle.state;

/// Ranges of keys of tables: from a key on, and before another; where that one is empty, up to the last. In
/// arrays that are used again and again.
public final class KeyRanges {
    private final Keys from = new Keys();
    private final Keys to = new Keys();

    /// None.
    public KeyRanges() {}

    /// Empties it.
    public void clear() {
        from.clear();
        to.clear();
    }

    /// Adds a range. Both keys lie in `bytes`.
    public void add(long table, byte[] bytes, int fromAt, int fromLength, int toAt, int toLength) {
        from.add(table, bytes, fromAt, fromLength);
        to.add(table, bytes, toAt, toLength);
    }

    /// Returns the number of ranges.
    public int count() {
        return from.count();
    }

    /// Returns the first keys of the ranges.
    Keys from() {
        return from;
    }

    /// Returns the keys before which the ranges end; empty where a range ends with its table.
    Keys to() {
        return to;
    }
}
