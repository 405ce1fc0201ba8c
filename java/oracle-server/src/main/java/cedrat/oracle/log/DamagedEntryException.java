package cedrat.oracle.log;

/// Bytes of a log are no entry, or one of another version.
public final class DamagedEntryException extends Exception {
    private static final long serialVersionUID = 1L;

    /// An error that says what is wrong, and where.
    public DamagedEntryException(String message) {
        super(message);
    }

    /// The same error, whose message begins with the place of the bytes.
    public DamagedEntryException in(String place) {
        DamagedEntryException same = new DamagedEntryException(place + ": " + getMessage());
        same.setStackTrace(getStackTrace());
        return same;
    }
}
