package cedrat.persist.woven.weave.far;

/// Has fields that subclasses in another package read.
public class Protected {
    protected Object hidden;
    public Object shown;
    protected Protected other;
    public Unnameable unnameable;

    /// Returns an object that the last one may hold.
    public static Object makeUnnameable() {
        return new Unnameable();
    }
}
