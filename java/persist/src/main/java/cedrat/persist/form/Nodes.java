package cedrat.persist.form;

import cedrat.persist.memory.Memory;
import java.lang.reflect.Field;
import java.util.Hashtable;
import java.util.LinkedHashMap;
import java.util.LinkedList;
import java.util.Map;
import java.util.TreeMap;
import java.util.function.Consumer;

/// How a class of collections of the JDK is made of nodes, one for each entry.
///
/// **Threads:** any; what it looks at is locked by the caller.
abstract class Nodes {
    private final Class<?> type;
    /// Field names of a node for its key or element, its value, and the next node in the Java collection's order.
    final String keyName;

    final String valueName;
    final String nextName;
    private final long key;
    private final long value;
    private final long next;

    /// @param valueName or null, if there are none
    /// @param nextName  or null, if the collection has no order that has to be stored
    Nodes(Class<?> type, String keyName, String valueName, String nextName) {
        this.type = type;
        this.keyName = keyName;
        this.valueName = valueName;
        this.nextName = nextName;
        key = offset(type, keyName);
        value = valueName == null ? -1 : offset(type, valueName);
        next = nextName == null ? -1 : offset(type, nextName);
    }

    /// The offset of a field that a class has or inherits.
    private static long offset(Class<?> type, String name) {
        for (Class<?> declaring = type; declaring != null; declaring = declaring.getSuperclass()) {
            for (Field field : declaring.getDeclaredFields()) {
                if (field.getName().equals(name)) {
                    return Memory.offset(field);
                }
            }
        }
        throw new AssertionError("this JDK has no " + type.getName() + "." + name);
    }

    boolean isNode(Object object) {
        return type.isInstance(object);
    }

    Object key(Object node) {
        return Memory.getReference(node, key);
    }

    Object value(Object node) {
        return Memory.getReference(node, value);
    }

    /// The node behind one, in the collection's order.
    Object next(Object node) {
        return Memory.getReference(node, next);
    }

    /// The array by which nodes are found, or null.
    Object[] table(Object collection) {
        return null;
    }

    /// The first node of a collection with an order of its own, or null.
    Object first(Object collection) {
        throw new AssertionError("it has no order of its own");
    }

    /// All nodes, in their order.
    abstract void forEach(Object collection, Consumer<Object> visitor);

    /// Whether a node is one of a collection's, and not of another's or none any more. In a chain of a hash table that
    /// takes as many steps as the table itself takes to find the node's key; where keys have one hash, a `HashMap`
    /// makes trees of them, and a `Hashtable` does not.
    abstract boolean contains(Object collection, Object node);

    /// Nodes that are entries of a map.
    private abstract static class OfMap extends Nodes {
        OfMap(Class<?> type, String valueName, String nextName) {
            super(type, "key", valueName, nextName);
        }

        @Override
        void forEach(Object map, Consumer<Object> visitor) {
            for (Map.Entry<?, ?> entry : ((Map<?, ?>) map).entrySet()) {
                visitor.accept(entry);
            }
        }
    }

    /// Nodes of a `HashMap`, a `LinkedHashMap` or a `Hashtable`.
    ///
    /// @param map     its class
    /// @param type    that of its nodes
    static Nodes hashed(Class<?> map, Class<?> type, String valueName, String nextName) {
        long table = Memory.offset(map, "table");
        long hash = offset(type, "hash");
        long chain = offset(type, "next");
        boolean isModulo = map == Hashtable.class;
        long first = nextName == null ? -1 : Memory.offset(LinkedHashMap.class, "head");
        return new OfMap(type, valueName, nextName) {
            @Override
            Object[] table(Object collection) {
                return (Object[]) Memory.getReference(collection, table);
            }

            @Override
            Object first(Object collection) {
                return Memory.getReference(collection, first);
            }

            @Override
            boolean contains(Object collection, Object node) {
                Object[] buckets = table(collection);
                if (buckets == null || buckets.length == 0) {
                    return false;
                }
                int bits = (int) Memory.getBits(node, hash, 'I');
                int bucket = isModulo ? (bits & Integer.MAX_VALUE) % buckets.length : bits & buckets.length - 1;
                Object at = buckets[bucket];
                if (TreeLinks.OF_HASH_MAP.areIn(at) && TreeLinks.OF_HASH_MAP.areIn(node)) {
                    // Its first node is not always its root.
                    Object root = TreeLinks.OF_HASH_MAP.root(at);
                    return root != null && root == TreeLinks.OF_HASH_MAP.root(node);
                }
                while (at != null && at != node) {
                    at = Memory.getReference(at, chain);
                }
                return at != null;
            }
        };
    }

    /// The links of a tree's nodes: a node is found from its root in as many steps as the tree is high, however many
    /// nodes of the same hash there are.
    private static final class TreeLinks {
        /// Of buckets of a `HashMap` that have many nodes.
        static final TreeLinks OF_HASH_MAP = new TreeLinks(TreeLinks.ofHashMap());

        private final Class<?> type;
        private final long parent;
        private final long left;
        private final long right;

        TreeLinks(Class<?> type) {
            this.type = type;
            parent = Memory.offset(type, "parent");
            left = Memory.offset(type, "left");
            right = Memory.offset(type, "right");
        }

        private static Class<?> ofHashMap() {
            try {
                return Class.forName("java.util.HashMap$TreeNode");
            } catch (ClassNotFoundException e) {
                throw new AssertionError("this JDK has no trees in HashMap", e);
            }
        }

        boolean areIn(Object node) {
            return type.isInstance(node);
        }

        /// The root of the tree that a node is in, or null: what leads up from it does not lead down to it.
        Object root(Object node) {
            Object at = node;
            Object above = Memory.getReference(at, parent);
            while (above != null) {
                if (Memory.getReference(above, left) != at && Memory.getReference(above, right) != at) {
                    return null;
                }
                at = above;
                above = Memory.getReference(at, parent);
            }
            return at;
        }
    }

    /// Nodes of a `TreeMap`.
    static Nodes sorted(Class<?> type, String valueName) {
        long root = Memory.offset(TreeMap.class, "root");
        TreeLinks links = new TreeLinks(type);
        return new OfMap(type, valueName, null) {
            @Override
            boolean contains(Object collection, Object node) {
                Object top = links.root(node);
                return top != null && top == Memory.getReference(collection, root);
            }
        };
    }

    /// Nodes of a `LinkedList`.
    static Nodes linked(Class<?> type) {
        long first = Memory.offset(LinkedList.class, "first");
        long before = Memory.offset(type, "prev");
        return new Nodes(type, "item", null, "next") {
            @Override
            Object first(Object list) {
                return Memory.getReference(list, first);
            }

            @Override
            void forEach(Object list, Consumer<Object> visitor) {
                for (Object node = Memory.getReference(list, first); node != null; node = next(node)) {
                    visitor.accept(node);
                }
            }

            @Override
            boolean contains(Object list, Object node) {
                Object previous = Memory.getReference(node, before);
                return previous == null ? Memory.getReference(list, first) == node : next(previous) == node;
            }
        };
    }
}
