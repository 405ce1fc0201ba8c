package cedrat.oracle.server;

import java.util.Objects;

/// Current state of a server, and its cause. **Threads:** any may read and change it.
///
/// ```text
/// Starting ──▶ Standby ──▶ Serving ──▶ Ended
///     │  └────────────────────▲  │
///     └───────────────────────┴──┴──▶ Failed
/// ```
public final class Health {
    /// State of a server.
    public enum State {
        /// It opens its log.
        STARTING,
        /// Another one serves; it waits to take over.
        STANDBY,
        /// It answers clients.
        SERVING,
        /// It was stopped.
        ENDED,
        /// It has stopped by itself, and promises nothing any more.
        FAILED
    }

    /// A state, and in words why.
    public record Now(State state, String why) {}

    private volatile Now now = new Now(State.STARTING, "the log is being opened");

    /// Health of a server that is starting.
    public Health() {}

    /// Returns the current state.
    public Now now() {
        return now;
    }

    /// It does something else now. Who has failed remains so.
    public synchronized void become(State state, String why) {
        Objects.requireNonNull(why);
        if (now.state != State.FAILED) {
            now = new Now(state, why);
        }
    }
}
