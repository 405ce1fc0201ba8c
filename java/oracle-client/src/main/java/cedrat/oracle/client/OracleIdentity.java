package cedrat.oracle.client;

import java.util.HexFormat;

/// Identity of an oracle: a number that is drawn at random with its log, and that no other oracle has.
///
/// @param value never 0
public record OracleIdentity(long value) {
    /// Checks it.
    public OracleIdentity {
        if (value == 0) {
            throw new IllegalArgumentException("invalid identity 0 of an oracle: 0 is no identity");
        }
    }

    /// Returns the identity that [#toString] has written.
    ///
    /// @throws IllegalArgumentException if the string is none
    public static OracleIdentity of(String digits) {
        return new OracleIdentity(HexFormat.fromHexDigitsToLong(digits));
    }

    /// Returns 16 hexadecimal digits.
    @Override
    public String toString() {
        return HexFormat.of().toHexDigits(value);
    }
}
