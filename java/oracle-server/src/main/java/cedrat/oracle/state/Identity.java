package cedrat.oracle.state;

/// Identity of an oracle: a number other than 0, which does not change.
final class Identity {
    private static final long NONE = 0;

    private long value;

    /// Returns the number; 0 if there is none yet.
    long get() {
        return value;
    }

    /// Sets it, once. The same again changes nothing.
    ///
    /// @throws IllegalArgumentException if it is 0, or there is another
    void set(long drawn) {
        if (drawn == NONE || value != NONE && value != drawn) {
            throw new IllegalArgumentException("invalid identity " + Long.toHexString(drawn)
                    + " of an oracle that has the identity " + Long.toHexString(value));
        }
        value = drawn;
    }

    /// Reports it, if there is one.
    void tell(Remembered to) {
        if (value != NONE) {
            to.identified(value);
        }
    }

    /// Forgets it, before a snapshot is read.
    void clear() {
        value = NONE;
    }
}
