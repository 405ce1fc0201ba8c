package cedrat.persist.store;

import cedrat.persist.GraphStoreException;
import cedrat.persist.StoreException;
import cedrat.persist.codec.ObjectBytes;
import cedrat.persist.codec.Shape;
import cedrat.persist.codec.Words;
import cedrat.persist.form.CollectionForms;
import cedrat.persist.form.FormShape;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;

/// Paths from names to objects of a store, as of the last commit: for messages that refuse an object which
/// is reached from a persistent one.
///
/// **Threads:** one.
final class RootPaths {
    /// Maximum number of objects that are read: an object further away is reported without its path.
    private static final int READS_MAX = 20_000;

    private static final Object[] NOTHING = {};
    /// The forms of keys that are objects of the store, and are shown.
    private static final Set<String> SHOWN = Set.of(
            "java.lang.String", "java.lang.Long", "java.lang.Double", "java.math.BigInteger", "java.math.BigDecimal");

    private final Engine engine;
    private final Map<Long, Step> steps = new HashMap<>();
    private final Deque<Long> next = new ArrayDeque<>();

    /// Reference by which an object was found.
    ///
    /// @param from      the object before it; 0 if a name leads to it
    /// @param reference which of that one's references
    /// @param name      the name, or null
    private record Step(long from, int reference, String name) {}

    RootPaths(Engine engine) {
        this.engine = engine;
    }

    /// Returns a shortest path to an object, or null: none was found nearby.
    String to(long id) {
        for (Root root : engine.roots.values()) {
            add(root.word(), new Step(0, 0, root.name));
        }
        for (int reads = 0; reads < READS_MAX && !steps.containsKey(id) && !next.isEmpty(); reads++) {
            look(next.remove());
        }
        return steps.containsKey(id) ? path(id) : null;
    }

    private void add(long word, Step step) {
        if (Words.isIdentity(word) && steps.putIfAbsent(word, step) == null) {
            next.add(word);
        }
    }

    private void look(long id) {
        ObjectBytes bytes = read(id);
        for (int reference = 0; bytes != null && reference < bytes.referenceCount(); reference++) {
            add(bytes.reference(reference), new Step(id, reference, null));
        }
    }

    /// Null if it cannot be read: it may have been removed meanwhile, be damaged, or be very long.
    private ObjectBytes read(long id) {
        try {
            ObjectBytes bytes = new ObjectBytes(id, engine.graph.read(id));
            return engine.schema.shape(bytes) == null ? null : bytes;
        } catch (GraphStoreException | StoreException | OutOfMemoryError unreadable) {
            return null;
        }
    }

    private String path(long id) {
        List<String> path = new ArrayList<>();
        for (long at = id; at != 0; ) {
            Step step = steps.get(at);
            path.addFirst(step.name != null ? step.name : text(step));
            at = step.from;
        }
        path.removeIf(String::isEmpty);
        return String.join(" → ", path);
    }

    private String text(Step step) {
        ObjectBytes bytes = read(step.from);
        if (bytes == null) {
            return "[…]";
        }
        Shape shape = engine.schema.shape(bytes);
        int key = shape.storedKey(step.reference);
        String shown = key < 0 || key >= bytes.referenceCount() ? null : key(bytes, bytes.reference(key));
        return shown == null ? shape.storedStep(step.reference) : "[" + shown + "]";
    }

    /// A key of a map, or null: it is none of those that can be shown without asking the program.
    private String key(ObjectBytes of, long word) {
        try {
            if (Words.tag(word) == Words.TEXT) {
                return CollectionForms.text(of.shortText(Words.payload(word)));
            }
            if (!Words.isIdentity(word)) {
                return CollectionForms.text(word == 0 ? null : engine.value(word));
            }
            ObjectBytes bytes = read(word);
            return bytes != null
                            && engine.schema.shape(bytes) instanceof FormShape shape
                            && SHOWN.contains(shape.form.name)
                    ? CollectionForms.text(shape.fill(shape.create(bytes), bytes, NOTHING))
                    : null;
        } catch (StoreException | OutOfMemoryError unreadable) {
            return null;
        }
    }
}
