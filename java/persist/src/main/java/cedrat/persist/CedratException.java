package cedrat.persist;

/// An exception of a transaction or a store that cannot do what the program asks for. Misuse, such as a call on
/// a closed store, throws [IllegalStateException], and a change that no rollback could restore throws
/// [UnsupportedOperationException].
public abstract sealed class CedratException extends RuntimeException permits DeadlockException, StoreException {
    private static final long serialVersionUID = 1;

    CedratException(String message, Throwable cause) {
        super(message, cause);
    }
}
