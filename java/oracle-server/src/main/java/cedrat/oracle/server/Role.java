package cedrat.oracle.server;

import cedrat.oracle.protocol.Protocol;

/// Rights of a client. Each permits what those before it do.
enum Role {
    /// Transactions.
    CLIENT,
    /// Sweeps and pruning of tables.
    CLEANER,
    /// The requests of an administrator.
    ADMINISTRATOR;

    /// Whether a client with this role may make a request of this kind, with these flags.
    boolean permits(byte kind, int flags) {
        return compareTo(needed(kind, flags)) >= 0;
    }

    /// Returns the least role that permits a request.
    static Role needed(byte kind, int flags) {
        return switch (kind) {
            case Protocol.HELLO,
                    Protocol.AUTHENTICATE,
                    Protocol.ANNOUNCE,
                    Protocol.BEGIN,
                    Protocol.COMMIT,
                    Protocol.ABORT,
                    Protocol.END,
                    Protocol.STATUS,
                    Protocol.RESOLVE,
                    Protocol.CLEANED,
                    Protocol.BATCH,
                    Protocol.PING,
                    Protocol.CLOSE -> CLIENT;
            case Protocol.NAMESPACE -> (flags & Protocol.FLAG_RETIRED) == 0 ? CLIENT : ADMINISTRATOR;
            case Protocol.SWEPT, Protocol.LOW_WATER -> CLEANER;
            default -> ADMINISTRATOR;
        };
    }
}
