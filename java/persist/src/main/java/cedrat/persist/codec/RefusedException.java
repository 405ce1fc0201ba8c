package cedrat.persist.codec;

/// An object cannot be persistent; why, without the path that leads to it.
public final class RefusedException extends Exception {
    private static final long serialVersionUID = 1;

    public RefusedException(String why) {
        super(why, null, false, false);
    }
}
