package cedrat.oracle.log;

import java.io.IOException;

/// A log that was to be created has entries already. It was not changed.
public final class LogExistsException extends IOException {
    private static final long serialVersionUID = 1L;

    /// An error of the log at `place`.
    public LogExistsException(String place) {
        super("cannot initialise an oracle with the log " + place + ", because this log has entries already: start its "
                + "server with `cedrat-oracle serve`, or choose another path");
    }
}
