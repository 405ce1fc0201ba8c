package cedrat.persist.form;

import cedrat.persist.codec.ObjectBytes;
import cedrat.persist.codec.ObjectWriter;
import cedrat.persist.memory.Memory;
import java.util.AbstractMap;
import java.util.ArrayDeque;
import java.util.Arrays;
import java.util.Collection;
import java.util.Collections;
import java.util.Comparator;
import java.util.Deque;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.NavigableMap;
import java.util.NavigableSet;
import java.util.Optional;
import java.util.Properties;
import java.util.SequencedCollection;
import java.util.SequencedMap;
import java.util.SequencedSet;
import java.util.Set;
import java.util.SortedMap;
import java.util.SortedSet;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.atomic.AtomicIntegerArray;
import java.util.concurrent.atomic.AtomicLongArray;
import java.util.concurrent.atomic.AtomicReference;
import java.util.concurrent.atomic.AtomicReferenceArray;
import java.util.function.Function;
import java.util.stream.Stream;

/// Forms of objects that are made when all that they lead to is there: collections that do not change, what
/// `Collections` wraps, and the like. They are made by the same methods that a program calls.
final class WrapperForms {
    private final Forms forms;

    private WrapperForms(Forms forms) {
        this.forms = forms;
    }

    static void addTo(Forms forms) {
        WrapperForms wrappers = new WrapperForms(forms);
        wrappers.addImmutable();
        wrappers.addEntries();
        wrappers.addUnmodifiable();
        wrappers.addSynchronized();
        wrappers.addOthers();
    }

    /// Some references, and what makes an object of them.
    private static class Made extends Form {
        private final Function<Object, Object[]> taker;
        private final Function<Object[], Object> maker;

        Made(String name, Function<Object, Object[]> taker, Function<Object[], Object> maker) {
            super(name);
            this.taker = taker;
            this.maker = maker;
        }

        /// Whether the wrapped object may.
        @Override
        boolean mayChange() {
            return false;
        }

        @Override
        void write(Object object, ObjectWriter out) {
            out.endData();
            for (Object reference : taker.apply(object)) {
                out.reference(reference);
            }
        }

        @Override
        Object fill(Object created, ObjectBytes in, Object[] references) {
            try {
                return maker.apply(references);
            } catch (ClassCastException | NullPointerException | IndexOutOfBoundsException e) {
                throw in.damaged("it refers to something that " + name + " does not accept: " + e.getMessage());
            }
        }

        @Override
        String step(Object object, int reference) {
            return object instanceof Map<?, ?> map
                    ? CollectionForms.step(map, reference)
                    : super.step(object, reference);
        }

        @Override
        public void parts(Object object, PartVisitor parts) {
            if (object instanceof Map<?, ?> map) {
                CollectionForms.makeViews(map);
            }
        }
    }

    /// A map: its keys and values.
    private static final class MadeMap extends Made {
        MadeMap(String name, Function<Object[], Object> maker) {
            super(name, WrapperForms::pairs, maker);
        }

        @Override
        int storedKey(int reference) {
            return reference % 2 == 0 ? -1 : reference - 1;
        }
    }

    private static Object[] pairs(Object map) {
        Map<?, ?> entries = (Map<?, ?>) map;
        Object[] pairs = new Object[2 * entries.size()];
        int at = 0;
        for (Map.Entry<?, ?> entry : entries.entrySet()) {
            pairs[at++] = entry.getKey();
            pairs[at++] = entry.getValue();
        }
        return pairs;
    }

    /// A wrapper that shows another object unchanged.
    private static class Wrapper extends Made {
        Wrapper(String name, long inner, Function<Object, Object> maker) {
            super(
                    name,
                    object -> new Object[] {Memory.getReference(object, inner)},
                    references -> maker.apply(references[0]));
        }

        @Override
        String step(Object object, int reference) {
            return "";
        }

        @Override
        String storedStep(int reference) {
            return "";
        }
    }

    /// An array that no other code has.
    private static final class AtomicArray extends Wrapper {
        AtomicArray(String name, long inner, Function<Object, Object> maker) {
            super(name, inner, maker);
        }

        @Override
        boolean mayChange() {
            return true;
        }
    }

    // ---- what does not change

    private void addImmutable() {
        Made lists =
                new Made("java.util.List.of", list -> ((List<?>) list).toArray(), references -> List.of(references));
        forms.add(List.of(1).getClass(), lists);
        Class<?> many = List.of(1, 2, 3).getClass();
        long allowsNulls = Memory.offset(many, "allowNulls");
        forms.add(many, lists);
        Made withNulls =
                new Made("java.util.stream.Stream.toList", list -> ((List<?>) list).toArray(), references -> Stream.of(
                                references)
                        .toList());
        forms.addChoice(many, withNulls, list -> Memory.getBits(list, allowsNulls, 'Z') != 0);
        Made sets = new Made("java.util.Set.of", set -> ((Set<?>) set).toArray(), references -> Set.of(references));
        forms.add(Set.of(1).getClass(), sets);
        forms.add(Set.of(1, 2, 3).getClass(), sets);
        Made maps = new MadeMap("java.util.Map.of", WrapperForms::mapOf);
        forms.add(Map.of(1, 1).getClass(), maps);
        forms.add(Map.of(1, 1, 2, 2).getClass(), maps);
        forms.add(
                Optional.class,
                new Made(
                        "java.util.Optional",
                        one -> ((Optional<?>) one).stream().toArray(),
                        references -> references.length == 0 ? Optional.empty() : Optional.of(references[0])));
    }

    private static Map<Object, Object> mapOf(Object[] references) {
        Map<Object, Object> entries = new HashMap<>();
        for (int i = 0; i < references.length; i += 2) {
            entries.put(references[i], references[i + 1]);
        }
        return Map.copyOf(entries);
    }

    private void addEntries() {
        Function<Object, Object[]> taker =
                entry -> new Object[] {((Map.Entry<?, ?>) entry).getKey(), ((Map.Entry<?, ?>) entry).getValue()};
        forms.add(
                Map.entry(1, 1).getClass(),
                new Made("java.util.Map.entry", taker, pair -> Map.entry(pair[0], pair[1])));
        forms.add(
                AbstractMap.SimpleImmutableEntry.class,
                new Made(
                        "java.util.AbstractMap$SimpleImmutableEntry",
                        taker,
                        pair -> new AbstractMap.SimpleImmutableEntry<>(pair[0], pair[1])));
        forms.add(
                AbstractMap.SimpleEntry.class,
                new Made(
                        "java.util.AbstractMap$SimpleEntry",
                        taker,
                        pair -> new AbstractMap.SimpleEntry<>(pair[0], pair[1])) {
                    @Override
                    boolean mayChange() {
                        return true;
                    }
                });
    }

    // ---- what Collections wraps

    /// A wrapper, known by an example of it.
    private void wrapper(
            String name, Object example, Class<?> declaring, String field, Function<Object, Object> maker) {
        long inner = Memory.offset(declaring, field);
        forms.add(example.getClass(), new Wrapper("java.util.Collections." + name, inner, maker));
    }

    /// One that is synchronised by an object of its own is a view of another one.
    private void locked(String name, Object example, Class<?> declaring, String field, Function<Object, Object> maker) {
        long inner = Memory.offset(declaring, field);
        long mutex = Memory.offset(declaring, "mutex");
        Made made = new Wrapper("java.util.Collections." + name, inner, maker) {
            @Override
            void write(Object object, ObjectWriter out) {
                if (Memory.getReference(object, mutex) != object) {
                    throw out.refuse("it is a view of another collection: copy it");
                }
                super.write(object, out);
            }
        };
        forms.add(example.getClass(), made);
    }

    private static final List<Object> LINKED = new java.util.LinkedList<>();
    private static final Set<Object> HASHED = new java.util.HashSet<>();
    private static final NavigableSet<Object> SORTED = new TreeSet<>();
    private static final Map<Object, Object> TABLE = new HashMap<>();
    private static final NavigableMap<Object, Object> TREE = new TreeMap<>();

    @SuppressWarnings("unchecked")
    private void addUnmodifiable() {
        Class<?> collections = CollectionForms.nested(Collections.class, "UnmodifiableCollection");
        Class<?> maps = CollectionForms.nested(Collections.class, "UnmodifiableMap");
        Collection<Object> deque = new ArrayDeque<>();
        wrapper(
                "unmodifiableCollection",
                Collections.unmodifiableCollection(deque),
                collections,
                "c",
                c -> Collections.unmodifiableCollection((Collection<Object>) c));
        wrapper(
                "unmodifiableSequencedCollection",
                Collections.unmodifiableSequencedCollection(new ArrayDeque<>()),
                collections,
                "c",
                c -> Collections.unmodifiableSequencedCollection((SequencedCollection<Object>) c));
        Made lists = made("unmodifiableList", collections, "c", c -> Collections.unmodifiableList((List<Object>) c));
        forms.add(Collections.unmodifiableList(LINKED).getClass(), lists);
        forms.add(Collections.unmodifiableList(new java.util.ArrayList<>()).getClass(), lists);
        wrapper(
                "unmodifiableSet",
                Collections.unmodifiableSet(HASHED),
                collections,
                "c",
                c -> Collections.unmodifiableSet((Set<Object>) c));
        wrapper(
                "unmodifiableSequencedSet",
                Collections.unmodifiableSequencedSet(new java.util.LinkedHashSet<>()),
                collections,
                "c",
                c -> Collections.unmodifiableSequencedSet((SequencedSet<Object>) c));
        wrapper(
                "unmodifiableSortedSet",
                Collections.unmodifiableSortedSet(SORTED),
                collections,
                "c",
                c -> Collections.unmodifiableSortedSet((SortedSet<Object>) c));
        wrapper(
                "unmodifiableNavigableSet",
                Collections.unmodifiableNavigableSet(SORTED),
                collections,
                "c",
                c -> Collections.unmodifiableNavigableSet((NavigableSet<Object>) c));
        wrapper(
                "unmodifiableMap",
                Collections.unmodifiableMap(TABLE),
                maps,
                "m",
                m -> Collections.unmodifiableMap((Map<Object, Object>) m));
        wrapper(
                "unmodifiableSequencedMap",
                Collections.unmodifiableSequencedMap(new java.util.LinkedHashMap<>()),
                maps,
                "m",
                m -> Collections.unmodifiableSequencedMap((SequencedMap<Object, Object>) m));
        wrapper(
                "unmodifiableSortedMap",
                Collections.unmodifiableSortedMap(TREE),
                maps,
                "m",
                m -> Collections.unmodifiableSortedMap((SortedMap<Object, Object>) m));
        wrapper(
                "unmodifiableNavigableMap",
                Collections.unmodifiableNavigableMap(TREE),
                maps,
                "m",
                m -> Collections.unmodifiableNavigableMap((NavigableMap<Object, Object>) m));
    }

    private static Made made(String name, Class<?> declaring, String field, Function<Object, Object> maker) {
        return new Wrapper("java.util.Collections." + name, Memory.offset(declaring, field), maker);
    }

    @SuppressWarnings("unchecked")
    private void addSynchronized() {
        Class<?> collections = CollectionForms.nested(Collections.class, "SynchronizedCollection");
        Class<?> maps = CollectionForms.nested(Collections.class, "SynchronizedMap");
        locked(
                "synchronizedCollection",
                Collections.synchronizedCollection(new ArrayDeque<>()),
                collections,
                "c",
                c -> Collections.synchronizedCollection((Collection<Object>) c));
        locked(
                "synchronizedList",
                Collections.synchronizedList(LINKED),
                collections,
                "c",
                c -> Collections.synchronizedList((List<Object>) c));
        locked(
                "synchronizedList.RandomAccess",
                Collections.synchronizedList(new java.util.ArrayList<>()),
                collections,
                "c",
                c -> Collections.synchronizedList((List<Object>) c));
        locked(
                "synchronizedSet",
                Collections.synchronizedSet(HASHED),
                collections,
                "c",
                c -> Collections.synchronizedSet((Set<Object>) c));
        locked(
                "synchronizedSortedSet",
                Collections.synchronizedSortedSet(SORTED),
                collections,
                "c",
                c -> Collections.synchronizedSortedSet((SortedSet<Object>) c));
        locked(
                "synchronizedNavigableSet",
                Collections.synchronizedNavigableSet(SORTED),
                collections,
                "c",
                c -> Collections.synchronizedNavigableSet((NavigableSet<Object>) c));
        locked(
                "synchronizedMap",
                Collections.synchronizedMap(TABLE),
                maps,
                "m",
                m -> Collections.synchronizedMap((Map<Object, Object>) m));
        locked(
                "synchronizedSortedMap",
                Collections.synchronizedSortedMap(TREE),
                maps,
                "m",
                m -> Collections.synchronizedSortedMap((SortedMap<Object, Object>) m));
        locked(
                "synchronizedNavigableMap",
                Collections.synchronizedNavigableMap(TREE),
                maps,
                "m",
                m -> Collections.synchronizedNavigableMap((NavigableMap<Object, Object>) m));
    }

    // ---- others

    @SuppressWarnings("unchecked")
    private void addOthers() {
        forms.add(
                Collections.singletonList(1).getClass(),
                new Made(
                        "java.util.Collections.singletonList",
                        list -> ((List<?>) list).toArray(),
                        references -> Collections.singletonList(references[0])));
        forms.add(
                Collections.singleton(1).getClass(),
                new Made(
                        "java.util.Collections.singleton",
                        set -> ((Set<?>) set).toArray(),
                        references -> Collections.singleton(references[0])));
        forms.add(
                Collections.singletonMap(1, 1).getClass(),
                new MadeMap(
                        "java.util.Collections.singletonMap",
                        references -> Collections.singletonMap(references[0], references[1])));
        forms.add(
                Collections.nCopies(2, 1).getClass(),
                new Made(
                        "java.util.Collections.nCopies",
                        list -> new Object[] {
                            ((List<?>) list).size(), ((List<?>) list).isEmpty() ? null : ((List<?>) list).get(0)
                        },
                        references -> Collections.nCopies((Integer) references[0], references[1])));
        wrapper(
                "newSetFromMap",
                Collections.newSetFromMap(new HashMap<>()),
                CollectionForms.nested(Collections.class, "SetFromMap"),
                "m",
                WrapperForms::setFrom);
        wrapper(
                "asLifoQueue",
                Collections.asLifoQueue(new ArrayDeque<>()),
                CollectionForms.nested(Collections.class, "AsLIFOQueue"),
                "q",
                queue -> Collections.asLifoQueue((Deque<Object>) queue));
        Comparator<Object> reversed = Collections.reverseOrder((left, right) -> 0);
        wrapper(
                "reverseOrder",
                reversed,
                reversed.getClass(),
                "cmp",
                comparator -> Collections.reverseOrder((Comparator<Object>) comparator));
        List<Integer> asList = Arrays.asList(1);
        long array = Memory.offset(asList.getClass(), "a");
        forms.add(
                asList.getClass(),
                new Wrapper("java.util.Arrays.asList", array, elements -> Arrays.asList((Object[]) elements)));
        forms.add(
                AtomicIntegerArray.class,
                new AtomicArray(
                        "java.util.concurrent.atomic.AtomicIntegerArray",
                        Memory.offset(AtomicIntegerArray.class, "array"),
                        elements -> new AtomicIntegerArray((int[]) elements)));
        forms.add(
                AtomicLongArray.class,
                new AtomicArray(
                        "java.util.concurrent.atomic.AtomicLongArray",
                        Memory.offset(AtomicLongArray.class, "array"),
                        elements -> new AtomicLongArray((long[]) elements)));
        addAtomicReferences();
        addProperties();
    }

    /// Keys and values; what is looked up where there is no key behind a key that is null, which none of its own is.
    private void addProperties() {
        long defaults = Memory.offset(Properties.class, "defaults");
        forms.add(Properties.class, new Form("java.util.Properties") {
            @Override
            void write(Object object, ObjectWriter out) {
                out.endData();
                for (Object reference : pairs(object)) {
                    out.reference(reference);
                }
                Object others = Memory.getReference(object, defaults);
                if (others != null) {
                    out.reference(null);
                    out.reference(others);
                }
            }

            @Override
            Object create(ObjectBytes in) {
                return new Properties();
            }

            @Override
            Object fill(Object created, ObjectBytes in, Object[] references) {
                if (references.length % 2 != 0) {
                    throw in.damaged("it has a key without a value");
                }
                for (int i = 0; i < references.length; i += 2) {
                    if (references[i] != null) {
                        ((Properties) created).put(references[i], references[i + 1]);
                    } else if (references[i + 1] instanceof Properties others) {
                        Memory.putReference(created, defaults, others);
                    } else {
                        throw in.damaged("its defaults are no Properties");
                    }
                }
                return created;
            }

            @Override
            String step(Object object, int reference) {
                int own = 2 * ((Properties) object).size();
                return reference < own ? CollectionForms.step((Properties) object, reference) : "defaults";
            }
        });
    }

    @SuppressWarnings("unchecked")
    private void addAtomicReferences() {
        forms.add(AtomicReferenceArray.class, new Form("java.util.concurrent.atomic.AtomicReferenceArray") {
            @Override
            void write(Object object, ObjectWriter out) {
                AtomicReferenceArray<?> array = (AtomicReferenceArray<?>) object;
                out.endData();
                for (int i = 0; i < array.length(); i++) {
                    out.reference(array.get(i));
                }
            }

            @Override
            Object create(ObjectBytes in) {
                return new AtomicReferenceArray<>(in.referenceCount());
            }

            @Override
            Object fill(Object created, ObjectBytes in, Object[] references) {
                for (int i = 0; i < references.length; i++) {
                    ((AtomicReferenceArray<Object>) created).set(i, references[i]);
                }
                return created;
            }
        });
        forms.add(AtomicReference.class, new Form("java.util.concurrent.atomic.AtomicReference") {
            @Override
            void write(Object object, ObjectWriter out) {
                out.endData();
                out.reference(((AtomicReference<?>) object).get());
            }

            @Override
            Object create(ObjectBytes in) {
                return new AtomicReference<>();
            }

            @Override
            Object fill(Object created, ObjectBytes in, Object[] references) {
                ((AtomicReference<Object>) created).set(references[0]);
                return created;
            }

            @Override
            String step(Object object, int reference) {
                return storedStep(reference);
            }

            @Override
            String storedStep(int reference) {
                return "get()";
            }
        });
    }

    /// The map has the elements already, which the factory does not expect.
    @SuppressWarnings("unchecked")
    private static Object setFrom(Object map) {
        Set<Object> set = Collections.newSetFromMap(new HashMap<>());
        Class<?> type = set.getClass();
        Memory.putReference(set, Memory.offset(type, "m"), map);
        Memory.putReference(set, Memory.offset(type, "s"), ((Map<Object, Boolean>) map).keySet());
        return set;
    }
}
