package cedrat.oracle.protocol;

/// Why a request was refused. The number goes over the wire and keeps its meaning.
public enum ErrorCode {
    /// The bytes are no frame of this protocol. The connection is closed.
    MALFORMED(1),
    /// The server speaks none of the client's versions. The connection is closed.
    VERSION(2),
    /// The frame is longer than any may be. The connection is closed.
    TOO_LONG(3),
    /// A request of a kind, or with a flag, that the server does not know.
    UNSUPPORTED(4),
    /// More rows than the server takes in one transaction.
    TOO_MANY_ROWS(5),
    /// A row has an id that no row may have.
    RESERVED_ROW(6),
    /// A number that is no timestamp, or one that was not given out yet.
    TIMESTAMP(7),
    /// A request before the first hello, no hello in time, a second hello, or too many connections. The
    /// connection is closed.
    HELLO(8),
    /// Another connection has taken over the session. The connection is closed.
    TAKEN_OVER(9),
    /// The session was silent for too long and has expired, or an administrator has ended it: its open
    /// transactions have aborted. The
    /// connection is closed.
    EXPIRED(10),
    /// The oracle has the maximum number of namespaces.
    NAMESPACES(11),
    /// The client knows an oracle of another identity. The connection is closed.
    OTHER_ORACLE(12),
    /// The client's role does not permit the request. Without any role the connection is closed.
    FORBIDDEN(13),
    /// The client knows an earlier generation of the oracle, which was restored from a backup since. The connection
    /// is closed.
    RESTORED(14),
    /// The client has not authenticated itself, or not successfully. The connection is closed.
    AUTHENTICATION(15),
    /// The identity of the client has as many connections as it may have. The connection is closed.
    LIMIT(16);

    private static final ErrorCode[] BY_NUMBER = new ErrorCode[values().length + 1];

    static {
        for (ErrorCode code : values()) {
            BY_NUMBER[code.number] = code;
        }
    }

    private final int number;

    ErrorCode(int number) {
        this.number = number;
    }

    /// The number that goes over the wire.
    public int number() {
        return number;
    }

    /// Whether a closed connection may be followed by one that fares better: an expired session begins anew; a
    /// hello that came too late, as the program or the network was slow, may be in time; other connections of an
    /// identity may end; and it was a connection of the client's own, which it had left and which was slow, that
    /// has taken over the session. All else would happen again.
    public boolean isOfTheConnection() {
        return this == EXPIRED || this == HELLO || this == TAKEN_OVER || this == LIMIT;
    }

    /// The code with this number; `null` if this program knows none, as a newer server may send one.
    public static ErrorCode of(int number) {
        return number > 0 && number < BY_NUMBER.length ? BY_NUMBER[number] : null;
    }
}
