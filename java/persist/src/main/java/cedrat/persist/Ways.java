package cedrat.persist;

import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/// How one gets from a name to an object of a store, as it was committed last: for refusals of what is reached from
/// an object that is persistent already.
///
/// **Threads:** one.
final class Ways {
    /// So many objects are read, at most: what is further away is told without its way.
    private static final int READS_MAX = 20_000;

    private final Engine engine;
    private final Map<Long, Step> steps = new HashMap<>();
    private final Deque<Long> next = new ArrayDeque<>();

    /// How an object was come to.
    ///
    /// @param from the object before it; 0 if a name leads to it
    private record Step(long from, String text) {}

    Ways(Engine engine) {
        this.engine = engine;
    }

    /// A shortest way to an object, or null: none was found nearby.
    String to(long id) {
        for (Root root : engine.roots.values()) {
            add(root.word(), 0, root.name);
        }
        for (int reads = 0; reads < READS_MAX && !steps.containsKey(id) && !next.isEmpty(); reads++) {
            look(next.remove());
        }
        return steps.containsKey(id) ? way(id) : null;
    }

    private void add(long word, long from, String text) {
        if (Words.isIdentity(word) && steps.putIfAbsent(word, new Step(from, text)) == null) {
            next.add(word);
        }
    }

    private void look(long id) {
        ObjectBytes bytes;
        Shape shape;
        try {
            bytes = new ObjectBytes(id, engine.graph.read(id));
            shape = engine.schema.shape(bytes);
        } catch (GraphStoreException | PersistenceException | OutOfMemoryError unreadable) {
            // It may have been removed meanwhile, be damaged, or be very long. There may be other ways.
            return;
        }
        for (int reference = 0; reference < bytes.referenceCount(); reference++) {
            add(bytes.reference(reference), id, shape.storedStep(reference));
        }
    }

    private String way(long id) {
        List<String> way = new ArrayList<>();
        for (long at = id; at != 0; ) {
            Step step = steps.get(at);
            way.addFirst(step.text);
            at = step.from;
        }
        return String.join(" → ", way);
    }
}
