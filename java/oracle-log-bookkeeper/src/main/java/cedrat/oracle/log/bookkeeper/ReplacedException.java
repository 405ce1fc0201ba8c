package cedrat.oracle.log.bookkeeper;

import java.io.IOException;

/// Somebody else has the log, or may have it. A server that stands by again replays what that one has
/// decided.
final class ReplacedException extends IOException {
    private static final long serialVersionUID = 1;

    ReplacedException(String why, Throwable cause) {
        super(why + "; start this server again, and it waits for its next turn", cause);
    }
}
