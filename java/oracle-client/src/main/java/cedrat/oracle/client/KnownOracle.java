package cedrat.oracle.client;

import cedrat.oracle.protocol.FrameWriter;
import cedrat.oracle.protocol.Protocol;
import cedrat.oracle.protocol.ReplyReader;

/// The oracle that a client has reached. After its first welcome the client accepts no other oracle, and no other
/// generation. For one thread at a time, except [#rowsMax].
final class KnownOracle {
    private long identity = Protocol.IDENTITY_NONE;
    private long generation = Protocol.IDENTITY_NONE;
    private volatile int rowsMax = Protocol.ROWS_MAX;

    /// Returns the identity; [Protocol#IDENTITY_NONE] if no server has stated it.
    long identity() {
        return identity;
    }

    /// Returns the largest number of rows that the last server accepts in one commit. **Threads:** any may call.
    int rowsMax() {
        return rowsMax;
    }

    /// Writes the hello of a session.
    void hello(FrameWriter out, long id, long session) {
        out.hello(id, lowestVersion(), Protocol.VERSION, session, identity, generation);
    }

    /// The log of an oracle with an identity, or of a restored one, cannot be read by servers of versions before.
    private int lowestVersion() {
        if (identity == Protocol.IDENTITY_NONE) {
            return Protocol.VERSION_LOWEST;
        }
        return generation == identity ? Protocol.VERSION_IDENTITY : Protocol.VERSION_GENERATION;
    }

    /// A server has welcomed the client.
    void welcome(ReplyReader reader) {
        rowsMax = Math.min(reader.rowsMax(), Protocol.ROWS_MAX);
        identity = reader.identity();
        generation = reader.version() < Protocol.VERSION_GENERATION ? identity : reader.generation();
    }
}
