package cedrat.persist.form;

import cedrat.persist.codec.ObjectBytes;
import cedrat.persist.codec.ObjectWriter;
import cedrat.persist.memory.Fields;
import cedrat.persist.memory.Memory;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Hashtable;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.LinkedList;
import java.util.Map;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.function.Supplier;

/// Forms of the maps, sets and lists of `java.util` that are made of nodes.
final class NodeForms {
    private static final Class<?> HASH_NODE = CollectionForms.nested(HashMap.class, "Node");
    private static final Class<?> LINKED_NODE = CollectionForms.nested(LinkedHashMap.class, "Entry");
    private static final Class<?> TREE_NODE = CollectionForms.nested(TreeMap.class, "Entry");

    private NodeForms() {}

    /// A map.
    private static class OfMap extends NodeForm {
        private final Supplier<Map<Object, Object>> maker;

        OfMap(Class<?> type, Nodes nodes, Fields slots, boolean hasComparator, Supplier<Map<Object, Object>> maker) {
            super(type.getName(), nodes, slots, hasComparator);
            this.maker = maker;
        }

        @Override
        int size(Object map) {
            return ((Map<?, ?>) map).size();
        }

        @Override
        @SuppressWarnings("unchecked")
        void add(Object map, Object key, Object value) {
            ((Map<Object, Object>) map).put(key, value);
        }

        @Override
        Object make(int flags) {
            return maker.get();
        }
    }

    /// A list, or a set that has its entries in a map.
    private static class OfElements extends NodeForm {
        private final long inner;
        private final Supplier<Collection<Object>> maker;

        /// @param inner the offset of a set's map, or -1: it is a list
        OfElements(
                Class<?> type,
                Nodes nodes,
                Fields slots,
                boolean hasComparator,
                long inner,
                Supplier<Collection<Object>> maker) {
            super(type.getName(), nodes, slots, hasComparator);
            this.inner = inner;
            this.maker = maker;
        }

        @Override
        Object inner(Object collection) {
            return inner < 0 ? collection : Memory.getReference(collection, inner);
        }

        @Override
        int size(Object collection) {
            return ((Collection<?>) collection).size();
        }

        @Override
        @SuppressWarnings("unchecked")
        void add(Object collection, Object element, Object none) {
            ((Collection<Object>) collection).add(element);
        }

        @Override
        Object make(int flags) {
            return maker.get();
        }
    }

    static void addTo(Forms forms, Fields slots) {
        addMaps(forms, slots);
        addSets(forms, slots);
        Nodes ofList = Nodes.linked(CollectionForms.nested(LinkedList.class, "Node"));
        forms.add(LinkedList.class, new OfElements(LinkedList.class, ofList, slots, false, -1, LinkedList::new));
    }

    private static void addMaps(Forms forms, Fields slots) {
        Nodes hashed = Nodes.hashed(HashMap.class, HASH_NODE, "value", null);
        forms.add(HashMap.class, new OfMap(HashMap.class, hashed, slots, false, HashMap::new));
        addParted(forms, HashMap.class, hashed, true);
        Nodes ofTable = Nodes.hashed(Hashtable.class, CollectionForms.nested(Hashtable.class, "Entry"), "value", null);
        forms.add(Hashtable.class, new OfMap(Hashtable.class, ofTable, slots, false, Hashtable::new));
        Nodes linked = Nodes.hashed(HashMap.class, LINKED_NODE, "value", "after");
        long accessOrder = Memory.offset(LinkedHashMap.class, "accessOrder");
        forms.add(LinkedHashMap.class, new OfMap(LinkedHashMap.class, linked, slots, false, LinkedHashMap::new) {
            @Override
            int flags(Object map) {
                return (int) Memory.getBits(map, accessOrder, 'Z');
            }

            @Override
            Object make(int flags) {
                return new LinkedHashMap<>(16, 0.75f, flags != 0);
            }
        });
        long comparator = Memory.offset(TreeMap.class, "comparator");
        Nodes sorted = Nodes.sorted(TREE_NODE, "value");
        forms.add(TreeMap.class, new OfMap(TreeMap.class, sorted, slots, true, TreeMap::new) {
            @Override
            Object comparator(Object map) {
                return ((TreeMap<?, ?>) map).comparator();
            }

            @Override
            void setComparator(Object map, Object[] references, ObjectBytes in) {
                CollectionForms.setComparator(map, comparator, references, in);
            }
        });
    }

    private static void addParted(Forms forms, Class<?> type, Nodes nodes, boolean hasValues) {
        PartForm part = new PartForm(type.getName() + ".part", hasValues);
        PartedForm parted = new PartedForm(type.getName() + ".parts", part, hasValues, nodes);
        forms.addParted(type, parted, part, hasValues);
    }

    private static void addSets(Forms forms, Fields slots) {
        long map = Memory.offset(HashSet.class, "map");
        Nodes hashed = Nodes.hashed(HashMap.class, HASH_NODE, null, null);
        forms.add(HashSet.class, new OfElements(HashSet.class, hashed, slots, false, map, HashSet::new));
        addParted(forms, HashSet.class, hashed, false);
        Nodes linked = Nodes.hashed(HashMap.class, LINKED_NODE, null, "after");
        forms.add(
                LinkedHashSet.class,
                new OfElements(LinkedHashSet.class, linked, slots, false, map, LinkedHashSet::new));
        long m = Memory.offset(TreeSet.class, "m");
        long comparator = Memory.offset(TreeMap.class, "comparator");
        Nodes sorted = Nodes.sorted(TREE_NODE, null);
        forms.add(TreeSet.class, new OfElements(TreeSet.class, sorted, slots, true, m, TreeSet::new) {
            @Override
            Object comparator(Object set) {
                return ((TreeSet<?>) set).comparator();
            }

            @Override
            void setComparator(Object set, Object[] references, ObjectBytes in) {
                CollectionForms.setComparator(inner(set), comparator, references, in);
            }

            @Override
            void write(Object set, ObjectWriter out) {
                // Of a set that is a view of another one the map has no entries of its own.
                if (inner(set).getClass() != TreeMap.class) {
                    throw out.refuse("it is a view of another set: copy it");
                }
                super.write(set, out);
            }
        });
    }
}
