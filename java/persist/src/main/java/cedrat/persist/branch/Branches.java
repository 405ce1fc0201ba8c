package cedrat.persist.branch;

import cedrat.persist.GraphStore;
import cedrat.persist.GraphStoreException;
import cedrat.persist.record.Recorder;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.LongSupplier;
import java.util.stream.Stream;
import javax.transaction.xa.XAException;
import javax.transaction.xa.Xid;

/// The branches of one store that are neither committed nor rolled back, and those that an operator has ended.
///
/// **Threads:** any.
public final class Branches {
    final BranchStore store;
    final Recorder recorder;
    private final LongSupplier nanos;
    /// Nothing is known of any branch.
    private volatile boolean isClosed;

    private final Map<BranchId, Branch> all = new ConcurrentHashMap<>();

    /// Branches that an operator has ended, until they are forgotten, and whether each was committed.
    private final Map<BranchId, Boolean> heuristic;

    /// @param inDoubt   those of earlier openings
    /// @param heuristic those that an operator has ended, and whether each was committed
    /// @param nanos     the clock of timeouts
    public Branches(
            BranchStore store,
            Recorder recorder,
            Map<BranchId, GraphStore.Changed> inDoubt,
            Map<BranchId, Boolean> heuristic,
            LongSupplier nanos) {
        this.store = store;
        this.recorder = recorder;
        this.nanos = nanos;
        this.heuristic = new ConcurrentHashMap<>(heuristic);
        inDoubt.forEach((id, changed) -> all.put(id, new Branch(this, id, changed)));
    }

    /// Begins one on this thread.
    ///
    /// The monitor keeps it apart from [#close], which leaves none behind that has neither prepared nor ended.
    synchronized void begin(BranchId id, int timeoutSeconds) throws XAException {
        if (isOver()) {
            throw over();
        }
        Branch branch = new Branch(this, id, nanos, timeoutSeconds);
        if (heuristic.containsKey(id) || all.putIfAbsent(id, branch) != null) {
            throw BranchResource.failure(XAException.XAER_DUPID, "there is a branch " + id + " already", null);
        }
        boolean isBegun = false;
        try {
            branch.begin();
            isBegun = true;
        } finally {
            if (!isBegun) {
                all.remove(id, branch);
            }
        }
    }

    Branch known(BranchId id) throws XAException {
        Branch branch = all.get(id);
        if (branch == null) {
            checkHeuristic(id);
            throw unknown(id);
        }
        return branch;
    }

    /// @throws XAException the outcome, if an operator has ended the branch
    private void checkHeuristic(BranchId id) throws XAException {
        Boolean isCommitted = isOver() ? null : heuristic.get(id);
        if (isCommitted != null) {
            throw BranchResource.failure(
                    isCommitted ? XAException.XA_HEURCOM : XAException.XA_HEURRB,
                    "an operator has " + (isCommitted ? "committed" : "rolled back") + " the branch " + id
                            + " because its transaction manager was lost: compare the other stores, then call forget",
                    null);
        }
    }

    /// Forgets the outcome of a branch that an operator has ended.
    void forget(BranchId id) throws XAException {
        if (isOver()) {
            throw over();
        }
        if (!heuristic.containsKey(id)) {
            throw known(id).notHeuristic();
        }
        try {
            store.check();
            store.forget(id);
        } catch (GraphStoreException e) {
            throw BranchResource.failure(XAException.XAER_RMFAIL, e.getMessage(), store.refused(e));
        } catch (RuntimeException | Error e) {
            throw BranchResource.failure(XAException.XAER_RMFAIL, e.getMessage(), e);
        }
        heuristic.remove(id);
    }

    /// Returns the error for a branch that does not exist. For a store that is closed or has stopped this
    /// is unknown.
    XAException unknown(BranchId id) {
        return isOver() ? over() : BranchResource.failure(XAException.XAER_NOTA, "there is no branch " + id, null);
    }

    private boolean isOver() {
        return isClosed || store.hasStopped();
    }

    private static XAException over() {
        return BranchResource.failure(
                XAException.XAER_RMFAIL,
                "the store is closed or has stopped: open it, and use the resource of the new opening",
                null);
    }

    void remove(Branch branch) {
        all.remove(branch.id, branch);
    }

    /// Returns those that are prepared, and those that an operator has ended.
    Xid[] recoverable() throws XAException {
        if (isOver()) {
            throw over();
        }
        Stream<BranchId> inDoubt =
                all.values().stream().filter(Branch::isInDoubt).map(branch -> branch.id);
        return Stream.concat(inDoubt, heuristic.keySet().stream()).toArray(Xid[]::new);
    }

    /// The store closes. Prepared branches stay in doubt there.
    ///
    /// @throws IllegalStateException if one has not prepared
    public Void close() {
        beginClosing();
        all.values().forEach(Branch::leave);
        all.clear();
        return null;
    }

    private synchronized void beginClosing() {
        for (Branch branch : all.values()) {
            if (!branch.isInDoubt()) {
                throw new IllegalStateException("cannot close the store, because the branch " + branch.id
                        + " is active: end it with the transaction manager first");
            }
        }
        isClosed = true;
    }
}
