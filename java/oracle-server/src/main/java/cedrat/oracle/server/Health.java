package cedrat.oracle.server;

import java.util.Objects;

/// What a server is doing, and why. **Threads:** any may ask and say.
///
/// ```text
/// Starting ──▶ Standby ──▶ Serving ──▶ Ended
///     │  └────────────────────▲  │
///     └───────────────────────┴──┴──▶ Failed
/// ```
public final class Health {
    /// What it is doing.
    public enum State {
        /// It opens its log.
        STARTING,
        /// Another one serves; it waits to take over.
        STANDBY,
        /// It answers clients.
        SERVING,
        /// It has been told to end.
        ENDED,
        /// It has stopped by itself, and promises nothing any more.
        FAILED
    }

    /// A state, and in words why.
    public record Now(State state, String why) {}

    private volatile Now now = new Now(State.STARTING, "the log is being opened");

    /// Of a server that is being started.
    public Health() {}

    /// What it is doing now.
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
