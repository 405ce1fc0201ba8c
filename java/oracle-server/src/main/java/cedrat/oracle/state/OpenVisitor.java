package cedrat.oracle.state;

/// Receives open transactions ([StatusOracle#forEachOpen]).
@FunctionalInterface
public interface OpenVisitor {
    /// A transaction, and its session.
    void visit(long start, int session);
}
