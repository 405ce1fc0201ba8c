package cedrat.persist.form;

import cedrat.persist.codec.ObjectBytes;
import cedrat.persist.codec.ObjectWriter;
import cedrat.persist.memory.ConcurrentState;
import cedrat.persist.memory.Memory;
import java.util.Arrays;
import java.util.Collection;
import java.util.Map;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedDeque;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.ConcurrentSkipListMap;
import java.util.concurrent.ConcurrentSkipListSet;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.CopyOnWriteArraySet;
import java.util.concurrent.LinkedBlockingDeque;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.locks.ReentrantLock;
import java.util.function.Function;
import java.util.function.IntFunction;

/// Forms of the collections of `java.util.concurrent`. They are stored as a whole.
final class ConcurrentForms {
    private static final String PACKAGE = "java.util.concurrent.";

    private final Forms forms;

    private ConcurrentForms(Forms forms) {
        this.forms = forms;
    }

    static void addTo(Forms forms) {
        ConcurrentForms concurrent = new ConcurrentForms(forms);
        concurrent.addMaps();
        concurrent.addLists();
        concurrent.addQueues();
    }

    private void addMaps() {
        forms.add(
                ConcurrentHashMap.class,
                new CollectionForms.Entries(
                        PACKAGE + "ConcurrentHashMap", in -> new ConcurrentHashMap<>(), (map, parts) -> {}));
        forms.add(ConcurrentSkipListMap.class, new SortedEntries());
        forms.add(ConcurrentSkipListSet.class, new SortedElements());
        forms.add(ConcurrentHashMap.KeySetView.class, new Keys());
    }

    /// A sorted map: its comparator, or null; its keys and values.
    private static final class SortedEntries extends CollectionForms.Entries {
        private static final long COMPARATOR = Memory.offset(ConcurrentSkipListMap.class, "comparator");

        SortedEntries() {
            super(PACKAGE + "ConcurrentSkipListMap", in -> new ConcurrentSkipListMap<>(), (map, parts) -> {});
        }

        @Override
        void writeHead(Object object, ObjectWriter out) {
            super.writeHead(object, out);
            out.reference(((ConcurrentSkipListMap<?, ?>) object).comparator());
        }

        @Override
        Object fill(Object created, ObjectBytes in, Object[] references) {
            CollectionForms.setComparator(created, COMPARATOR, references, in);
            return super.fill(created, in, Arrays.copyOfRange(references, 1, references.length));
        }

        @Override
        String step(Object object, int reference) {
            return reference == 0 ? "comparator()" : super.step(object, reference - 1);
        }

        @Override
        String storedStep(int reference) {
            return reference == 0 ? "comparator()" : super.storedStep(reference - 1);
        }

        @Override
        int storedKey(int reference) {
            return reference > 0 && reference % 2 == 0 ? reference - 1 : -1;
        }
    }

    /// A sorted set: its comparator, or null; its elements.
    private static final class SortedElements extends CollectionForms.Elements {
        private static final long COMPARATOR = Memory.offset(ConcurrentSkipListMap.class, "comparator");

        SortedElements() {
            super(PACKAGE + "ConcurrentSkipListSet", in -> new ConcurrentSkipListSet<>(), ConcurrentForms::addInner);
        }

        @Override
        void write(Object object, ObjectWriter out) {
            if (!(ConcurrentState.inner(object) instanceof ConcurrentSkipListMap)) {
                throw out.refuse("it is a view of another collection: copy it");
            }
            out.endData();
            out.reference(((ConcurrentSkipListSet<?>) object).comparator());
            writeElements(object, out);
        }

        @Override
        Object fill(Object created, ObjectBytes in, Object[] references) {
            CollectionForms.setComparator(ConcurrentState.inner(created), COMPARATOR, references, in);
            return super.fill(created, in, Arrays.copyOfRange(references, 1, references.length));
        }

        @Override
        String step(Object object, int reference) {
            return reference == 0 ? "comparator()" : super.step(object, reference - 1);
        }
    }

    /// A set has its elements in another collection.
    private static void addInner(Object set, Form.PartVisitor parts) {
        parts.add(ConcurrentState.inner(set));
    }

    /// The keys of a map as a set: the map, and the value of what is added, or null. A set of
    /// `ConcurrentHashMap.newKeySet` is one, of a map of its own.
    private static final class Keys extends Form {
        Keys() {
            super(PACKAGE + "ConcurrentHashMap.keySet");
        }

        /// The map does.
        @Override
        boolean mayChange() {
            return false;
        }

        @Override
        void write(Object object, ObjectWriter out) {
            ConcurrentHashMap.KeySetView<?, ?> keys = (ConcurrentHashMap.KeySetView<?, ?>) object;
            out.endData();
            out.reference(keys.getMap());
            out.reference(keys.getMappedValue());
        }

        @Override
        @SuppressWarnings("unchecked")
        Object fill(Object created, ObjectBytes in, Object[] references) {
            if (references.length != 2 || !(references[0] instanceof ConcurrentHashMap)) {
                throw in.damaged("its map is missing");
            }
            ConcurrentHashMap<Object, Object> map = (ConcurrentHashMap<Object, Object>) references[0];
            return references[1] == null ? map.keySet() : map.keySet(references[1]);
        }

        @Override
        String step(Object object, int reference) {
            return storedStep(reference);
        }

        @Override
        String storedStep(int reference) {
            return reference == 0 ? "getMap()" : "getMappedValue()";
        }
    }

    private void addLists() {
        forms.add(CopyOnWriteArrayList.class, new Copied("CopyOnWriteArrayList", in -> new CopyOnWriteArrayList<>()));
        forms.add(CopyOnWriteArraySet.class, new Copied("CopyOnWriteArraySet", in -> new CopyOnWriteArraySet<>()));
    }

    /// A collection that copies all elements at each addition. They are added at once, and a set does not compare
    /// them.
    private static final class Copied extends CollectionForms.Elements {
        Copied(String name, Function<ObjectBytes, Collection<Object>> maker) {
            super(PACKAGE + name, maker, (collection, parts) -> {
                if (ConcurrentState.inner(collection) != collection) {
                    addInner(collection, parts);
                }
            });
        }

        @Override
        @SuppressWarnings("unchecked")
        Object fill(Object created, ObjectBytes in, Object[] references) {
            ((Collection<Object>) ConcurrentState.inner(created)).addAll(Arrays.asList(references));
            return created;
        }
    }

    private void addQueues() {
        forms.add(
                ConcurrentLinkedQueue.class,
                new CollectionForms.Elements(
                        PACKAGE + "ConcurrentLinkedQueue", in -> new ConcurrentLinkedQueue<>(), (queue, parts) -> {}));
        forms.add(
                ConcurrentLinkedDeque.class,
                new CollectionForms.Elements(
                        PACKAGE + "ConcurrentLinkedDeque", in -> new ConcurrentLinkedDeque<>(), (queue, parts) -> {}));
        forms.add(LinkedBlockingQueue.class, new Bounded("LinkedBlockingQueue", LinkedBlockingQueue::new));
        forms.add(LinkedBlockingDeque.class, new Bounded("LinkedBlockingDeque", LinkedBlockingDeque::new));
        long lock = Memory.offset(ArrayBlockingQueue.class, "lock");
        forms.add(ArrayBlockingQueue.class, new Bounded("ArrayBlockingQueue", ArrayBlockingQueue::new) {
            @Override
            int isFair(Object queue) {
                return ((ReentrantLock) Memory.getReference(queue, lock)).isFair() ? 1 : 0;
            }

            @Override
            Object make(int capacity, boolean isFair) {
                return new ArrayBlockingQueue<>(capacity, isFair);
            }
        });
    }

    /// A queue with a capacity, and whether threads wait in their order, as data; its elements.
    private static class Bounded extends CollectionForms.Elements {
        private final IntFunction<BlockingQueue<Object>> maker;

        Bounded(String name, IntFunction<BlockingQueue<Object>> maker) {
            super(PACKAGE + name, in -> null, (queue, parts) -> {});
            this.maker = maker;
        }

        int isFair(Object queue) {
            return 0;
        }

        Object make(int capacity, boolean isFair) {
            return maker.apply(capacity);
        }

        @Override
        void write(Object object, ObjectWriter out) {
            BlockingQueue<?> queue = (BlockingQueue<?>) object;
            out.buffer.putInt(queue.size() + queue.remainingCapacity());
            out.buffer.putInt(isFair(object));
            super.write(object, out);
        }

        @Override
        Object create(ObjectBytes in) {
            int capacity = in.getCount();
            if (capacity == 0 || capacity < in.referenceCount()) {
                throw in.damaged("its capacity is " + capacity);
            }
            return make(capacity, in.getInt() != 0);
        }
    }

    /// Whether an object is a view or an entry of such a collection.
    static boolean isView(Object object) {
        return object.getClass().getName().startsWith(PACKAGE)
                && (object instanceof Collection || object instanceof Map || object instanceof Map.Entry)
                && object.getClass().getName().indexOf('$') > 0;
    }
}
