package cedrat.persist.record;

import cedrat.persist.GraphStore;
import cedrat.persist.GraphStoreException;
import cedrat.persist.StoreException;

/// Changes of a top-level transaction beside objects, in pages and heaps of one store: rolled back with its objects,
/// and committed with them by one record.
///
/// - A nested transaction has a savepoint from its first use of pages and heaps on; by then those around it
///   have theirs, too.
///
/// **Threads:** that of the transaction.
public final class Faces {
    /// An operation on them.
    @FunctionalInterface
    public interface Work<T> {
        /// Does it.
        T in(GraphStore.Faces faces) throws GraphStoreException;
    }

    final Persistent store;
    private final GraphStore.Faces faces;
    /// Something was changed; otherwise there is nothing to commit, and objects of another store may change.
    private boolean hasChanged;
    /// Why it cannot commit: something could not be taken back. Or null.
    private GraphStoreException failure;

    private Faces(Persistent store, GraphStore.Faces faces) {
        this.store = store;
        this.faces = faces;
    }

    /// Returns the faces of a transaction, begun if there are none.
    ///
    /// @throws StoreException if it has changed pages or heaps of another store
    static Faces of(TransactionLevel transaction, Persistent store) throws GraphStoreException {
        TopLevel top = transaction.top;
        if (top.faces == null) {
            store.check();
            top.faces = new Faces(store, store.beginFaces());
        }
        if (top.faces.store != store) {
            throw new StoreException("the transaction has used records or heaps of another store: use those of "
                    + "each store in a transaction of its own");
        }
        return top.faces;
    }

    <T> T run(TransactionLevel transaction, boolean toWrite, Work<T> work) throws GraphStoreException {
        mark(transaction);
        hasChanged |= toWrite;
        return work.in(faces);
    }

    /// Returns the faces of a transaction, if they are to be committed in a store; otherwise null.
    public static Faces changed(TopLevel top, Persistent store) {
        return top.faces != null && top.faces.store == store && top.faces.hasChanged ? top.faces : null;
    }

    private void mark(TransactionLevel level) throws GraphStoreException {
        if (level.outer != null && level.savepoint < 0) {
            mark(level.outer);
            level.savepoint = faces.savepoint();
        }
    }

    public GraphStore.Committed commit(byte[] buffer, int length) throws GraphStoreException {
        if (failure != null) {
            throw failure;
        }
        return faces.commit(buffer, length);
    }

    /// Takes back what a transaction, and those nested in it, have changed. If that fails, none of those around it
    /// commits.
    static void rollBack(TransactionLevel level) {
        Faces all = level.top.faces;
        if (all == null) {
            return;
        }
        if (level.outer == null) {
            end(level.top);
        } else if (level.savepoint >= 0) {
            try {
                all.faces.rollbackTo(level.savepoint);
            } catch (GraphStoreException e) {
                all.failure = e;
            }
        }
    }

    /// The top-level transaction has ended; what is not committed is rolled back.
    static void end(TopLevel top) {
        Faces ended = top.faces;
        // Whatever comes of that, it is not ended twice.
        top.faces = null;
        if (ended != null) {
            ended.faces.close();
        }
    }
}
