package cedrat.persist;

import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Collection;
import java.util.EnumMap;
import java.util.EnumSet;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Hashtable;
import java.util.IdentityHashMap;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.LinkedList;
import java.util.Map;
import java.util.NavigableMap;
import java.util.Objects;
import java.util.PriorityQueue;
import java.util.Stack;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.Vector;
import java.util.function.Function;
import java.util.function.Supplier;

/// Forms of the collections of `java.util` that change: as data `| flags u32 | 0 u32 |` and what else belongs to
/// the class, as references what else it has, a comparator for one, and then its elements, or keys and values.
final class CollectionForms {
    private final Forms forms;

    private CollectionForms(Forms forms) {
        this.forms = forms;
    }

    static void addTo(Forms forms) {
        CollectionForms collections = new CollectionForms(forms);
        collections.addLists();
        collections.addMaps();
        collections.addSets();
        collections.addOfEnums();
    }

    /// Finds the parts of an object.
    private interface PartFinder {
        void find(Object object, Form.PartVisitor parts);
    }

    /// A collection: its elements in their order.
    private static class Elements extends Form {
        private final Supplier<? extends Collection<Object>> maker;
        private final PartFinder finder;

        Elements(String name, Supplier<? extends Collection<Object>> maker, PartFinder finder) {
            super(name);
            this.maker = maker;
            this.finder = finder;
        }

        @Override
        void write(Object object, ObjectWriter out) {
            out.endData();
            for (Object element : (Collection<?>) object) {
                out.reference(element);
            }
        }

        @Override
        Object create(ObjectBytes in) {
            return maker.get();
        }

        @Override
        @SuppressWarnings("unchecked")
        Object fill(Object created, ObjectBytes in, Object[] references) {
            Collection<Object> collection = (Collection<Object>) created;
            for (Object element : references) {
                collection.add(element);
            }
            return created;
        }

        @Override
        void parts(Object object, PartVisitor parts) {
            finder.find(object, parts);
        }
    }

    /// A list in an array, whose elements change one by one: its size as data; there may be more references than
    /// that, which are null.
    private static final class Listing extends Elements {
        private static final int SIZE = CommitBuffer.OBJECT_HEADER;
        private static final int FIRST = CommitBuffer.OBJECT_HEADER + 8;

        private final long array;

        Listing(String name, Supplier<? extends Collection<Object>> maker, long array) {
            super(name, maker, (list, parts) -> parts.add(Memory.getReference(list, array)));
            this.array = array;
        }

        @Override
        void write(Object object, ObjectWriter out) {
            out.buffer.putInt(((Collection<?>) object).size());
            super.write(object, out);
        }

        @Override
        @SuppressWarnings("unchecked")
        Object fill(Object created, ObjectBytes in, Object[] references) {
            Collection<Object> list = (Collection<Object>) created;
            int size = in.getCount();
            if (size > references.length) {
                throw in.damaged("it has " + references.length + " elements of " + size);
            }
            for (int i = 0; i < size; i++) {
                list.add(references[i]);
            }
            return created;
        }

        @Override
        int size(Object object) {
            return ((Collection<?>) object).size();
        }

        @Override
        boolean writeChange(Change change, UndoLog log, Commit out) {
            Object[] now = (Object[]) Memory.getReference(change.object, array);
            int size = size(change.object);
            int stored = change.identity.stored;
            for (int entry : change.entries()) {
                Object base = log.base(entry);
                if (base instanceof Object[]) {
                    boolean isOne = log.slot(entry) == Slot.ELEMENT;
                    int to = log.index(entry) + (isOne ? 1 : (int) log.bits(entry));
                    change.add(log.index(entry), Math.min(to, Math.max(size, stored)));
                }
            }
            addOlder(change, log, now, Math.min(size, stored));
            change.add(Math.min(size, stored), Math.max(size, stored));
            if (change.size() >= size) {
                return false;
            }
            if (size != stored) {
                out.patchInt(change, SIZE, size);
            }
            out.patchReferences(change, FIRST, now, size);
            return true;
        }

        /// What was stored to an array that was made in the transaction, when the list outgrew its own, stands in
        /// no log.
        private void addOlder(Change change, UndoLog log, Object[] now, int count) {
            for (int entry : change.entries()) {
                if (log.base(entry) == change.object && log.value(entry) instanceof Object[] values) {
                    for (Object value : values) {
                        if (value instanceof Object[] older) {
                            addDifferences(change, older, now, count);
                        }
                    }
                }
            }
        }

        private static void addDifferences(Change change, Object[] older, Object[] now, int count) {
            if (older == now) {
                return;
            }
            for (int i = 0; i < count; i++) {
                if (i >= older.length || i >= now.length || older[i] != now[i]) {
                    change.add(i, i + 1);
                }
            }
        }
    }

    /// A collection with a comparator, which may be null, before its elements.
    private static class Sorted extends Elements {
        private final Function<Object, Object> comparator;
        private final long inner;
        private final long place;

        /// @param inner the offset of the object that has the comparator, or -1: the collection itself has it
        Sorted(
                String name,
                Supplier<? extends Collection<Object>> maker,
                PartFinder finder,
                Function<Object, Object> comparator,
                long inner,
                long place) {
            super(name, maker, finder);
            this.comparator = comparator;
            this.inner = inner;
            this.place = place;
        }

        @Override
        void write(Object object, ObjectWriter out) {
            out.endData();
            out.reference(comparator.apply(object));
            for (Object element : (Collection<?>) object) {
                out.reference(element);
            }
        }

        @Override
        @SuppressWarnings("unchecked")
        Object fill(Object created, ObjectBytes in, Object[] references) {
            setComparator(inner < 0 ? created : Memory.getReference(created, inner), place, references, in);
            Collection<Object> collection = (Collection<Object>) created;
            for (int i = 1; i < references.length; i++) {
                collection.add(references[i]);
            }
            return created;
        }

        @Override
        String step(Object object, int reference) {
            return reference == 0 ? "comparator()" : "[" + (reference - 1) + "]";
        }
    }

    private static void setComparator(Object sorted, long place, Object[] references, ObjectBytes in) {
        if (references.length == 0 || references[0] != null && !(references[0] instanceof java.util.Comparator)) {
            throw in.damaged("it has no comparator where one should be");
        }
        Memory.putReference(sorted, place, references[0]);
    }

    /// A map: its keys and values in their order.
    private static class Entries extends Form {
        private final Function<ObjectBytes, Map<Object, Object>> maker;
        private final PartFinder finder;

        Entries(String name, Function<ObjectBytes, Map<Object, Object>> maker, PartFinder finder) {
            super(name);
            this.maker = maker;
            this.finder = finder;
        }

        void writeHead(Object object, ObjectWriter out) {
            out.endData();
        }

        /// @return how many references belong to it
        int fillHead(Object created, ObjectBytes in, Object[] references) {
            return 0;
        }

        @Override
        void write(Object object, ObjectWriter out) {
            writeHead(object, out);
            for (Map.Entry<?, ?> entry : ((Map<?, ?>) object).entrySet()) {
                out.reference(entry.getKey());
                out.reference(entry.getValue());
            }
        }

        @Override
        Object create(ObjectBytes in) {
            return maker.apply(in);
        }

        @Override
        @SuppressWarnings("unchecked")
        Object fill(Object created, ObjectBytes in, Object[] references) {
            Map<Object, Object> map = (Map<Object, Object>) created;
            int from = fillHead(created, in, references);
            if ((references.length - from) % 2 != 0) {
                throw in.damaged("it has a key without a value");
            }
            for (int i = from; i < references.length; i += 2) {
                map.put(references[i], references[i + 1]);
            }
            return created;
        }

        @Override
        String step(Object object, int reference) {
            return CollectionForms.step((Map<?, ?>) object, reference);
        }

        @Override
        void parts(Object object, PartVisitor parts) {
            finder.find(object, parts);
        }
    }

    /// How one gets to a key or a value, if these are a map's references.
    static String step(Map<?, ?> map, int reference) {
        Object key = null;
        int at = 0;
        for (Map.Entry<?, ?> entry : map.entrySet()) {
            if (at == (reference & -2)) {
                key = entry.getKey();
            }
            at += 2;
        }
        boolean isShown = key instanceof String || key instanceof Number || key instanceof Enum;
        String shown = isShown
                ? key.toString()
                : key == null ? "null" : "an object of " + key.getClass().getName();
        return reference % 2 == 0 ? "a key" : "[" + shown + "]";
    }

    // ---- lists and queues

    private void addLists() {
        long elementData = Memory.offset(ArrayList.class, "elementData");
        forms.add(ArrayList.class, new Listing("java.util.ArrayList", ArrayList::new, elementData));
        long ofVector = Memory.offset(Vector.class, "elementData");
        forms.add(Vector.class, new Listing("java.util.Vector", Vector::new, ofVector));
        forms.add(Stack.class, new Listing("java.util.Stack", Stack::new, ofVector));
        long elements = Memory.offset(ArrayDeque.class, "elements");
        forms.add(
                ArrayDeque.class,
                new Elements(
                        "java.util.ArrayDeque",
                        ArrayDeque::new,
                        (queue, parts) -> parts.add(Memory.getReference(queue, elements))));
        long first = Memory.offset(LinkedList.class, "first");
        long next = Memory.offset(nested(LinkedList.class, "Node"), "next");
        forms.add(LinkedList.class, new Elements("java.util.LinkedList", LinkedList::new, (list, parts) -> {
            for (Object node = Memory.getReference(list, first); node != null; node = Memory.getReference(node, next)) {
                parts.add(node);
            }
        }));
        long queue = Memory.offset(PriorityQueue.class, "queue");
        forms.add(
                PriorityQueue.class,
                new Sorted(
                        "java.util.PriorityQueue",
                        PriorityQueue::new,
                        (heap, parts) -> parts.add(Memory.getReference(heap, queue)),
                        heap -> ((PriorityQueue<?>) heap).comparator(),
                        -1,
                        Memory.offset(PriorityQueue.class, "comparator")));
    }

    /// A class that is not public.
    static Class<?> nested(Class<?> outer, String name) {
        try {
            return Class.forName(outer.getName() + "$" + name, false, null);
        } catch (ClassNotFoundException e) {
            throw new AssertionError("this JDK has no " + outer.getName() + "." + name, e);
        }
    }

    // ---- maps

    /// A map makes its views when they are asked for first, and keeps them: that would be a store to a
    /// persistent object by who only reads it.
    static void makeViews(Map<?, ?> map) {
        Objects.requireNonNull(map.entrySet());
        Objects.requireNonNull(map.keySet());
        Objects.requireNonNull(map.values());
        if (map instanceof NavigableMap<?, ?> sorted) {
            Objects.requireNonNull(sorted.descendingMap());
        }
    }

    /// The table of a hash table, and its entries, which are what iterators return.
    private static PartFinder table(Class<?> type) {
        long table = Memory.offset(type, "table");
        return (map, parts) -> {
            makeViews((Map<?, ?>) map);
            parts.add(Memory.getReference(map, table));
            for (Map.Entry<?, ?> entry : ((Map<?, ?>) map).entrySet()) {
                parts.add(entry);
            }
        };
    }

    private static void entries(Object map, Form.PartVisitor parts) {
        makeViews((Map<?, ?>) map);
        for (Map.Entry<?, ?> entry : ((Map<?, ?>) map).entrySet()) {
            parts.add(entry);
        }
    }

    private void addMaps() {
        forms.add(HashMap.class, new Entries("java.util.HashMap", in -> new HashMap<>(), table(HashMap.class)));
        long accessOrder = Memory.offset(LinkedHashMap.class, "accessOrder");
        forms.add(
                LinkedHashMap.class,
                new Entries(
                        "java.util.LinkedHashMap",
                        in -> new LinkedHashMap<>(16, 0.75f, in.getInt() != 0),
                        table(HashMap.class)) {
                    @Override
                    void writeHead(Object map, ObjectWriter out) {
                        out.buffer.putInt((int) Memory.getBits(map, accessOrder, 'Z'));
                        out.endData();
                    }
                });
        forms.add(Hashtable.class, new Entries("java.util.Hashtable", in -> new Hashtable<>(), table(Hashtable.class)));
        long table = Memory.offset(IdentityHashMap.class, "table");
        forms.add(
                IdentityHashMap.class,
                new Entries("java.util.IdentityHashMap", in -> new IdentityHashMap<>(), (map, parts) -> {
                    makeViews((Map<?, ?>) map);
                    parts.add(Memory.getReference(map, table));
                }));
        long comparator = Memory.offset(TreeMap.class, "comparator");
        forms.add(TreeMap.class, new Entries("java.util.TreeMap", in -> new TreeMap<>(), CollectionForms::entries) {
            @Override
            void writeHead(Object map, ObjectWriter out) {
                out.endData();
                out.reference(((TreeMap<?, ?>) map).comparator());
            }

            @Override
            int fillHead(Object created, ObjectBytes in, Object[] references) {
                setComparator(created, comparator, references, in);
                return 1;
            }

            @Override
            String step(Object map, int reference) {
                return reference == 0 ? "comparator()" : super.step(map, reference - 1);
            }
        });
    }

    // ---- sets

    private void addSets() {
        long map = Memory.offset(HashSet.class, "map");
        PartFinder table = table(HashMap.class);
        PartFinder ofSet = (set, parts) -> {
            Object inner = Memory.getReference(set, map);
            parts.add(inner);
            table.find(inner, parts);
        };
        forms.add(HashSet.class, new Elements("java.util.HashSet", HashSet::new, ofSet));
        forms.add(LinkedHashSet.class, new Elements("java.util.LinkedHashSet", LinkedHashSet::new, ofSet));
        long m = Memory.offset(TreeSet.class, "m");
        forms.add(
                TreeSet.class,
                new Sorted(
                        "java.util.TreeSet",
                        TreeSet::new,
                        (set, parts) -> {
                            Object inner = Memory.getReference(set, m);
                            parts.add(inner);
                            entries(inner, parts);
                        },
                        set -> ((TreeSet<?>) set).comparator(),
                        m,
                        Memory.offset(TreeMap.class, "comparator")) {
                    @Override
                    void write(Object set, ObjectWriter out) {
                        // Of a set that is a view of another one the map has no entries of its own.
                        if (Memory.getReference(set, m).getClass() != TreeMap.class) {
                            throw out.refuse("it shows a part of another set: copy it");
                        }
                        super.write(set, out);
                    }
                });
    }

    // ---- of constants of enums

    private void addOfEnums() {
        long keyType = Memory.offset(EnumMap.class, "keyType");
        long values = Memory.offset(EnumMap.class, "vals");
        forms.add(
                EnumMap.class,
                new Entries("java.util.EnumMap", in -> emptyMap(forms.classOf(in.getText()), in), (map, parts) -> {
                    makeViews((Map<?, ?>) map);
                    parts.add(Memory.getReference(map, values));
                }) {
                    @Override
                    void writeHead(Object map, ObjectWriter out) {
                        out.putText(forms.nameOf((Class<?>) Memory.getReference(map, keyType), out));
                        out.endData();
                    }
                });
        long elementType = Memory.offset(EnumSet.class, "elementType");
        Elements ofSets = new Elements("java.util.EnumSet", () -> null, CollectionForms::elementsOfJumbo) {
            @Override
            void write(Object set, ObjectWriter out) {
                out.putText(forms.nameOf((Class<?>) Memory.getReference(set, elementType), out));
                super.write(set, out);
            }

            @Override
            Object create(ObjectBytes in) {
                return emptySet(forms.classOf(in.getText()), in);
            }
        };
        forms.add(EnumSet.noneOf(Thread.State.class).getClass(), ofSets);
        forms.add(JUMBO, ofSets);
    }

    private static final Class<?> JUMBO = jumbo();
    private static final long JUMBO_ELEMENTS = Memory.offset(JUMBO, "elements");

    private static Class<?> jumbo() {
        try {
            return Class.forName("java.util.JumboEnumSet", false, null);
        } catch (ClassNotFoundException e) {
            throw new AssertionError("this JDK has no java.util.JumboEnumSet", e);
        }
    }

    private static void elementsOfJumbo(Object set, Form.PartVisitor parts) {
        if (set.getClass() == JUMBO) {
            parts.add(Memory.getReference(set, JUMBO_ELEMENTS));
        }
    }

    @SuppressWarnings({"unchecked", "rawtypes"})
    private static Map<Object, Object> emptyMap(Class<?> type, ObjectBytes in) {
        if (!type.isEnum()) {
            throw in.damaged(type.getName() + " is no enum");
        }
        return new EnumMap(type);
    }

    @SuppressWarnings({"unchecked", "rawtypes"})
    private static Object emptySet(Class<?> type, ObjectBytes in) {
        if (!type.isEnum()) {
            throw in.damaged(type.getName() + " is no enum");
        }
        return EnumSet.noneOf((Class) type);
    }
}
