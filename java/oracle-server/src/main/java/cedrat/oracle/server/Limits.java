package cedrat.oracle.server;

/// Limits of what all connections of one identity may take together.
///
/// @param connections connections since their hello
/// @param outstanding requests that were decided and not answered
/// @param bytes bytes of requests that wait to be decided
/// @param rate requests a second
record Limits(int connections, int outstanding, long bytes, int rate) {
    /// No limits but those of each connection.
    static final Limits NONE = new Limits(Integer.MAX_VALUE, Integer.MAX_VALUE, Long.MAX_VALUE, Integer.MAX_VALUE);

    /// A limit, as `/metrics` names it.
    enum Kind {
        CONNECTIONS,
        OUTSTANDING,
        BYTES,
        RATE
    }

    /// The same, with another limit of this kind.
    Limits with(Kind kind, long most) {
        int count = (int) Math.min(most, Integer.MAX_VALUE);
        return switch (kind) {
            case CONNECTIONS -> new Limits(count, outstanding, bytes, rate);
            case OUTSTANDING -> new Limits(connections, count, bytes, rate);
            case BYTES -> new Limits(connections, outstanding, most, rate);
            case RATE -> new Limits(connections, outstanding, bytes, count);
        };
    }
}
