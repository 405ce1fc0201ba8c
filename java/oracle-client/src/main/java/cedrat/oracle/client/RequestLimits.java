package cedrat.oracle.client;

import cedrat.oracle.protocol.ErrorCode;
import cedrat.oracle.protocol.Protocol;

/// Refuses requests that no frame of the protocol can carry.
final class RequestLimits {
    private RequestLimits() {}

    /// @param rowsMax the largest number of rows that the server takes
    /// @throws RefusedException if a commit cannot have so many rows, written and read, or so many bytes of keys
    static void checkCommit(long rows, long keyBytes, int rowsMax) {
        if (rows > rowsMax) {
            throw new RefusedException(
                    ErrorCode.TOO_MANY_ROWS,
                    "cannot commit " + rows + " rows in a transaction: at most " + rowsMax + " are possible",
                    null);
        }
        long length = rows * Long.BYTES + keyBytes;
        if (length > (long) Protocol.ROWS_MAX * Long.BYTES) {
            throw new RefusedException(
                    ErrorCode.TOO_LONG,
                    "cannot commit " + length + " bytes of rows and keys in a transaction: at most "
                            + Protocol.ROWS_MAX * Long.BYTES + " are possible",
                    null);
        }
    }

    /// @throws RefusedException if a request cannot name so many transactions
    static void checkStarts(int count) {
        if (count < 1 || count > Protocol.STARTS_MAX) {
            throw new RefusedException(
                    ErrorCode.MALFORMED,
                    "cannot ask for " + count + " transactions at once: 1 to " + Protocol.STARTS_MAX + " are possible",
                    null);
        }
    }
}
