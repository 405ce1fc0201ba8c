package cedrat.oracle.client;

/// Identity of an oracle: a number that is drawn at random with its log, and that no other oracle has.
public final class OracleIdentity {
    private final long value;

    /// The identity with this number.
    ///
    /// @throws IllegalArgumentException if it is 0
    public OracleIdentity(long value) {
        if (value == 0) {
            throw new IllegalArgumentException("invalid identity 0 of an oracle: 0 is no identity");
        }
        this.value = value;
    }

    /// Returns the identity that [#toString] has written.
    ///
    /// @throws IllegalArgumentException if the string is none
    public static OracleIdentity of(String digits) {
        if (!digits.matches("[0-9a-fA-F]{1,16}")) {
            throw new IllegalArgumentException(
                    "invalid identity " + digits + " of an oracle: it has up to 16 hexadecimal digits");
        }
        return new OracleIdentity(Long.parseUnsignedLong(digits, 16));
    }

    /// Returns the number, which is never 0.
    public long value() {
        return value;
    }

    @Override
    public boolean equals(Object other) {
        if (!(other instanceof OracleIdentity)) {
            return false;
        }
        OracleIdentity oracleIdentity = (OracleIdentity) other;
        return value == oracleIdentity.value;
    }

    @Override
    public int hashCode() {
        return Long.hashCode(value);
    }

    /// Returns 16 hexadecimal digits.
    @Override
    public String toString() {
        return String.format("%016x", value);
    }
}
