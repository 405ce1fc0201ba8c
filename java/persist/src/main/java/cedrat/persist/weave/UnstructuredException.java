package cedrat.persist.weave;

/// A method begins a transaction and does not close it on each way out of the method.
final class UnstructuredException extends Exception {
    private static final long serialVersionUID = 1;

    UnstructuredException(String message) {
        super(message);
    }
}
