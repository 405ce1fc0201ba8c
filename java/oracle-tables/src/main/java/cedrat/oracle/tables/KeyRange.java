package cedrat.oracle.tables;

import java.util.Objects;

/// Keys from `from` on, and before `to`; with `to` empty, up to the last.
public final class KeyRange {
    /// All keys.
    public static final KeyRange ALL = new KeyRange(Bytes.EMPTY, Bytes.EMPTY);

    private final Bytes from;
    private final Bytes to;

    /// The keys from the first one on, and before the second.
    ///
    /// @throws IllegalArgumentException if the end is before the begin
    public KeyRange(Bytes from, Bytes to) {
        this.from = Objects.requireNonNull(from);
        this.to = Objects.requireNonNull(to);
        if (to.length() > 0 && from.compareTo(to) > 0) {
            throw new IllegalArgumentException("invalid range of keys: its end " + to + " is before its begin " + from);
        }
    }

    /// The keys that begin so.
    public static KeyRange prefix(Bytes prefix) {
        byte[] end = prefix.toArray();
        int length = end.length;
        while (length > 0 && end[length - 1] == (byte) 0xff) {
            length--;
        }
        if (length > 0) {
            end[length - 1]++;
        }
        return new KeyRange(prefix, Bytes.of(end, 0, length));
    }

    /// Returns the first key.
    public Bytes from() {
        return from;
    }

    /// Returns the key behind the last one; empty if there is none.
    public Bytes to() {
        return to;
    }

    /// Whether it goes up to the last key.
    boolean isOpen() {
        return to.length() == 0;
    }

    @Override
    public boolean equals(Object other) {
        if (!(other instanceof KeyRange)) {
            return false;
        }
        KeyRange keyRange = (KeyRange) other;
        return from.equals(keyRange.from) && to.equals(keyRange.to);
    }

    @Override
    public int hashCode() {
        return 31 * from.hashCode() + to.hashCode();
    }

    @Override
    public String toString() {
        return "KeyRange[from=" + from + ", to=" + to + "]";
    }
}
