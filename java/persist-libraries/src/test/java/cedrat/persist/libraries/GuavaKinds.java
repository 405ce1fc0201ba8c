package cedrat.persist.libraries;

import com.google.common.base.Optional;
import com.google.common.base.Splitter;
import com.google.common.cache.CacheBuilder;
import com.google.common.collect.ArrayListMultimap;
import com.google.common.collect.BiMap;
import com.google.common.collect.ConcurrentHashMultiset;
import com.google.common.collect.EnumBiMap;
import com.google.common.collect.EvictingQueue;
import com.google.common.collect.HashBasedTable;
import com.google.common.collect.HashBiMap;
import com.google.common.collect.HashMultimap;
import com.google.common.collect.HashMultiset;
import com.google.common.collect.ImmutableBiMap;
import com.google.common.collect.ImmutableList;
import com.google.common.collect.ImmutableListMultimap;
import com.google.common.collect.ImmutableMap;
import com.google.common.collect.ImmutableMultiset;
import com.google.common.collect.ImmutableRangeSet;
import com.google.common.collect.ImmutableSet;
import com.google.common.collect.ImmutableSortedMap;
import com.google.common.collect.ImmutableSortedSet;
import com.google.common.collect.ImmutableTable;
import com.google.common.collect.LinkedHashMultimap;
import com.google.common.collect.LinkedHashMultiset;
import com.google.common.collect.LinkedListMultimap;
import com.google.common.collect.Maps;
import com.google.common.collect.Multimap;
import com.google.common.collect.Multiset;
import com.google.common.collect.Ordering;
import com.google.common.collect.Range;
import com.google.common.collect.Table;
import com.google.common.collect.TreeBasedTable;
import com.google.common.collect.TreeMultimap;
import com.google.common.collect.TreeMultiset;
import com.google.common.collect.TreeRangeSet;
import com.google.common.graph.GraphBuilder;
import com.google.common.graph.MutableGraph;
import com.google.common.hash.BloomFilter;
import com.google.common.hash.Funnels;
import com.google.common.hash.HashCode;
import com.google.common.math.Stats;
import com.google.common.net.HostAndPort;
import com.google.common.primitives.ImmutableIntArray;
import com.google.common.primitives.UnsignedInteger;
import com.google.common.util.concurrent.AtomicDouble;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.function.Supplier;

/// Kinds of Guava.
final class GuavaKinds {
    private GuavaKinds() {}

    static void addTo(Kinds kinds) {
        kinds.of("Guava");
        addImmutable(kinds);
        addMoreImmutable(kinds);
        addMutable(kinds);
        addValues(kinds);
    }

    private static void addImmutable(Kinds kinds) {
        kinds.value("ImmutableList", () -> ImmutableList.of("a", "b"), list -> ImmutableList.of("c"), Shown::list)
                .value("ImmutableList of one", () -> ImmutableList.of("a"), list -> ImmutableList.of("c"), Shown::list)
                .value(
                        "ImmutableList, empty",
                        ImmutableList::<String>of,
                        list -> ImmutableList.of("c"),
                        list -> Shown.list(list) + (list == ImmutableList.<String>of()))
                .value(
                        "ImmutableSet",
                        () -> ImmutableSet.of("a", "b", "d"),
                        set -> ImmutableSet.of("c", "x"),
                        Shown::set)
                .value("ImmutableSet of one", () -> ImmutableSet.of("a"), set -> ImmutableSet.of("c"), Shown::set)
                .value(
                        "ImmutableSet of enums",
                        () -> ImmutableSet.of(TimeUnit.DAYS, TimeUnit.HOURS),
                        set -> ImmutableSet.of(TimeUnit.SECONDS),
                        Shown::set)
                .value(
                        "ImmutableSet of objects",
                        () -> ImmutableSet.<Object>of("a", TimeUnit.DAYS, 5, TimeUnit.HOURS),
                        set -> ImmutableSet.of(TimeUnit.SECONDS),
                        set -> Shown.set(set) + set.contains(TimeUnit.HOURS))
                .value(
                        "ImmutableMap",
                        () -> ImmutableMap.of("a", 1, "b", 2),
                        map -> ImmutableMap.of("c", 3),
                        Shown::map)
                .value("ImmutableMap of one", () -> ImmutableMap.of("a", 1), map -> ImmutableMap.of("c", 3), Shown::map)
                .value(
                        "ImmutableMap of classes",
                        () -> ImmutableMap.<Class<?>, Integer>of(String.class, 1, List.class, 2, Map.class, 3),
                        map -> ImmutableMap.of(Integer.class, 4, List.class, 5),
                        Shown::map);
    }

    private static void addMoreImmutable(Kinds kinds) {
        kinds.value(
                        "Maps.immutableEnumMap",
                        () -> Maps.immutableEnumMap(Map.of(TimeUnit.DAYS, 1, TimeUnit.HOURS, 2)),
                        map -> Maps.immutableEnumMap(Map.of(TimeUnit.DAYS, 3)),
                        Shown::map)
                .value(
                        "ImmutableBiMap",
                        () -> ImmutableBiMap.of("a", 1, "b", 2),
                        map -> ImmutableBiMap.of("c", 3),
                        map -> Shown.map(map) + Shown.map(map.inverse()))
                .value(
                        "ImmutableSortedSet",
                        () -> ImmutableSortedSet.of("b", "a"),
                        set -> ImmutableSortedSet.of("c"),
                        Shown::set)
                .value(
                        "ImmutableSortedMap",
                        () -> ImmutableSortedMap.of("b", 1, "a", 2),
                        map -> ImmutableSortedMap.of("c", 2),
                        Shown::map)
                .value(
                        "ImmutableMultiset",
                        () -> ImmutableMultiset.of("a", "b", "a"),
                        set -> ImmutableMultiset.of("c"),
                        set -> Shown.set(set) + set.count("a"))
                .value(
                        "ImmutableListMultimap",
                        () -> ImmutableListMultimap.of("a", 1, "a", 2),
                        map -> ImmutableListMultimap.of("b", 2),
                        map -> map + " " + map.get("a"))
                .value(
                        "ImmutableTable",
                        () -> ImmutableTable.of("a", "b", 1),
                        map -> ImmutableTable.of("c", "b", 1),
                        map -> map + " " + map.get("a", "b"))
                .value(
                        "ImmutableRangeSet",
                        () -> ImmutableRangeSet.of(Range.closed(1, 5)),
                        set -> ImmutableRangeSet.of(Range.closed(2, 5)),
                        set -> set + " " + set.contains(1));
    }

    private static void multimap(Kinds kinds, String name, Supplier<Multimap<String, Integer>> make) {
        kinds.mutable(
                name,
                () -> {
                    Multimap<String, Integer> map = make.get();
                    map.put("a", 1);
                    map.put("a", 2);
                    map.put("b", 2);
                    return map;
                },
                map -> {
                    map.put("c", 3);
                    map.remove("a", 1);
                },
                map -> map + " " + map.get("a") + map.containsEntry("a", 2) + map.keySet() + map.size() + map.keys());
    }

    private static void multiset(Kinds kinds, String name, Supplier<Multiset<String>> make) {
        kinds.mutable(
                name,
                () -> {
                    Multiset<String> set = make.get();
                    set.add("a", 2);
                    set.add("b");
                    return set;
                },
                set -> {
                    set.add("c");
                    set.remove("a");
                },
                set -> Shown.set(set) + set.count("a") + set.elementSet());
    }

    private static void table(Kinds kinds, String name, Supplier<Table<String, String, Integer>> make) {
        kinds.mutable(
                name,
                () -> {
                    Table<String, String, Integer> table = make.get();
                    table.put("a", "b", 1);
                    return table;
                },
                table -> table.put("a", "c", 2),
                table -> table + " " + table.get("a", "b") + table.columnKeySet() + table.rowMap());
    }

    private static void addMutable(Kinds kinds) {
        multimap(kinds, "HashMultimap", HashMultimap::create);
        multimap(kinds, "ArrayListMultimap", ArrayListMultimap::create);
        multimap(kinds, "LinkedHashMultimap", LinkedHashMultimap::create);
        multimap(kinds, "LinkedListMultimap", LinkedListMultimap::create);
        multimap(kinds, "TreeMultimap", TreeMultimap::create);
        multiset(kinds, "HashMultiset", HashMultiset::create);
        multiset(kinds, "LinkedHashMultiset", LinkedHashMultiset::create);
        multiset(kinds, "TreeMultiset", TreeMultiset::create);
        multiset(kinds, "ConcurrentHashMultiset", ConcurrentHashMultiset::create);
        table(kinds, "HashBasedTable", HashBasedTable::create);
        table(kinds, "TreeBasedTable", TreeBasedTable::create);
        kinds.mutable(
                "HashBiMap",
                () -> {
                    BiMap<String, Integer> map = HashBiMap.create();
                    map.put("a", 1);
                    map.put("b", 2);
                    return map;
                },
                map -> map.inverse().remove(1),
                map -> Shown.map(map) + Shown.map(map.inverse()));
        kinds.mutable(
                "HashBiMap of enums",
                () -> HashBiMap.create(Map.of(TimeUnit.DAYS, "d", TimeUnit.HOURS, "h", TimeUnit.MINUTES, "m")),
                map -> map.remove(TimeUnit.DAYS),
                map -> Shown.map(map) + Shown.map(map.inverse()));
        kinds.mutable(
                "EnumBiMap",
                () -> EnumBiMap.create(Map.of(TimeUnit.DAYS, Thread.State.NEW)),
                map -> map.put(TimeUnit.HOURS, Thread.State.BLOCKED),
                Shown::map);
        kinds.mutable("EvictingQueue", () -> EvictingQueue.<String>create(3), queue -> queue.add("a"), Shown::list);
        kinds.mutable(
                "TreeRangeSet",
                () -> {
                    TreeRangeSet<Integer> set = TreeRangeSet.create();
                    set.add(Range.closed(1, 5));
                    return set;
                },
                set -> set.remove(Range.closed(2, 3)),
                set -> set + " " + set.contains(2));
        kinds.mutable(
                "MutableGraph",
                () -> {
                    MutableGraph<String> graph = GraphBuilder.undirected().build();
                    graph.putEdge("a", "b");
                    return graph;
                },
                graph -> graph.putEdge("a", "c"),
                graph -> graph + " " + graph.adjacentNodes("a"));
        kinds.mutable(
                "Cache",
                () -> CacheBuilder.newBuilder().<String, Integer>build(),
                cache -> cache.put("a", 1),
                cache -> cache.asMap().toString());
        kinds.mutable("AtomicDouble", () -> new AtomicDouble(1.5), number -> number.addAndGet(2), Object::toString);
        kinds.mutable(
                "BloomFilter",
                () -> {
                    var filter = BloomFilter.create(Funnels.stringFunnel(StandardCharsets.UTF_8), 100);
                    filter.put("a");
                    return filter;
                },
                filter -> filter.put("b"),
                filter -> filter.mightContain("a") + " " + filter.mightContain("b"));
    }

    private static void addValues(Kinds kinds) {
        kinds.value("Optional", () -> Optional.of("a"), it -> Optional.of("b"), Object::toString)
                .value(
                        "Optional, absent",
                        Optional::<String>absent,
                        it -> Optional.of("b"),
                        it -> it + " " + (it == Optional.<String>absent()))
                .value("Range", () -> Range.atLeast(5), it -> Range.singleton(7), it -> it + " " + it.contains(6))
                .value("Range, all", Range::<Integer>all, it -> Range.singleton(7), it -> it + " " + it.contains(6))
                .value(
                        "Ordering",
                        () -> Ordering.<String>natural().reverse(),
                        it -> Ordering.natural(),
                        it -> it + " " + it.compare("a", "b"))
                .value("Splitter", () -> Splitter.on(','), it -> Splitter.on(';'), it -> it.splitToList("a,b;c")
                        .toString())
                .value("HashCode", () -> HashCode.fromInt(7), it -> HashCode.fromInt(8), Object::toString)
                .value("Stats", () -> Stats.of(1, 2, 4), it -> Stats.of(3), it -> it + " " + it.mean())
                .value(
                        "HostAndPort",
                        () -> HostAndPort.fromString("a:1"),
                        it -> it.withDefaultPort(5),
                        Object::toString)
                .value(
                        "ImmutableIntArray",
                        () -> ImmutableIntArray.of(1, 2),
                        it -> ImmutableIntArray.of(3),
                        Object::toString)
                .value(
                        "UnsignedInteger",
                        () -> UnsignedInteger.valueOf(5),
                        it -> it.plus(UnsignedInteger.ONE),
                        Object::toString);
    }
}
