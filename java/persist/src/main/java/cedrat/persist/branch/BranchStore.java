package cedrat.persist.branch;

import cedrat.persist.GraphStore;
import cedrat.persist.GraphStoreException;
import cedrat.persist.record.Persistent;

/// A store, as branches of transactions over several stores use it.
///
/// **Threads:** any.
public interface BranchStore extends Persistent {
    /// Whether it loads and stores nothing any more.
    boolean hasStopped();

    /// Commits what was prepared as a branch.
    void commitPrepared(BranchId branch) throws GraphStoreException;

    /// Rolls back what was prepared as a branch.
    void rollbackPrepared(BranchId branch) throws GraphStoreException;

    /// Forgets the outcome of a branch that an operator has ended.
    void forget(BranchId branch) throws GraphStoreException;

    /// Takes note that a branch of an earlier opening has committed: resolves the names that it has changed
    /// again, and permits loading its objects.
    void finishCommit(BranchId branch, GraphStore.Changed changed) throws GraphStoreException;

    /// Takes note that a branch of an earlier opening was rolled back: permits loading its objects.
    void finishRollback(BranchId branch);
}
