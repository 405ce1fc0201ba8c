package cedrat.oracle.state;

/// Identity of an oracle, a number other than 0 that does not change, and its generation, another one that a restore
/// changes. An oracle that was never restored has its identity as its generation: so logs of versions without
/// generations have one too.
final class Identity {
    private static final long NONE = 0;

    private long value;
    /// Drawn by the newest restore; [#NONE] if there was none.
    private long restored;

    /// Returns the number; 0 if there is none yet.
    long get() {
        return value;
    }

    /// Returns the generation; 0 if there is no identity yet.
    long generation() {
        return restored == NONE ? value : restored;
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

    /// Begins a generation.
    ///
    /// @throws IllegalArgumentException if it is 0, or there is no identity
    void restore(long drawn) {
        if (drawn == NONE || value == NONE) {
            throw new IllegalArgumentException("invalid generation " + Long.toHexString(drawn)
                    + " of an oracle that has the identity " + Long.toHexString(value));
        }
        restored = drawn;
    }

    /// Reports both, as far as there are any.
    void tell(Remembered to) {
        if (value != NONE) {
            to.identified(value);
        }
        if (restored != NONE) {
            to.restored(restored);
        }
    }

    /// Forgets both, before a snapshot is read.
    void clear() {
        value = NONE;
        restored = NONE;
    }
}
