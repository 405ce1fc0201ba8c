package cedrat.persist.bench.maps;

import cedrat.persist.Store;
import cedrat.persist.StoreOptions;
import cedrat.persist.Transaction;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.Map;

/// A program with one large map of texts to objects, in a store on disk. Each run is a process: `fill` makes the
/// map, `get` opens the store and reads some entries, `walk` reads all of them twice.
///
/// ```text
/// LargeMap FOLDER fill|get|walk ENTRIES
/// ```
///
/// It prints a line `NAME VALUE` for each figure.
public final class LargeMap {
    private static final int ENTRIES_OF_COMMIT = 100_000;
    private static final int READS = 1000;
    private static final double NANOS_OF_MILLI = 1e6;

    private LargeMap() {}

    private static final class Article {
        private final int number;
        private long stock;

        Article(int number) {
            this.number = number;
            stock = 2L * number;
        }
    }

    /// Runs.
    public static void main(String[] arguments) {
        int entries = Integer.parseInt(arguments[2]);
        StoreOptions options = new StoreOptions().isolation(StoreOptions.Isolation.SERIALISABLE);
        try (Store store = Store.open(Path.of(arguments[0]), options)) {
            switch (arguments[1]) {
                case "fill" -> fill(store, entries);
                case "get" -> get(store, entries);
                default -> walk(store, entries);
            }
        }
    }

    private static String key(int number) {
        return "article-" + number;
    }

    private static void fill(Store store, int entries) {
        Map<String, Article> map = new HashMap<>();
        for (int i = 0; i < Math.min(entries, ENTRIES_OF_COMMIT); i++) {
            map.put(key(i), new Article(i));
        }
        store.setRoot("map", map);
        for (int from = ENTRIES_OF_COMMIT; from < entries; from += ENTRIES_OF_COMMIT) {
            int first = from;
            Transaction.run(() -> {
                for (int i = first; i < Math.min(entries, first + ENTRIES_OF_COMMIT); i++) {
                    map.put(key(i), new Article(i));
                }
            });
        }
        print("bytes_per_entry", (double) used() / entries);
        if (map.size() != entries) {
            throw new AssertionError("the map has " + map.size() + " entries");
        }
    }

    private static void get(Store store, int entries) {
        long before = used();
        long began = System.nanoTime();
        Map<String, Article> map = map(store);
        check(map, entries / 2);
        print("first_get_ms", (System.nanoTime() - began) / NANOS_OF_MILLI);
        began = System.nanoTime();
        for (int i = 0; i < READS; i++) {
            check(map, (int) (i * 7_919L % entries));
        }
        print("further_get_us", (System.nanoTime() - began) / 1e3 / READS);
        print("loaded_mb", (used() - before) / 1e6);
        if (map.size() != entries) {
            throw new AssertionError("the map has " + map.size() + " entries");
        }
    }

    @SuppressWarnings("unchecked")
    private static Map<String, Article> map(Store store) {
        return store.root("map", Map.class);
    }

    private static void check(Map<String, Article> map, int number) {
        Article article = map.get(key(number));
        if (article == null || article.number != number || article.stock != 2L * number) {
            throw new AssertionError("the map has no article " + number);
        }
    }

    private static void walk(Store store, int entries) {
        long before = used();
        Map<String, Article> map = map(store);
        for (int walk = 1; walk <= 2; walk++) {
            long began = System.nanoTime();
            long sum = 0;
            for (Map.Entry<String, Article> entry : map.entrySet()) {
                sum += entry.getValue().number;
            }
            print("walk_" + walk + "_per_s", entries / ((System.nanoTime() - began) / 1e9));
            if (sum != (entries - 1L) * entries / 2) {
                throw new AssertionError("the walk has met other entries");
            }
        }
        print("loaded_bytes_per_entry", (double) (used() - before) / entries);
        if (map.size() != entries) {
            throw new AssertionError("the map has " + map.size() + " entries");
        }
    }

    /// Bytes of the heap in use.
    private static long used() {
        for (int i = 0; i < 3; i++) {
            System.gc();
        }
        return Runtime.getRuntime().totalMemory() - Runtime.getRuntime().freeMemory();
    }

    private static void print(String name, double value) {
        System.out.printf("%s %.3f%n", name, value);
    }
}
