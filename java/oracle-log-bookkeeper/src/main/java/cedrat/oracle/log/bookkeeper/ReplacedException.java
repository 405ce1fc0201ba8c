package cedrat.oracle.log.bookkeeper;

import java.io.IOException;

/// Another server owns the log, or may own it. A server that stands by again replays the other server's
/// decisions.
final class ReplacedException extends IOException {
    private static final long serialVersionUID = 1;

    ReplacedException(String why, Throwable cause) {
        super(why + ": start this server again, and it stands by", cause);
    }
}
