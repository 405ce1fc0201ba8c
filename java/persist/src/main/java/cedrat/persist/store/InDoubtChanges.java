package cedrat.persist.store;

import cedrat.persist.GraphStore;
import cedrat.persist.GraphStoreException;
import cedrat.persist.InDoubtException;
import cedrat.persist.branch.BranchId;
import cedrat.persist.codec.Words;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;

/// Changes of branches that are in doubt since an earlier opening, and branches that an operator has ended.
///
/// - Neither an object that such a branch has changed, nor the object of a name that it has changed, is in
///   memory before the branch has ended. So no outdated value is read, and nothing has to be updated. Each
///   load checks that first.
///
/// **Threads:** any.
final class InDoubtChanges {
    private final Map<BranchId, GraphStore.Changed> branches = new ConcurrentHashMap<>();
    /// Names in the store of the branches that have changed an object, or a name.
    private final Map<Long, byte[]> objects = new ConcurrentHashMap<>();
    private final Map<String, byte[]> roots = new ConcurrentHashMap<>();

    /// Whether each was committed.
    private final Map<BranchId, Boolean> heuristic = new HashMap<>();

    InDoubtChanges(GraphStore graph) throws GraphStoreException {
        for (byte[] name : graph.inDoubt()) {
            GraphStore.Changed changed = graph.changedBy(name);
            Arrays.stream(changed.identities()).forEach(id -> objects.put(id, name));
            changed.roots().forEach(root -> roots.put(root, name));
            BranchId branch = BranchId.stored(name);
            if (branch != null) {
                branches.put(branch, changed);
            }
        }
        for (GraphStore.Heuristic ended : graph.heuristic()) {
            BranchId branch = BranchId.stored(ended.branch());
            if (branch != null) {
                heuristic.put(branch, ended.isCommitted());
            }
        }
    }

    /// @throws InDoubtException if it was changed
    void check(long identity) {
        byte[] branch = objects.isEmpty() ? null : objects.get(identity);
        if (branch != null) {
            throw new InDoubtException("the object " + Words.show(identity), BranchId.show(branch));
        }
    }

    /// @throws InDoubtException if it was changed
    void check(String root) {
        byte[] branch = roots.isEmpty() ? null : roots.get(root);
        if (branch != null) {
            throw new InDoubtException("the name \"" + root + "\"", BranchId.show(branch));
        }
    }

    /// Returns the branches that a transaction manager may know.
    Map<BranchId, GraphStore.Changed> branches() {
        return new HashMap<>(branches);
    }

    /// Returns the branches that an operator has ended, and whether each was committed.
    Map<BranchId, Boolean> heuristic() {
        return Map.copyOf(heuristic);
    }

    /// Allows loading of the objects that the branch has changed.
    void end(BranchId branch) {
        GraphStore.Changed changed = branches.remove(branch);
        Arrays.stream(changed.identities()).forEach(objects::remove);
        List.copyOf(changed.roots()).forEach(roots::remove);
    }
}
