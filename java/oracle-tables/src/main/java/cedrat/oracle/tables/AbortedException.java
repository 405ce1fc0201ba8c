package cedrat.oracle.tables;

/// The transaction has aborted: another has committed something that it wrote (or has read), or its client
/// was thought dead. Nothing of it was kept. Run it again.
public final class AbortedException extends RuntimeException {
    private static final long serialVersionUID = 1L;

    AbortedException(String message) {
        super(message, null);
    }

    AbortedException(String message, Throwable cause) {
        super(message, cause);
    }
}
