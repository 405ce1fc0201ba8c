package cedrat.persist.libraries;

import io.vavr.Tuple;
import io.vavr.control.Either;
import io.vavr.control.Option;
import io.vavr.control.Try;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import kotlin.Pair;
import kotlin.Triple;
import kotlin.Unit;
import kotlin.ranges.IntRange;
import kotlin.text.Regex;
import kotlinx.collections.immutable.ExtensionsKt;
import kotlinx.collections.immutable.PersistentMap;
import org.pcollections.ConsPStack;
import org.pcollections.HashTreePMap;
import org.pcollections.HashTreePSet;
import org.pcollections.OrderedPSet;
import org.pcollections.TreePMap;
import org.pcollections.TreePVector;

/// Kinds of Kotlin's libraries, of vavr and of PCollections.
final class PersistentKinds {
    private PersistentKinds() {}

    static void addTo(Kinds kinds) {
        addKotlin(kinds.of("Kotlin"));
        addImmutable(kinds.of("Kotlin immutable collections"));
        addVavr(kinds.of("vavr"));
        addVavrMaps(kinds);
        addPCollections(kinds.of("PCollections"));
    }

    private static void addKotlin(Kinds kinds) {
        kinds.value("Pair", () -> new Pair<>("a", 1), it -> new Pair<>("b", 2), Object::toString)
                .value("Triple", () -> new Triple<>("a", 1, 2), it -> new Triple<>("b", 2, 3), Object::toString)
                .value("Unit", () -> (Object) Unit.INSTANCE, it -> "b", it -> it + " " + (it == Unit.INSTANCE))
                .value("IntRange", () -> new IntRange(1, 5), it -> new IntRange(1, 3), Object::toString)
                .value("Regex", () -> new Regex("a+"), it -> new Regex("b+"), it -> it + " " + it.matches("aa"))
                .mutable(
                        "ArrayDeque",
                        () -> new kotlin.collections.ArrayDeque<>(List.of("a", "b")),
                        it -> it.addLast("c"),
                        Shown::list)
                .mutable(
                        "listOf",
                        () -> kotlin.collections.CollectionsKt.mutableListOf("a", "b"),
                        it -> it.add("c"),
                        Shown::list)
                .value(
                        "emptyList",
                        kotlin.collections.CollectionsKt::<String>emptyList,
                        it -> List.of("a"),
                        it -> Shown.list(it) + (it == kotlin.collections.CollectionsKt.<String>emptyList()))
                .value(
                        "mapOf",
                        () -> kotlin.collections.MapsKt.toMap(List.of(new Pair<>("a", 1), new Pair<>("b", 2))),
                        it -> Map.of("a", 3),
                        Shown::map)
                .value(
                        "buildList",
                        () -> {
                            List<String> builder = kotlin.collections.CollectionsKt.createListBuilder();
                            builder.add("a");
                            return kotlin.collections.CollectionsKt.build(builder);
                        },
                        it -> List.of("a"),
                        Shown::list)
                .value(
                        "buildMap",
                        () -> {
                            Map<String, Integer> builder = kotlin.collections.MapsKt.createMapBuilder();
                            builder.put("a", 1);
                            return kotlin.collections.MapsKt.build(builder);
                        },
                        it -> Map.of("a", 3),
                        Shown::map)
                .value("lazy", () -> kotlin.LazyKt.lazyOf("a"), it -> kotlin.LazyKt.lazyOf("b"), it -> it.getValue());
    }

    private static void addImmutable(Kinds kinds) {
        kinds.value("PersistentList", () -> ExtensionsKt.persistentListOf("a", "b"), it -> it.add("c"), Shown::list)
                .value(
                        "PersistentMap",
                        () -> ExtensionsKt.<String, Integer>persistentMapOf().put("a", 1),
                        it -> it.put("c", 3),
                        Shown::map)
                .value(
                        "PersistentHashMap",
                        () -> ExtensionsKt.<String, Integer>persistentHashMapOf()
                                .put("a", 1),
                        it -> it.put("c", 3),
                        Shown::map)
                .value(
                        "PersistentHashMap of enums",
                        () -> {
                            PersistentMap<TimeUnit, Integer> map = ExtensionsKt.persistentHashMapOf();
                            for (TimeUnit unit : TimeUnit.values()) {
                                map = map.put(unit, 1);
                            }
                            return map;
                        },
                        it -> it.remove(TimeUnit.DAYS),
                        it -> Shown.map(it) + it.get(TimeUnit.HOURS))
                .value("PersistentSet", () -> ExtensionsKt.persistentSetOf("a", "b"), it -> it.add("c"), Shown::set)
                .value(
                        "PersistentList, empty",
                        () -> ExtensionsKt.<String>persistentListOf(),
                        it -> it.add("c"),
                        Shown::list);
    }

    private static void addVavr(Kinds kinds) {
        kinds.value("List", () -> io.vavr.collection.List.of("a", "b"), it -> it.prepend("c"), Shown::elements)
                .value(
                        "List, empty",
                        io.vavr.collection.List::<String>empty,
                        it -> it.prepend("c"),
                        it -> Shown.elements(it) + it.isEmpty() + (it == io.vavr.collection.List.<String>empty()))
                .value("Vector", () -> io.vavr.collection.Vector.of("a", "b"), it -> it.append("c"), Shown::elements)
                .value("Queue", () -> io.vavr.collection.Queue.of("a", "b"), it -> it.append("c"), Shown::elements)
                .value("Array", () -> io.vavr.collection.Array.of("a", "b"), it -> it.append("c"), Shown::elements)
                .value(
                        "HashSet",
                        () -> io.vavr.collection.HashSet.of("a", "b"),
                        it -> it.add("c"),
                        it -> it.toSortedSet() + " " + it.contains("a"))
                .value(
                        "LinkedHashSet",
                        () -> io.vavr.collection.LinkedHashSet.of("a", "b"),
                        it -> it.add("c"),
                        it -> it + " " + it.contains("a"))
                .value(
                        "TreeSet",
                        () -> io.vavr.collection.TreeSet.of("a", "b"),
                        it -> it.add("c"),
                        it -> it + " " + it.contains("a"))
                .value("Option", () -> Option.of("a"), it -> Option.of("b"), Object::toString)
                .value(
                        "Option, none",
                        Option::<String>none,
                        it -> Option.of("b"),
                        it -> it + " " + (it == Option.<String>none()))
                .value("Either", () -> Either.<String, Integer>right(5), it -> Either.left("b"), Object::toString)
                .value("Try", () -> Try.success("a"), it -> Try.success("b"), Object::toString)
                .value("Tuple3", () -> Tuple.of("a", 1, 2), it -> Tuple.of("b", 1, 2), Object::toString)
                .value(
                        "Lazy",
                        () -> evaluated(io.vavr.Lazy.of(() -> "a")),
                        it -> evaluated(io.vavr.Lazy.of(() -> "b")),
                        it -> it.get());
    }

    private static io.vavr.Lazy<String> evaluated(io.vavr.Lazy<String> lazy) {
        lazy.get();
        return lazy;
    }

    private static void addVavrMaps(Kinds kinds) {
        kinds.value(
                        "HashMap",
                        () -> io.vavr.collection.HashMap.of("a", 1, "b", 2),
                        it -> it.put("c", 3),
                        it -> it.toJavaMap() + " " + it.get("a"))
                .value(
                        "HashMap of enums",
                        () -> io.vavr.collection.HashMap.of(TimeUnit.DAYS, 1, TimeUnit.HOURS, 2, TimeUnit.MINUTES, 3),
                        it -> it.put(TimeUnit.SECONDS, 3),
                        it -> it.size() + " " + it.get(TimeUnit.HOURS) + it.get(TimeUnit.DAYS))
                .value(
                        "HashMap of classes",
                        () -> io.vavr.collection.HashMap.<Class<?>, Integer>of(String.class, 1, List.class, 2),
                        it -> it.put(Map.class, 3),
                        it -> it.size() + " " + it.get(String.class) + it.get(List.class))
                .value(
                        "LinkedHashMap",
                        () -> io.vavr.collection.LinkedHashMap.of("a", 1, "b", 2),
                        it -> it.put("c", 3),
                        it -> it + " " + it.get("a"))
                .value(
                        "TreeMap",
                        () -> io.vavr.collection.TreeMap.of("a", 1, "b", 2),
                        it -> it.put("c", 3),
                        it -> it + " " + it.get("a"));
    }

    private static void addPCollections(Kinds kinds) {
        kinds.value("HashTreePMap", () -> HashTreePMap.singleton("a", 1), it -> it.plus("b", 2), Shown::map)
                .value("HashTreePSet", () -> HashTreePSet.from(List.of("a", "b")), it -> it.plus("c"), Shown::set)
                .value(
                        "HashTreePSet of enums",
                        () -> HashTreePSet.from(List.of(TimeUnit.values())),
                        it -> it.minus(TimeUnit.DAYS),
                        it -> Shown.set(it) + it.contains(TimeUnit.HOURS))
                .value("TreePVector", () -> TreePVector.from(List.of("a", "b")), it -> it.plus("c"), Shown::list)
                .value("ConsPStack", () -> ConsPStack.from(List.of("a", "b")), it -> it.plus("c"), Shown::list)
                .value("OrderedPSet", () -> OrderedPSet.from(List.of("a", "b")), it -> it.plus("c"), Shown::set)
                .value("TreePMap", () -> TreePMap.singleton("a", 1), it -> it.plus("b", 2), Shown::map);
    }
}
