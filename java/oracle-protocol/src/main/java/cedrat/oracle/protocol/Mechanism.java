package cedrat.oracle.protocol;

/// Mechanism of SASL by which a client authenticates itself. The number goes over the wire and keeps its meaning.
public enum Mechanism {
    /// A name and a token, in one message (RFC 4616).
    PLAIN(1),
    /// Kerberos (RFC 4752).
    GSSAPI(2);

    private final int number;

    Mechanism(int number) {
        this.number = number;
    }

    /// The number that goes over the wire.
    public int number() {
        return number;
    }

    /// Returns the mechanism with this number; `null` if this program knows none.
    public static Mechanism of(int number) {
        return number > 0 && number <= values().length ? values()[number - 1] : null;
    }
}
