package cedrat.persist.libraries;

import com.carrotsearch.hppc.IntHashSet;
import com.carrotsearch.hppc.IntIntHashMap;
import com.carrotsearch.hppc.ObjectIntHashMap;
import it.unimi.dsi.fastutil.ints.Int2IntOpenHashMap;
import it.unimi.dsi.fastutil.ints.Int2ObjectOpenHashMap;
import it.unimi.dsi.fastutil.ints.Int2ObjectRBTreeMap;
import it.unimi.dsi.fastutil.ints.IntArrayList;
import it.unimi.dsi.fastutil.ints.IntLinkedOpenHashSet;
import it.unimi.dsi.fastutil.ints.IntOpenHashSet;
import it.unimi.dsi.fastutil.longs.Long2DoubleOpenHashMap;
import it.unimi.dsi.fastutil.objects.Object2IntOpenHashMap;
import it.unimi.dsi.fastutil.objects.Object2ObjectAVLTreeMap;
import it.unimi.dsi.fastutil.objects.Object2ObjectArrayMap;
import it.unimi.dsi.fastutil.objects.Object2ObjectLinkedOpenHashMap;
import it.unimi.dsi.fastutil.objects.Object2ObjectOpenHashMap;
import it.unimi.dsi.fastutil.objects.ObjectArrayList;
import it.unimi.dsi.fastutil.objects.ObjectOpenHashSet;
import it.unimi.dsi.fastutil.objects.Reference2ObjectOpenHashMap;
import java.util.BitSet;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.HdrHistogram.DoubleHistogram;
import org.HdrHistogram.Histogram;
import org.agrona.collections.Int2ObjectHashMap;
import org.agrona.collections.IntArrayQueue;
import org.agrona.collections.Long2LongHashMap;
import org.agrona.collections.MutableLong;
import org.agrona.collections.Object2ObjectHashMap;
import org.agrona.collections.ObjectHashSet;
import org.roaringbitmap.RoaringBitmap;
import org.roaringbitmap.longlong.Roaring64Bitmap;
import org.roaringbitmap.longlong.Roaring64NavigableMap;

/// Kinds of the libraries of primitive collections.
final class PrimitiveKinds {
    private PrimitiveKinds() {}

    static void addTo(Kinds kinds) {
        addFastutil(kinds.of("fastutil"));
        addFastutilMaps(kinds);
        addHppc(kinds.of("HPPC").withoutEquals());
        addAgrona(kinds.of("Agrona"));
        addBitmaps(kinds.of("RoaringBitmap"));
        kinds.of("HdrHistogram")
                .mutable(
                        "Histogram",
                        () -> {
                            Histogram histogram = new Histogram(2);
                            histogram.recordValue(50);
                            return histogram;
                        },
                        it -> it.recordValue(70),
                        it -> it.getMaxValue() + " " + it.getTotalCount() + " " + it.getMean())
                .mutable(
                        "DoubleHistogram",
                        () -> {
                            DoubleHistogram histogram = new DoubleHistogram(2);
                            histogram.recordValue(50);
                            return histogram;
                        },
                        it -> it.recordValue(70),
                        it -> it.getMaxValue() + " " + it.getTotalCount() + " " + it.getMean());
    }

    private static void addFastutil(Kinds kinds) {
        kinds.mutable("IntArrayList", () -> new IntArrayList(new int[] {1, 2}), list -> list.add(3), Shown::list)
                .mutable(
                        "ObjectArrayList",
                        () -> new ObjectArrayList<>(List.of("a")),
                        list -> list.add("b"),
                        Shown::list)
                .mutable(
                        "IntOpenHashSet",
                        () -> new IntOpenHashSet(new int[] {1, 0, 77}),
                        set -> set.remove(1),
                        Shown::set)
                .mutable(
                        "IntLinkedOpenHashSet",
                        () -> new IntLinkedOpenHashSet(new int[] {1, 0, 77}),
                        set -> set.remove(1),
                        set -> Shown.set(set) + Shown.list(set))
                .mutable(
                        "ObjectOpenHashSet",
                        () -> new ObjectOpenHashSet<>(List.of("a", "b")),
                        set -> set.add("c"),
                        Shown::set)
                .mutable(
                        "ObjectOpenHashSet of enums",
                        () -> new ObjectOpenHashSet<>(TimeUnit.values()),
                        set -> set.remove(TimeUnit.DAYS),
                        set -> Shown.set(set) + set.contains(TimeUnit.HOURS));
    }

    private static void addFastutilMaps(Kinds kinds) {
        kinds.mutable(
                        "Int2IntOpenHashMap",
                        () -> new Int2IntOpenHashMap(Map.of(1, 2, 0, 5)),
                        map -> map.put(8, 9),
                        Shown::map)
                .mutable(
                        "Int2ObjectOpenHashMap",
                        () -> new Int2ObjectOpenHashMap<>(Map.of(1, "a")),
                        map -> map.put(8, "b"),
                        Shown::map)
                .mutable(
                        "Int2ObjectRBTreeMap",
                        () -> new Int2ObjectRBTreeMap<>(Map.of(1, "a", 5, "c")),
                        map -> map.put(8, "b"),
                        Shown::map)
                .mutable(
                        "Long2DoubleOpenHashMap",
                        () -> new Long2DoubleOpenHashMap(Map.of(1L, 2.0)),
                        map -> map.put(8L, 9.0),
                        Shown::map)
                .mutable(
                        "Object2IntOpenHashMap",
                        () -> new Object2IntOpenHashMap<>(Map.of("a", 1)),
                        map -> map.put("b", 9),
                        Shown::map)
                .mutable(
                        "Object2ObjectOpenHashMap",
                        () -> new Object2ObjectOpenHashMap<>(Map.of("a", "1")),
                        map -> map.put("b", "2"),
                        Shown::map)
                .mutable(
                        "Object2ObjectLinkedOpenHashMap",
                        () -> new Object2ObjectLinkedOpenHashMap<>(Map.of("a", "1")),
                        map -> map.put("b", "2"),
                        Shown::map)
                .mutable(
                        "Object2ObjectAVLTreeMap",
                        () -> new Object2ObjectAVLTreeMap<>(Map.of("a", "1", "c", "2")),
                        map -> map.put("b", "2"),
                        Shown::map)
                .mutable(
                        "Object2ObjectArrayMap",
                        () -> new Object2ObjectArrayMap<>(Map.of("a", "1")),
                        map -> map.put("b", "2"),
                        Shown::map)
                .mutable(
                        "Reference2ObjectOpenHashMap",
                        () -> new Reference2ObjectOpenHashMap<>(Map.of(TimeUnit.DAYS, "1", TimeUnit.HOURS, "2")),
                        map -> map.put(TimeUnit.MINUTES, "2"),
                        map -> Shown.map(map) + map.get(TimeUnit.DAYS));
    }

    private static void addHppc(Kinds kinds) {
        kinds.mutable(
                        "IntHashSet",
                        () -> IntHashSet.from(1, 0, 77),
                        set -> set.add(5),
                        set -> set.size() + " " + set.contains(77) + set.contains(5) + set.contains(0))
                .mutable(
                        "IntIntHashMap",
                        () -> IntIntHashMap.from(new int[] {1, 2}, new int[] {3, 4}),
                        map -> map.put(7, 8),
                        map -> map.size() + " " + map.get(1) + map.get(7))
                .mutable(
                        "ObjectIntHashMap",
                        () -> ObjectIntHashMap.from(new String[] {"a"}, new int[] {3}),
                        map -> map.put("b", 8),
                        map -> map.size() + " " + map.get("a") + map.get("b"))
                .mutable(
                        "ObjectArrayList",
                        () -> com.carrotsearch.hppc.ObjectArrayList.from("a"),
                        list -> list.add("b"),
                        Object::toString);
    }

    private static void addAgrona(Kinds kinds) {
        kinds.mutable(
                        "Int2ObjectHashMap",
                        () -> {
                            Int2ObjectHashMap<String> map = new Int2ObjectHashMap<>();
                            map.put(1, "a");
                            return map;
                        },
                        map -> map.put(2, "b"),
                        Shown::map)
                .mutable(
                        "Object2ObjectHashMap",
                        () -> {
                            Object2ObjectHashMap<String, String> map = new Object2ObjectHashMap<>();
                            map.put("a", "1");
                            return map;
                        },
                        map -> map.put("b", "2"),
                        Shown::map)
                .mutable(
                        "Long2LongHashMap",
                        () -> {
                            Long2LongHashMap map = new Long2LongHashMap(-1);
                            map.put(1, 5);
                            return map;
                        },
                        map -> map.put(2, 7),
                        Shown::map)
                .mutable(
                        "ObjectHashSet",
                        () -> {
                            ObjectHashSet<String> set = new ObjectHashSet<>();
                            set.add("a");
                            return set;
                        },
                        set -> set.add("b"),
                        Shown::set)
                .mutable(
                        "IntArrayQueue",
                        () -> {
                            IntArrayQueue queue = new IntArrayQueue();
                            queue.add(1);
                            return queue;
                        },
                        queue -> queue.add(2),
                        Shown::list)
                .mutable("MutableLong", () -> new MutableLong(5), MutableLong::increment, Object::toString);
    }

    private static void addBitmaps(Kinds kinds) {
        kinds.mutable(
                        "RoaringBitmap",
                        () -> RoaringBitmap.bitmapOf(1, 100_000, 7),
                        it -> it.add(9),
                        it -> it + " " + it.contains(7))
                .mutable(
                        "RoaringBitmap with runs",
                        () -> {
                            RoaringBitmap map = new RoaringBitmap();
                            map.add(5L, 20_000L);
                            map.runOptimize();
                            return map;
                        },
                        it -> it.remove(77),
                        it -> it.getCardinality() + " " + it.contains(77))
                .mutable(
                        "Roaring64Bitmap",
                        () -> Roaring64Bitmap.bitmapOf(1, 1L << 40, 7),
                        it -> it.addLong(9),
                        it -> it + " " + it.contains(1L << 40))
                .mutable(
                        "Roaring64NavigableMap",
                        () -> Roaring64NavigableMap.bitmapOf(1, 1L << 40, 7),
                        it -> it.addLong(9),
                        it -> it + " " + it.contains(1L << 40))
                .mutable(
                        "BitSet of a bitmap",
                        () -> BitSet.valueOf(
                                new long[] {RoaringBitmap.bitmapOf(3).getLongCardinality()}),
                        it -> it.set(9),
                        Object::toString);
    }
}
