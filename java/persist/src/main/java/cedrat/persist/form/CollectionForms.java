package cedrat.persist.form;

import cedrat.persist.codec.Cells;
import cedrat.persist.codec.Change;
import cedrat.persist.codec.ChangeWriter;
import cedrat.persist.codec.CommitBuffer;
import cedrat.persist.codec.ObjectBytes;
import cedrat.persist.codec.ObjectWriter;
import cedrat.persist.codec.PartIdentity;
import cedrat.persist.memory.Memory;
import cedrat.persist.memory.Slot;
import cedrat.persist.record.UndoLog;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Collection;
import java.util.EnumMap;
import java.util.EnumSet;
import java.util.IdentityHashMap;
import java.util.Map;
import java.util.NavigableMap;
import java.util.Objects;
import java.util.PriorityQueue;
import java.util.Stack;
import java.util.Vector;
import java.util.function.Function;
import java.util.function.Supplier;

/// Forms of the collections of `java.util` that change and are not made of nodes ([NodeForms]): as references their
/// elements, or keys and values.
public final class CollectionForms {
    /// Maximum length of a key in a message.
    private static final int SHOWN_MAX = 60;

    private final Forms forms;

    private CollectionForms(Forms forms) {
        this.forms = forms;
    }

    static void addTo(Forms forms) {
        CollectionForms collections = new CollectionForms(forms);
        collections.addLists();
        collections.addMaps();
        collections.addOfEnums();
    }

    /// Finds the parts of an object.
    interface PartFinder {
        void find(Object object, Form.PartVisitor parts);
    }

    /// A collection: its elements in their order.
    static class Elements extends Form {
        private final Function<ObjectBytes, ? extends Collection<Object>> maker;
        private final PartFinder finder;

        Elements(String name, Function<ObjectBytes, ? extends Collection<Object>> maker, PartFinder finder) {
            super(name);
            this.maker = maker;
            this.finder = finder;
        }

        @Override
        void write(Object object, ObjectWriter out) {
            out.endData();
            writeElements(object, out);
        }

        static void writeElements(Object object, ObjectWriter out) {
            for (Object element : (Collection<?>) object) {
                out.reference(element);
            }
        }

        @Override
        Object create(ObjectBytes in) {
            return maker.apply(in);
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
        public void parts(Object object, PartVisitor parts) {
            finder.find(object, parts);
        }
    }

    /// A queue in a ring, whose elements change one by one: the first one's place and their number as data, all
    /// places as references.
    private static final class Ring extends Form {
        private static final int BEGINNING = CommitBuffer.OBJECT_HEADER;
        private static final int FIRST = CommitBuffer.OBJECT_HEADER + 8;

        private final long elements = Memory.offset(ArrayDeque.class, "elements");
        private final long head = Memory.offset(ArrayDeque.class, "head");
        private final long tail = Memory.offset(ArrayDeque.class, "tail");

        Ring() {
            super("java.util.ArrayDeque");
        }

        private Object[] ring(Object queue) {
            return (Object[]) Memory.getReference(queue, elements);
        }

        private int first(Object queue) {
            return (int) Memory.getBits(queue, head, 'I');
        }

        @Override
        void write(Object object, ObjectWriter out) {
            out.buffer.putInt(first(object));
            out.buffer.putInt(((ArrayDeque<?>) object).size());
            out.endData();
            for (Object element : ring(object)) {
                out.reference(element);
            }
        }

        @Override
        Object create(ObjectBytes in) {
            // It has room for one more, in this version of the JDK.
            return new ArrayDeque<>(Math.max(0, in.referenceCount() - 1));
        }

        @Override
        @SuppressWarnings("unchecked")
        Object fill(Object created, ObjectBytes in, Object[] references) {
            int first = in.getCount();
            int size = in.getCount();
            if (first > references.length || size > references.length) {
                throw in.damaged("it has " + references.length + " elements of " + size);
            }
            Object[] ring = ring(created);
            if (ring.length == references.length && first < ring.length && size < ring.length) {
                System.arraycopy(references, 0, ring, 0, ring.length);
                Memory.putBits(created, head, 'I', first);
                Memory.putBits(created, tail, 'I', (first + size) % ring.length);
                return created;
            }
            for (int i = 0; i < size; i++) {
                ((ArrayDeque<Object>) created).add(references[(first + i) % references.length]);
            }
            return created;
        }

        @Override
        public Object stored(Object object) {
            return new Cells(0);
        }

        @Override
        public Object loaded(Object object, ObjectBytes in, Object[] references) {
            return ring(object).length == references.length ? new Cells(0) : null;
        }

        @Override
        public boolean writeChange(Change change, UndoLog log, ChangeWriter out) {
            Object[] ring = ring(change.object);
            boolean isStored = change.identity.stored instanceof Cells cells
                    && out.partOf(ring) instanceof PartIdentity part
                    && part.cells == cells;
            if (!isStored) {
                return false;
            }
            for (int entry : change.entries()) {
                if (log.base(entry) == ring) {
                    int length = log.slot(entry) == Slot.ELEMENT ? 1 : (int) log.bits(entry);
                    change.add(log.index(entry), log.index(entry) + length);
                }
            }
            if (change.size() >= ring.length) {
                return false;
            }
            out.patchInts(change, BEGINNING, first(change.object), ((ArrayDeque<?>) change.object).size());
            out.patchReferences(change, FIRST, 0, ring, ring.length);
            // Its ring is the same.
            change.written = () -> {};
            return true;
        }

        @Override
        public void parts(Object object, PartVisitor parts) {
            parts.addWithCells(ring(object));
        }

        @Override
        String step(Object object, int reference) {
            int length = ring(object).length;
            return "[" + (reference - first(object) + length) % length + "]";
        }
    }

    /// A list or a heap in an array, whose elements change one by one: its size as data; as references the
    /// comparator, if the class has one, and the elements; there may be more than that, which are null.
    private static final class Listing extends Elements {
        private static final int SIZE = CommitBuffer.OBJECT_HEADER;
        private static final int FIRST = CommitBuffer.OBJECT_HEADER + 8;

        private final long array;
        private final long comparator;
        /// Number of references before the elements.
        private final int head;

        /// @param comparator the offset of the comparator in the collection, or -1: the class has none
        Listing(String name, Supplier<? extends Collection<Object>> maker, long array, long comparator) {
            super(name, in -> maker.get(), (list, parts) -> parts.add(Memory.getReference(list, array)));
            this.array = array;
            this.comparator = comparator;
            head = comparator < 0 ? 0 : 1;
        }

        @Override
        void write(Object object, ObjectWriter out) {
            out.buffer.putInt(((Collection<?>) object).size());
            out.endData();
            if (head != 0) {
                out.reference(Memory.getReference(object, comparator));
            }
            for (Object element : (Collection<?>) object) {
                out.reference(element);
            }
        }

        @Override
        @SuppressWarnings("unchecked")
        Object fill(Object created, ObjectBytes in, Object[] references) {
            Collection<Object> list = (Collection<Object>) created;
            int size = in.getCount();
            if (size > references.length - head) {
                throw in.damaged("it has " + references.length + " elements of " + size);
            }
            if (head != 0) {
                setComparator(created, comparator, references, in);
            }
            for (int i = head; i < head + size; i++) {
                list.add(references[i]);
            }
            return created;
        }

        @Override
        public Object stored(Object object) {
            return ((Collection<?>) object).size();
        }

        @Override
        public Object loaded(Object object, ObjectBytes in, Object[] references) {
            Object[] now = (Object[]) Memory.getReference(object, array);
            int size = ((Collection<?>) object).size();
            for (int i = 0; i < size; i++) {
                if (now[i] != references[head + i]) {
                    // Its elements compare otherwise by now.
                    return null;
                }
            }
            return size;
        }

        @Override
        public boolean writeChange(Change change, UndoLog log, ChangeWriter out) {
            if (!(change.identity.stored instanceof Integer stored)) {
                return false;
            }
            Object[] now = (Object[]) Memory.getReference(change.object, array);
            int size = ((Collection<?>) change.object).size();
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
            out.patchReferences(change, FIRST, head, now, size);
            return true;
        }

        @Override
        String step(Object object, int reference) {
            return storedStep(reference);
        }

        @Override
        String storedStep(int reference) {
            return reference < head ? "comparator()" : "[" + (reference - head) + "]";
        }

        /// Adds assignments to an array that was made in the transaction, when the list outgrew its own: they are in
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

    static void setComparator(Object sorted, long place, Object[] references, ObjectBytes in) {
        if (references.length == 0 || references[0] != null && !(references[0] instanceof java.util.Comparator)) {
            throw in.damaged("its comparator is missing");
        }
        Memory.putReference(sorted, place, references[0]);
    }

    /// A map: its keys and values in their order.
    static class Entries extends Form {
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
            if (references.length % 2 != 0) {
                throw in.damaged("it has a key without a value");
            }
            for (int i = 0; i < references.length; i += 2) {
                map.put(references[i], references[i + 1]);
            }
            return created;
        }

        @Override
        String step(Object object, int reference) {
            return CollectionForms.step((Map<?, ?>) object, reference);
        }

        @Override
        String storedStep(int reference) {
            return reference % 2 == 0 ? "a key" : super.storedStep(reference);
        }

        @Override
        int storedKey(int reference) {
            return reference % 2 == 0 ? -1 : reference - 1;
        }

        @Override
        public void parts(Object object, PartVisitor parts) {
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
        return reference % 2 == 0 ? "a key" : "[" + show(key) + "]";
    }

    /// A key, as a program would write it.
    static String show(Object key) {
        String text = text(key);
        return text != null ? text : "an object of " + key.getClass().getName();
    }

    /// A key as a text, cut where it is long; null of one whose text is the program's business, or is no name.
    public static String text(Object key) {
        return switch (key) {
            case null -> "null";
            case String text -> cut(text);
            // Its `toString` may be the program's.
            case Enum<?> constant -> cut(constant.name());
            case Boolean bool -> bool.toString();
            case Character character -> character.toString();
            case Number number when number.getClass().getClassLoader() == null -> cut(number.toString());
            default -> null;
        };
    }

    private static String cut(String text) {
        if (text.length() <= SHOWN_MAX) {
            return text;
        }
        boolean isWithin = Character.isHighSurrogate(text.charAt(SHOWN_MAX - 1));
        return text.substring(0, isWithin ? SHOWN_MAX - 1 : SHOWN_MAX) + "…";
    }

    // ---- lists and queues

    private void addLists() {
        long elementData = Memory.offset(ArrayList.class, "elementData");
        forms.add(ArrayList.class, new Listing("java.util.ArrayList", ArrayList::new, elementData, -1));
        long ofVector = Memory.offset(Vector.class, "elementData");
        forms.add(Vector.class, new Listing("java.util.Vector", Vector::new, ofVector, -1));
        forms.add(Stack.class, new Listing("java.util.Stack", Stack::new, ofVector, -1));
        forms.add(ArrayDeque.class, new Ring());
        forms.add(
                PriorityQueue.class,
                new Listing(
                        "java.util.PriorityQueue",
                        PriorityQueue::new,
                        Memory.offset(PriorityQueue.class, "queue"),
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
    /// persistent object by a transaction that only reads it.
    static void makeViews(Map<?, ?> map) {
        Objects.requireNonNull(map.entrySet());
        Objects.requireNonNull(map.keySet());
        Objects.requireNonNull(map.values());
        if (map instanceof NavigableMap<?, ?> sorted) {
            Objects.requireNonNull(sorted.descendingMap());
        }
    }

    private void addMaps() {
        long table = Memory.offset(IdentityHashMap.class, "table");
        forms.add(
                IdentityHashMap.class,
                new Entries("java.util.IdentityHashMap", in -> new IdentityHashMap<>(), (map, parts) -> {
                    makeViews((Map<?, ?>) map);
                    parts.add(Memory.getReference(map, table));
                }));
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
        Elements ofSets = new Elements("java.util.EnumSet", in -> null, CollectionForms::elementsOfJumbo) {
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
