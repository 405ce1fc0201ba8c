package cedrat.persist.woven.far;

/// Has fields that subclasses in another package read.
public class Protected {
    protected Object hidden;
    public Object shown;
    protected Protected other;
    public Unnameable unnameable;

    /// What may lie in the last one.
    public static Object makeUnnameable() {
        return new Unnameable();
    }
}
