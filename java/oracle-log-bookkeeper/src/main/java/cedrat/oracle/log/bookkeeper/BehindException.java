package cedrat.oracle.log.bookkeeper;

import java.io.IOException;

/// The next entry to replay has been deleted: the log's owner did not need it any more.
final class BehindException extends IOException {
    private static final long serialVersionUID = 1;

    BehindException(IOException cause) {
        super("the log was truncated beyond the next entry to read", cause);
    }
}
