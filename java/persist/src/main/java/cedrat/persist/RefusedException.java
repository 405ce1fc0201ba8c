package cedrat.persist;

/// An object cannot be persistent; why, without the path that leads to it.
final class RefusedException extends Exception {
    private static final long serialVersionUID = 1;

    RefusedException(String why) {
        super(why, null, false, false);
    }
}
