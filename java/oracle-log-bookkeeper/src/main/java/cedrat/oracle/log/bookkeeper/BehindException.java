package cedrat.oracle.log.bookkeeper;

import java.io.IOException;

/// What was to be replayed next is gone: whoever has the log did not need it any more.
final class BehindException extends IOException {
    private static final long serialVersionUID = 1;

    BehindException(String why, IOException cause) {
        super(why, cause);
    }
}
