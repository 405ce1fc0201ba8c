package cedrat.persist.libraries;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import scala.Option;
import scala.Option$;
import scala.Some;
import scala.Tuple2;
import scala.collection.immutable.List$;
import scala.collection.immutable.Map$;
import scala.collection.immutable.Nil$;
import scala.collection.immutable.Set$;
import scala.collection.immutable.TreeMap$;
import scala.collection.mutable.ArrayBuffer;
import scala.collection.mutable.ArrayDeque;
import scala.collection.mutable.HashMap;
import scala.collection.mutable.HashSet;
import scala.collection.mutable.LinkedHashMap;
import scala.collection.mutable.ListBuffer;
import scala.math.BigDecimal$;
import scala.math.BigInt$;
import scala.math.Ordering;
import scala.util.Right;

/// Kinds of the library of Scala.
final class ScalaKinds {
    private ScalaKinds() {}

    static void addTo(Kinds kinds) {
        kinds.of("Scala");
        addMutable(kinds);
        addImmutable(kinds);
        addMaps(kinds);
        kinds.value("Option, some", () -> (Option<String>) new Some<>("a"), it -> new Some<>("b"), Object::toString)
                .value(
                        "Option, none",
                        Option$.MODULE$::<String>empty,
                        it -> new Some<>("b"),
                        it -> it + " " + (it == Option$.MODULE$.<String>empty()))
                .value("Tuple2", () -> new Tuple2<>("a", 1), it -> new Tuple2<>("b", 2), Object::toString)
                .value("Right", () -> new Right<String, Integer>(5), it -> new Right<>(6), Object::toString)
                .value("BigInt", () -> BigInt$.MODULE$.apply(5), it -> it.pow(3), Object::toString)
                .value("BigDecimal", () -> BigDecimal$.MODULE$.apply("1.5"), it -> it.pow(2), Object::toString)
                .value(
                        "Range",
                        () -> new scala.collection.immutable.Range.Inclusive(1, 5, 1),
                        it -> new scala.collection.immutable.Range.Inclusive(1, 3, 1),
                        it -> it + " " + it.sum(scala.math.Numeric.IntIsIntegral$.MODULE$));
    }

    private static String iterated(scala.collection.Iterable<?> elements) {
        List<String> found = new ArrayList<>();
        for (scala.collection.Iterator<?> at = elements.iterator(); at.hasNext(); ) {
            found.add(String.valueOf(at.next()));
        }
        return found.toString();
    }

    private static String sorted(scala.collection.Iterable<?> elements) {
        List<String> found = new ArrayList<>();
        for (scala.collection.Iterator<?> at = elements.iterator(); at.hasNext(); ) {
            found.add(String.valueOf(at.next()));
        }
        found.sort(null);
        return found.toString();
    }

    private static void addMutable(Kinds kinds) {
        kinds.mutable(
                        "mutable.ArrayBuffer",
                        () -> new ArrayBuffer<String>().addOne("a"),
                        it -> it.addOne("b"),
                        it -> iterated(it) + it.apply(0))
                .mutable(
                        "mutable.ListBuffer",
                        () -> new ListBuffer<String>().addOne("a"),
                        it -> it.addOne("b"),
                        it -> iterated(it) + it.apply(0))
                .mutable(
                        "mutable.ArrayDeque",
                        () -> new ArrayDeque<String>(16).addOne("a"),
                        it -> it.addOne("b"),
                        it -> iterated(it) + it.apply(0))
                .mutable(
                        "mutable.HashMap",
                        () -> {
                            HashMap<String, Integer> map = new HashMap<>();
                            map.put("a", 1);
                            return map;
                        },
                        it -> it.put("b", 2),
                        it -> sorted(it) + it.get("a"))
                .mutable(
                        "mutable.HashMap of enums",
                        () -> {
                            HashMap<TimeUnit, Integer> map = new HashMap<>();
                            for (TimeUnit unit : TimeUnit.values()) {
                                map.put(unit, 1);
                            }
                            return map;
                        },
                        it -> it.remove(TimeUnit.DAYS),
                        it -> sorted(it) + it.get(TimeUnit.HOURS))
                .mutable(
                        "mutable.HashMap of classes",
                        () -> {
                            HashMap<Class<?>, Integer> map = new HashMap<>();
                            map.put(String.class, 1);
                            map.put(List.class, 1);
                            return map;
                        },
                        it -> it.remove(String.class),
                        it -> sorted(it) + it.get(List.class))
                .mutable(
                        "mutable.LinkedHashMap",
                        () -> {
                            LinkedHashMap<String, Integer> map = new LinkedHashMap<>();
                            map.put("a", 1);
                            return map;
                        },
                        it -> it.put("b", 2),
                        it -> iterated(it) + it.get("a"))
                .mutable(
                        "mutable.HashSet",
                        () -> new HashSet<String>().addOne("a"),
                        it -> it.add("b"),
                        it -> sorted(it) + it.contains("a"));
    }

    private static void addImmutable(Kinds kinds) {
        kinds.value(
                        "List",
                        () -> List$.MODULE$.<String>empty().$colon$colon("b").$colon$colon("a"),
                        it -> it.$colon$colon("c"),
                        it -> iterated(it) + it.length())
                .value(
                        "Nil",
                        () -> List$.MODULE$.<String>empty(),
                        it -> it.$colon$colon("c"),
                        it -> iterated(it) + it.isEmpty() + ((Object) it == Nil$.MODULE$))
                .value("Vector", () -> vector("a", "b"), it -> vector("a", "c"), it -> iterated(it) + it.apply(0))
                .value(
                        "Set of one",
                        () -> Set$.MODULE$.<String>empty().incl("a"),
                        it -> it.incl("c"),
                        it -> sorted(it) + it.contains("a"))
                .value(
                        "Set, larger",
                        () -> Set$.MODULE$
                                .<String>empty()
                                .incl("a")
                                .incl("b")
                                .incl("c")
                                .incl("d")
                                .incl("e")
                                .incl("f"),
                        it -> it.excl("c"),
                        it -> sorted(it) + it.contains("a"))
                .value(
                        "Set of enums",
                        () -> {
                            scala.collection.immutable.Set<TimeUnit> set = Set$.MODULE$.empty();
                            for (TimeUnit unit : TimeUnit.values()) {
                                set = set.incl(unit);
                            }
                            return set;
                        },
                        it -> it.excl(TimeUnit.DAYS),
                        it -> sorted(it) + it.contains(TimeUnit.HOURS));
    }

    private static void addMaps(Kinds kinds) {
        kinds.value(
                        "Map of one",
                        () -> updated(Map$.MODULE$.<String, Integer>empty(), "a", 1),
                        it -> updated(it, "c", 3),
                        it -> sorted(it) + it.get("a"))
                .value(
                        "Map, larger",
                        () -> {
                            scala.collection.immutable.Map<String, Integer> map = Map$.MODULE$.empty();
                            for (int i = 0; i < 20; i++) {
                                map = updated(map, "key" + i, i);
                            }
                            return map;
                        },
                        it -> updated(it, "c", 3),
                        it -> sorted(it) + it.get("key7"))
                .value(
                        "TreeMap",
                        () -> TreeMap$.MODULE$
                                .<String, Integer>empty(Ordering.String$.MODULE$)
                                .updated("b", 1)
                                .updated("a", 2),
                        it -> it.updated("c", 3),
                        it -> iterated(it) + it.get("a"))
                .value(
                        "Map, empty",
                        () -> Map$.MODULE$.<String, Integer>empty(),
                        it -> updated(it, "c", 3),
                        it -> sorted(it) + (it == Map$.MODULE$.<String, Integer>empty()));
    }

    @SafeVarargs
    private static <E> scala.collection.immutable.Vector<E> vector(E... elements) {
        var builder = new scala.collection.immutable.VectorBuilder<E>();
        for (E element : elements) {
            builder.addOne(element);
        }
        return builder.result();
    }

    @SuppressWarnings("unchecked")
    private static <K> scala.collection.immutable.Map<K, Integer> updated(
            scala.collection.immutable.Map<K, Integer> map, K key, int value) {
        return (scala.collection.immutable.Map<K, Integer>) map.updated(key, value);
    }
}
