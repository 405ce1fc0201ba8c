package cedrat.oracle.tables;

/// Bound of the speed of a [Cleaner] or a [Pruner].
@FunctionalInterface
public interface Pace {
    /// No bound.
    Pace UNLIMITED = rows -> {};

    /// Called between batches of rows, with the number of rows of the last batch, on the thread that goes over the
    /// tables; it may wait. An exception ends the sweep or the pruning, which is then repeated from the beginning.
    void visited(int rows);
}
