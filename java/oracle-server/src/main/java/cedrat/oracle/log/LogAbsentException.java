package cedrat.oracle.log;

import java.io.IOException;

/// A log that has to exist is missing or has no entry. Nothing was created.
public final class LogAbsentException extends IOException {
    private static final long serialVersionUID = 1L;

    /// An error of the log at `place`; `isMissing` says whether even an empty one is missing.
    public LogAbsentException(String place, boolean isMissing) {
        super("cannot open the log " + place + ", because it " + (isMissing ? "does not exist" : "has no entry")
                + ": check the path, or initialise a new oracle there with `cedrat-oracle init`");
    }
}
