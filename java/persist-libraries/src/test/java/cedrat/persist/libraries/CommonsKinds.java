package cedrat.persist.libraries;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import java.util.concurrent.TimeUnit;
import org.apache.commons.collections4.BidiMap;
import org.apache.commons.collections4.IterableMap;
import org.apache.commons.collections4.MultiSet;
import org.apache.commons.collections4.MultiValuedMap;
import org.apache.commons.collections4.bag.HashBag;
import org.apache.commons.collections4.bag.TreeBag;
import org.apache.commons.collections4.bidimap.DualHashBidiMap;
import org.apache.commons.collections4.bidimap.DualLinkedHashBidiMap;
import org.apache.commons.collections4.bidimap.DualTreeBidiMap;
import org.apache.commons.collections4.bidimap.TreeBidiMap;
import org.apache.commons.collections4.collection.CompositeCollection;
import org.apache.commons.collections4.keyvalue.DefaultKeyValue;
import org.apache.commons.collections4.keyvalue.MultiKey;
import org.apache.commons.collections4.list.CursorableLinkedList;
import org.apache.commons.collections4.list.GrowthList;
import org.apache.commons.collections4.list.NodeCachingLinkedList;
import org.apache.commons.collections4.list.TreeList;
import org.apache.commons.collections4.list.UnmodifiableList;
import org.apache.commons.collections4.map.CaseInsensitiveMap;
import org.apache.commons.collections4.map.DefaultedMap;
import org.apache.commons.collections4.map.Flat3Map;
import org.apache.commons.collections4.map.HashedMap;
import org.apache.commons.collections4.map.LRUMap;
import org.apache.commons.collections4.map.LinkedMap;
import org.apache.commons.collections4.map.ListOrderedMap;
import org.apache.commons.collections4.map.MultiKeyMap;
import org.apache.commons.collections4.map.PassiveExpiringMap;
import org.apache.commons.collections4.map.ReferenceIdentityMap;
import org.apache.commons.collections4.map.ReferenceMap;
import org.apache.commons.collections4.map.SingletonMap;
import org.apache.commons.collections4.map.StaticBucketMap;
import org.apache.commons.collections4.map.UnmodifiableMap;
import org.apache.commons.collections4.multimap.ArrayListValuedHashMap;
import org.apache.commons.collections4.multimap.HashSetValuedHashMap;
import org.apache.commons.collections4.multiset.HashMultiSet;
import org.apache.commons.collections4.queue.CircularFifoQueue;
import org.apache.commons.collections4.set.ListOrderedSet;
import org.apache.commons.collections4.trie.PatriciaTrie;
import org.apache.commons.lang3.Range;
import org.apache.commons.lang3.mutable.MutableBoolean;
import org.apache.commons.lang3.mutable.MutableDouble;
import org.apache.commons.lang3.mutable.MutableInt;
import org.apache.commons.lang3.mutable.MutableObject;
import org.apache.commons.lang3.text.StrBuilder;
import org.apache.commons.lang3.tuple.ImmutablePair;
import org.apache.commons.lang3.tuple.MutablePair;
import org.apache.commons.lang3.tuple.Triple;
import org.apache.commons.math3.complex.Complex;
import org.apache.commons.math3.fraction.BigFraction;
import org.apache.commons.math3.linear.Array2DRowRealMatrix;
import org.apache.commons.math3.linear.ArrayRealVector;
import org.apache.commons.math3.linear.BlockRealMatrix;
import org.apache.commons.math3.linear.OpenMapRealVector;
import org.apache.commons.math3.random.MersenneTwister;
import org.apache.commons.math3.stat.descriptive.DescriptiveStatistics;
import org.apache.commons.math3.stat.descriptive.SummaryStatistics;
import org.apache.commons.math3.util.ResizableDoubleArray;

/// Kinds of the Commons libraries.
final class CommonsKinds {
    /// A key by identity.
    private static final class Key {}

    private CommonsKinds() {}

    static void addTo(Kinds kinds) {
        addMaps(kinds.of("Commons Collections"));
        addKeys(kinds);
        addOthers(kinds);
        addLists(kinds);
        addLang(kinds.of("Commons Lang"));
        addMath(kinds.of("Commons Math"));
    }

    private static <M extends Map<String, Integer>> M filled(M map) {
        map.put("a", 1);
        map.put("b", 2);
        return map;
    }

    private static void map(Kinds kinds, String name, java.util.function.Supplier<Map<String, Integer>> make) {
        kinds.mutable(
                name,
                () -> filled(make.get()),
                map -> {
                    map.put("c", 3);
                    map.remove("a");
                },
                Shown::map);
    }

    private static void addMaps(Kinds kinds) {
        map(kinds, "HashedMap", HashedMap::new);
        map(kinds, "LinkedMap", LinkedMap::new);
        map(kinds, "ListOrderedMap", ListOrderedMap::new);
        map(kinds, "Flat3Map", Flat3Map::new);
        map(kinds, "CaseInsensitiveMap", CaseInsensitiveMap::new);
        map(kinds, "DualHashBidiMap", DualHashBidiMap::new);
        map(kinds, "DualLinkedHashBidiMap", DualLinkedHashBidiMap::new);
        map(kinds, "DualTreeBidiMap", DualTreeBidiMap::new);
        map(kinds, "TreeBidiMap", TreeBidiMap::new);
        map(kinds, "PatriciaTrie", PatriciaTrie::new);
        map(kinds, "StaticBucketMap", StaticBucketMap::new);
        map(kinds, "ReferenceMap", ReferenceMap::new);
        map(kinds, "ReferenceIdentityMap", ReferenceIdentityMap::new);
        map(kinds, "PassiveExpiringMap", PassiveExpiringMap::new);
        map(kinds, "DefaultedMap", () -> DefaultedMap.defaultedMap(new HashMap<>(), 7));
        kinds.mutable(
                "LRUMap",
                () -> filled(new LRUMap<String, Integer>(2)),
                map -> map.put("c", 3),
                map -> map + " " + map.get("a") + map.get("b") + map.get("c"));
    }

    private static void addKeys(Kinds kinds) {
        kinds.mutable(
                "HashedMap with enum keys",
                () -> {
                    IterableMap<TimeUnit, Integer> map = new HashedMap<>();
                    for (TimeUnit unit : TimeUnit.values()) {
                        map.put(unit, unit.ordinal());
                    }
                    return map;
                },
                map -> map.remove(TimeUnit.DAYS),
                map -> Shown.map(map) + map.get(TimeUnit.HOURS));
        kinds.mutable(
                "HashedMap with keys of records",
                () -> {
                    record Rate(TimeUnit unit, int number) {}
                    IterableMap<Object, Integer> map = new HashedMap<>();
                    map.put(new Rate(TimeUnit.HOURS, 7), 1);
                    map.put(List.of(TimeUnit.HOURS, TimeUnit.DAYS), 2);
                    return map;
                },
                map -> map.put("c", 3),
                map -> Shown.map(map) + map.get(List.of(TimeUnit.HOURS, TimeUnit.DAYS)));
        kinds.mutable(
                "HashedMap with class keys",
                () -> new HashedMap<>(Map.<Class<?>, Integer>of(String.class, 1, CommonsKinds.class, 2, Map.class, 3)),
                map -> map.remove(Map.class),
                map -> Shown.map(map) + map.get(String.class));
        kinds.mutable(
                "HashedMap with keys by identity",
                () -> new HashedMap<>(Map.of(new Key(), 1, new Key(), 2, new Key(), 3)),
                map -> map.put(new Key(), 4),
                map -> map.keySet().stream().allMatch(map::containsKey) + " " + new TreeSet<>(map.values()));
        kinds.mutable(
                "HashedMap with plain objects as keys",
                () -> new HashedMap<>(Map.of(new Object(), 1, new Object(), 2)),
                map -> map.put(new Object(), 4),
                Shown::map);
        kinds.mutable(
                "HashedMap with class in composite key",
                () -> new HashedMap<>(Map.<Object, Integer>of(List.of(String.class), 1, List.of(Integer.class), 2)),
                map -> map.put(List.of(Map.class), 4),
                map -> Shown.map(map) + map.get(List.of(String.class)));
        kinds.mutable(
                "HashedMap with values by identity",
                () -> {
                    IterableMap<String, Key> map = new HashedMap<>();
                    map.put("a", new Key());
                    return map;
                },
                map -> map.put("b", new Key()),
                map -> new TreeSet<>(map.keySet()) + " " + map.containsKey("a"));
    }

    @SuppressWarnings("deprecation")
    private static void addOthers(Kinds kinds) {
        kinds.value("SingletonMap", () -> new SingletonMap<>("a", 1), map -> new SingletonMap<>("b", 2), Shown::map)
                .value(
                        "UnmodifiableMap",
                        () -> UnmodifiableMap.unmodifiableMap(filled(new HashMap<String, Integer>())),
                        map -> UnmodifiableMap.unmodifiableMap(new HashMap<>(Map.of("c", 3))),
                        Shown::map)
                .mutable(
                        "MultiKeyMap",
                        () -> {
                            MultiKeyMap<String, Integer> map = new MultiKeyMap<>();
                            map.put("a", "b", 1);
                            return map;
                        },
                        map -> map.put("c", "d", 2),
                        map -> Shown.map(map) + map.get("a", "b"))
                .mutable(
                        "MultiKey",
                        () -> new ArrayList<>(List.of(new MultiKey<>("a", "b"))),
                        List::removeLast,
                        list -> list + " " + list.contains(new MultiKey<>("a", "b")))
                .value(
                        "DefaultKeyValue",
                        () -> new DefaultKeyValue<>("a", 1),
                        pair -> new DefaultKeyValue<>("b", 2),
                        Object::toString)
                .mutable(
                        "HashBag",
                        () -> new HashBag<>(List.of("a", "b", "b")),
                        bag -> bag.add("a", 3),
                        bag -> Shown.set(bag) + bag.getCount("b"))
                .mutable("TreeBag", () -> new TreeBag<>(List.of("a", "b", "b")), bag -> bag.add("a", 3), Shown::set)
                .mutable(
                        "HashMultiSet",
                        () -> (MultiSet<String>) new HashMultiSet<>(List.of("a", "b", "b")),
                        bag -> bag.add("c", 3),
                        bag -> Shown.set(bag) + bag.getCount("b"));
    }

    @SuppressWarnings("deprecation")
    private static void addLists(Kinds kinds) {
        kinds.mutable("TreeList", () -> new TreeList<>(List.of("a", "b")), list -> list.add(1, "c"), Shown::list)
                .mutable(
                        "GrowthList",
                        () -> GrowthList.growthList(new ArrayList<>(List.of("a"))),
                        list -> list.add("c"),
                        Shown::list)
                .mutable(
                        "NodeCachingLinkedList",
                        () -> new NodeCachingLinkedList<>(List.of("a", "b")),
                        list -> list.remove("a"),
                        Shown::list)
                .mutable(
                        "CursorableLinkedList",
                        () -> new CursorableLinkedList<>(List.of("a", "b")),
                        list -> list.add("c"),
                        Shown::list)
                .value(
                        "UnmodifiableList",
                        () -> UnmodifiableList.unmodifiableList(new ArrayList<>(List.of("a"))),
                        list -> UnmodifiableList.unmodifiableList(new ArrayList<>(List.of("b"))),
                        Shown::list)
                .mutable(
                        "CircularFifoQueue",
                        () -> new CircularFifoQueue<>(List.of("a", "b")),
                        queue -> queue.add("c"),
                        Shown::list)
                .mutable(
                        "ListOrderedSet",
                        () -> ListOrderedSet.listOrderedSet(new ArrayList<>(List.of("a", "b"))),
                        set -> set.add("c"),
                        Shown::set)
                .mutable(
                        "CompositeCollection",
                        () -> new CompositeCollection<>(new ArrayList<>(List.of("a"))),
                        all -> all.addComposited(new ArrayList<>(List.of("b"))),
                        Shown::list);
        multimap(kinds, "ArrayListValuedHashMap", ArrayListValuedHashMap::new);
        multimap(kinds, "HashSetValuedHashMap", HashSetValuedHashMap::new);
        kinds.value(
                "BidiMap of enums",
                () -> (BidiMap<TimeUnit, String>)
                        new DualHashBidiMap<>(Map.of(TimeUnit.DAYS, "d", TimeUnit.HOURS, "h")),
                map -> new DualHashBidiMap<>(Map.of(TimeUnit.DAYS, "x")),
                map -> Shown.map(map) + map.getKey("d"));
    }

    private static void multimap(
            Kinds kinds, String name, java.util.function.Supplier<MultiValuedMap<String, Integer>> make) {
        kinds.mutable(
                name,
                () -> {
                    MultiValuedMap<String, Integer> map = make.get();
                    map.put("a", 1);
                    map.put("a", 2);
                    return map;
                },
                map -> map.put("b", 3),
                map -> map + " " + map.get("a") + map.containsKey("b") + map.size());
    }

    @SuppressWarnings("deprecation")
    private static void addLang(Kinds kinds) {
        kinds.mutable("MutableInt", () -> new MutableInt(5), MutableInt::increment, Object::toString)
                .mutable("MutableDouble", () -> new MutableDouble(5), MutableDouble::increment, Object::toString)
                .mutable("MutableBoolean", () -> new MutableBoolean(true), MutableBoolean::setFalse, Object::toString)
                .mutable(
                        "MutableObject",
                        () -> new MutableObject<Object>("a"),
                        it -> it.setValue("b"),
                        it -> "" + it.getValue())
                .mutable("MutablePair", () -> MutablePair.of("a", 1), pair -> pair.setRight(2), Object::toString)
                .value(
                        "ImmutablePair",
                        () -> ImmutablePair.of("a", 1),
                        pair -> ImmutablePair.of("b", 1),
                        Object::toString)
                .value("Triple", () -> Triple.of("a", 1, 2), pair -> Triple.of("b", 1, 2), Object::toString)
                .value("Range", () -> Range.of(1, 5), range -> Range.of(2, 7), range -> range + " " + range.contains(5))
                .mutable("StrBuilder", () -> new StrBuilder("abc"), text -> text.append("d"), Object::toString);
    }

    private static void addMath(Kinds kinds) {
        kinds.value("Complex", () -> new Complex(1, 2), it -> it.multiply(2), it -> it + " " + it.abs())
                .value("BigFraction", () -> new BigFraction(1, 3), it -> it.add(2), Object::toString)
                .mutable(
                        "Array2DRowRealMatrix",
                        () -> new Array2DRowRealMatrix(new double[][] {{1, 2}, {3, 4}}),
                        it -> it.setEntry(0, 0, 7),
                        it -> it + " " + it.multiply(it))
                .mutable(
                        "BlockRealMatrix",
                        () -> new BlockRealMatrix(new double[][] {{1, 2}, {3, 4}}),
                        it -> it.setEntry(0, 0, 7),
                        it -> it + " " + it.multiply(it))
                .mutable(
                        "ArrayRealVector",
                        () -> new ArrayRealVector(new double[] {1, 2}),
                        it -> it.setEntry(0, 7),
                        Object::toString)
                .mutable(
                        "OpenMapRealVector",
                        () -> new OpenMapRealVector(new double[] {1, 0, 2}),
                        it -> it.setEntry(1, 7),
                        it -> Arrays.toString(it.toArray()))
                .mutable("MersenneTwister", () -> new MersenneTwister(5), MersenneTwister::nextInt, it -> {
                    try {
                        java.lang.reflect.Field state = MersenneTwister.class.getDeclaredField("mt");
                        state.setAccessible(true);
                        return Arrays.toString((int[]) state.get(it));
                    } catch (ReflectiveOperationException e) {
                        throw new AssertionError(e);
                    }
                })
                .mutable(
                        "DescriptiveStatistics",
                        () -> new DescriptiveStatistics(new double[] {1, 2, 4}),
                        it -> it.addValue(9),
                        it -> it.getMean() + " " + it.getMax() + " " + it.getN())
                .mutable(
                        "SummaryStatistics",
                        () -> {
                            SummaryStatistics statistics = new SummaryStatistics();
                            statistics.addValue(1);
                            statistics.addValue(3);
                            return statistics;
                        },
                        it -> it.addValue(9),
                        it -> it.getMean() + " " + it.getMax() + " " + it.getVariance())
                .mutable(
                        "ResizableDoubleArray",
                        () -> new ResizableDoubleArray(new double[] {1, 2}),
                        it -> it.addElement(7),
                        it -> Arrays.toString(it.getElements()));
    }
}
