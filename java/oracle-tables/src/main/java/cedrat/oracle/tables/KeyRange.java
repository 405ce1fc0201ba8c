package cedrat.oracle.tables;

import java.util.Objects;

/// Keys from `from` on, and before `to`; with `to` empty, up to the last.
public record KeyRange(Bytes from, Bytes to) {
    /// All keys.
    public static final KeyRange ALL = new KeyRange(Bytes.EMPTY, Bytes.EMPTY);

    /// Whether it goes up to the last key.
    boolean isOpen() {
        return to.length() == 0;
    }

    /// Checks them.
    public KeyRange {
        Objects.requireNonNull(from);
        Objects.requireNonNull(to);
        if (to.length() > 0 && from.compareTo(to) > 0) {
            throw new IllegalArgumentException("invalid range of keys: its end " + to + " is before its begin " + from);
        }
    }
}
