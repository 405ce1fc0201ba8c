package cedrat.persist;

import java.util.Arrays;

/// What a transaction makes persistent collections of, from when they lead to it: others know by that whose it is,
/// and wait for the collection's lock.
///
/// - J3   All that is new behind a part is a part as well: nodes are linked with each other before the collection
///        leads to the first of them.
///
/// **Threads:** one at a time.
final class NewParts {
    private static final Part[] NONE = {};

    private Part[] parts = NONE;
    private int count;

    /// By class, the fields that lead to other parts.
    private static final ClassValue<Slot.Field[]> LINKS = new ClassValue<>() {
        @Override
        protected Slot.Field[] computeValue(Class<?> type) {
            return Arrays.stream(Recorder.get().fields().references(type))
                    .filter(field -> mayBe(field.reflected.getType().descriptorString()))
                    .toArray(Slot.Field[]::new);
        }
    };

    /// Whether a field of a collection, or of a node of one, leads to what the collection is made of, as the field's
    /// type says: to an array or a node.
    static boolean mayBe(String descriptor) {
        return descriptor.startsWith("[") || isNode(descriptor);
    }

    private static boolean isNode(String descriptor) {
        return descriptor.startsWith("Ljava/util/")
                && (descriptor.endsWith("$Node;")
                        || descriptor.endsWith("$Entry;")
                        || descriptor.endsWith("$TreeNode;"))
                && descriptor.indexOf('/', "Ljava/util/".length()) < 0;
    }

    /// Whether the arrays of references that a class stores to have nodes as their elements. `HashMap` itself stores
    /// by a barrier of its own.
    static boolean isOfTable(String internalName) {
        return internalName.equals("java/util/Hashtable") || internalName.equals("java/util/HashMap$TreeNode");
    }

    int size() {
        return count;
    }

    /// A collection is about to lead to something.
    ///
    /// @param first what the transaction has made
    void add(Engine engine, ObjectIdentity owner, Object first, TopLevel by) {
        int from = count;
        addIfNew(engine, owner, first, by);
        // The list of what was added is that of what is to be looked at.
        for (int next = from; next < count; next++) {
            Object part = parts[next].get();
            if (part instanceof Object[] table) {
                if (isNode(table.getClass().componentType().descriptorString())) {
                    for (Object node : table) {
                        addIfNew(engine, owner, node, by);
                    }
                }
            } else if (part != null) {
                for (Slot.Field link : LINKS.get(part.getClass())) {
                    addIfNew(engine, owner, link.read(part), by);
                }
            }
        }
    }

    private void addIfNew(Engine engine, ObjectIdentity owner, Object object, TopLevel by) {
        if (object == null || !by.made.has(0, object)) {
            return;
        }
        Part part = engine.addPart(owner, object, by.owner);
        if (part == null) {
            return;
        }
        if (count == parts.length) {
            parts = Arrays.copyOf(parts, Math.max(8, 2 * count));
        }
        parts[count++] = part;
    }

    /// Of those that were added since there were `mark`, all are taken back that nothing was stored of.
    ///
    /// @param when in the order of what transactions take back
    void takeBack(int mark, Locks.Owner by, long when) {
        while (count > mark) {
            parts[--count].takeBack(by, when);
            parts[count] = null;
        }
    }
}
