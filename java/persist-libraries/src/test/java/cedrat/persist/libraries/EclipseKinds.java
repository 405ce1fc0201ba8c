package cedrat.persist.libraries;

import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.eclipse.collections.api.multimap.MutableMultimap;
import org.eclipse.collections.impl.bag.mutable.HashBag;
import org.eclipse.collections.impl.bimap.mutable.HashBiMap;
import org.eclipse.collections.impl.block.factory.HashingStrategies;
import org.eclipse.collections.impl.factory.Bags;
import org.eclipse.collections.impl.factory.Lists;
import org.eclipse.collections.impl.factory.Maps;
import org.eclipse.collections.impl.factory.Sets;
import org.eclipse.collections.impl.factory.primitive.IntLists;
import org.eclipse.collections.impl.list.Interval;
import org.eclipse.collections.impl.list.mutable.FastList;
import org.eclipse.collections.impl.list.mutable.primitive.IntArrayList;
import org.eclipse.collections.impl.map.mutable.ConcurrentHashMap;
import org.eclipse.collections.impl.map.mutable.UnifiedMap;
import org.eclipse.collections.impl.map.mutable.primitive.IntObjectHashMap;
import org.eclipse.collections.impl.map.mutable.primitive.ObjectIntHashMap;
import org.eclipse.collections.impl.map.sorted.mutable.TreeSortedMap;
import org.eclipse.collections.impl.map.strategy.mutable.UnifiedMapWithHashingStrategy;
import org.eclipse.collections.impl.multimap.list.FastListMultimap;
import org.eclipse.collections.impl.multimap.set.UnifiedSetMultimap;
import org.eclipse.collections.impl.set.mutable.UnifiedSet;
import org.eclipse.collections.impl.set.mutable.primitive.LongHashSet;
import org.eclipse.collections.impl.set.sorted.mutable.TreeSortedSet;
import org.eclipse.collections.impl.stack.mutable.ArrayStack;
import org.eclipse.collections.impl.tuple.Tuples;

/// Kinds of Eclipse Collections.
final class EclipseKinds {
    private EclipseKinds() {}

    static void addTo(Kinds kinds) {
        kinds.of("Eclipse Collections");
        addMutable(kinds);
        addMaps(kinds);
        kinds.value(
                        "ImmutableList",
                        () -> Lists.immutable.of("a", "b"),
                        it -> it.newWith("c"),
                        it -> it + " " + it.get(1))
                .value(
                        "ImmutableList, empty",
                        Lists.immutable::<String>empty,
                        it -> it.newWith("c"),
                        it -> it + " " + (it == Lists.immutable.<String>empty()))
                .value(
                        "ImmutableSet",
                        () -> Sets.immutable.of("a", "b"),
                        it -> it.newWith("c"),
                        it -> it.toSortedList() + " " + it.contains("a"))
                .value(
                        "ImmutableSet, larger",
                        () -> Sets.immutable.of("a", "b", "c", "d", "e", "f"),
                        it -> it.newWithout("c"),
                        it -> it.toSortedList() + " " + it.contains("a"))
                .value(
                        "ImmutableMap",
                        () -> Maps.immutable.of("a", 1),
                        it -> it.newWithKeyValue("b", 2),
                        it -> Shown.map(it.castToMap()) + " " + it.get("a"))
                .value(
                        "ImmutableMap, larger",
                        () -> Maps.immutable.ofMap(Map.of("a", 1, "b", 2, "c", 3, "d", 4, "e", 5)),
                        it -> it.newWithoutKey("a"),
                        it -> Shown.map(it.castToMap()) + " " + it.get("a"))
                .value(
                        "ImmutableBag",
                        () -> Bags.immutable.of("a", "a"),
                        it -> it.newWith("b"),
                        it -> it + " " + it.occurrencesOf("a"))
                .value("ImmutableIntList", () -> IntLists.immutable.of(1, 2), it -> it.newWith(3), Object::toString)
                .value("Interval", () -> Interval.oneTo(5), it -> Interval.oneTo(3), Shown::list)
                .value("Twin", () -> Tuples.twin("a", "b"), it -> Tuples.twin("c", "d"), Object::toString);
    }

    private static void addMutable(Kinds kinds) {
        kinds.mutable("FastList", () -> FastList.newListWith("a", "b"), list -> list.add("c"), Shown::list)
                .mutable("FastList, empty", FastList::<String>newList, list -> list.add("c"), Shown::list)
                .mutable("UnifiedSet", () -> UnifiedSet.newSetWith("a", "b"), set -> set.add("c"), Shown::set)
                .mutable(
                        "UnifiedSet with colliding elements",
                        () -> UnifiedSet.newSetWith("Aa", "BB", "x", null),
                        set -> set.remove("Aa"),
                        Shown::set)
                .mutable(
                        "UnifiedSet of enums",
                        () -> UnifiedSet.newSetWith(TimeUnit.values()),
                        set -> set.remove(TimeUnit.DAYS),
                        set -> Shown.set(set) + set.contains(TimeUnit.HOURS))
                .mutable(
                        "HashBag",
                        () -> HashBag.newBagWith("a", "b", "a"),
                        bag -> bag.add("b"),
                        bag -> Shown.set(bag) + bag.occurrencesOf("a"))
                .mutable("TreeSortedSet", () -> TreeSortedSet.newSetWith("b", "a"), set -> set.add("c"), Shown::set)
                .mutable(
                        "ArrayStack",
                        () -> ArrayStack.newStackWith("a", "b"),
                        stack -> stack.push("c"),
                        stack -> stack + " " + stack.peek())
                .mutable("IntArrayList", () -> IntArrayList.newListWith(1, 2), list -> list.add(3), Object::toString)
                .mutable(
                        "LongHashSet",
                        () -> LongHashSet.newSetWith(1, 2, 77),
                        set -> set.add(3),
                        set -> set.toSortedList() + " " + set.contains(77))
                .mutable(
                        "LongHashSet, larger",
                        () -> {
                            LongHashSet set = new LongHashSet();
                            for (int i = 0; i < 100; i++) {
                                set.add(i * 7919L);
                            }
                            return set;
                        },
                        set -> set.remove(7919),
                        set -> set.toSortedList() + " " + set.contains(7919));
    }

    private static void addMaps(Kinds kinds) {
        kinds.mutable(
                        "UnifiedMap",
                        () -> UnifiedMap.newWithKeysValues("a", 1, "b", 2),
                        map -> map.put("c", 3),
                        Shown::map)
                .mutable(
                        "UnifiedMap with colliding keys",
                        () -> UnifiedMap.newWithKeysValues("Aa", 1, "BB", 2, null, 4),
                        map -> map.remove("Aa"),
                        Shown::map)
                .mutable(
                        "UnifiedMap with class keys",
                        () -> UnifiedMap.<Class<?>, Integer>newWithKeysValues(String.class, 1, Map.class, 2),
                        map -> map.put(List.class, 3),
                        map -> Shown.map(map) + map.get(Map.class))
                .mutable(
                        "UnifiedMapWithHashingStrategy",
                        () -> {
                            var map = UnifiedMapWithHashingStrategy.<String, Integer>newMap(
                                    HashingStrategies.defaultStrategy());
                            map.put("a", 1);
                            return map;
                        },
                        map -> map.put("b", 2),
                        Shown::map)
                .mutable(
                        "ConcurrentHashMap",
                        () -> {
                            ConcurrentHashMap<String, Integer> map = ConcurrentHashMap.newMap();
                            map.put("a", 1);
                            return map;
                        },
                        map -> map.put("b", 2),
                        Shown::map)
                .mutable(
                        "HashBiMap",
                        () -> HashBiMap.newWithKeysValues("a", 1),
                        map -> map.put("b", 2),
                        map -> Shown.map(map) + Shown.map(map.inverse()))
                .mutable(
                        "TreeSortedMap",
                        () -> TreeSortedMap.newMapWith("b", 1, "a", 2),
                        map -> map.put("c", 2),
                        Shown::map)
                .mutable(
                        "IntObjectHashMap",
                        () -> IntObjectHashMap.newWithKeysValues(1, "a", 50, "b"),
                        map -> map.put(3, "c"),
                        map -> map.keySet().toSortedList() + map.get(1) + map.get(50) + map.get(3))
                .mutable(
                        "ObjectIntHashMap",
                        () -> ObjectIntHashMap.newWithKeysValues("a", 1),
                        map -> map.put("b", 2),
                        map -> map.keySet().stream().sorted().toList() + " " + map.get("a") + map.get("b"))
                .mutable(
                        "ObjectIntHashMap of enums",
                        () -> ObjectIntHashMap.newWithKeysValues(TimeUnit.DAYS, 1, TimeUnit.HOURS, 2),
                        map -> map.put(TimeUnit.MINUTES, 3),
                        map -> map.size() + " " + map.get(TimeUnit.DAYS) + map.get(TimeUnit.MINUTES));
        multimap(kinds, "FastListMultimap", FastListMultimap::newMultimap);
        multimap(kinds, "UnifiedSetMultimap", UnifiedSetMultimap::newMultimap);
    }

    private static void multimap(
            Kinds kinds, String name, java.util.function.Supplier<MutableMultimap<String, Integer>> make) {
        kinds.mutable(
                name,
                () -> {
                    MutableMultimap<String, Integer> map = make.get();
                    map.put("a", 1);
                    map.put("a", 2);
                    return map;
                },
                map -> map.put("b", 3),
                map -> Shown.map(map.toMap()) + map.containsKey("a") + map.size());
    }
}
