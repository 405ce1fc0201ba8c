package cedrat.persist.large;

import cedrat.persist.Persistence;
import cedrat.persist.PersistenceOptions;
import cedrat.persist.PersistenceOptions.Durability;
import cedrat.persist.Transaction;
import java.nio.file.Path;
import java.util.SplittableRandom;

/// A graph that is larger than the memory of who looks at it: a list, a tree and a map from texts, of a third
/// of the objects each. `build DIRECTORY OBJECTS` makes it, `walk DIRECTORY OBJECTS` walks it twice and prints
/// the seconds to the first object and the objects per second of each walk.
public final class Large {
    /// So many objects become persistent by one transaction.
    private static final int BATCH = 20_000;

    private static final long SEED = 42;

    private Large() {}

    private static final class Link {
        Link next;
        long number;
    }

    private static final class Branch {
        Branch left;
        Branch right;
        int key;
    }

    private static final class Entry {
        final String key;
        final long value;
        Entry next;

        Entry(String key, long value) {
            this.key = key;
            this.value = value;
        }
    }

    /// A hash table of the program's own: its buckets lie in arrays of an array, which are loaded one by one.
    private static final class TextMap {
        private static final int ROW = 1024;

        private static final class Row {
            final Entry[] buckets = new Entry[ROW];
        }

        private final Row[] rows;

        TextMap(int capacity) {
            rows = new Row[Math.max(1, Integer.highestOneBit(capacity) / ROW)];
            for (int row = 0; row < rows.length; row++) {
                rows[row] = new Row();
            }
        }

        void put(String key, long value) {
            Row row = row(key);
            Entry entry = new Entry(key, value);
            int bucket = bucket(key);
            entry.next = row.buckets[bucket];
            row.buckets[bucket] = entry;
        }

        long get(String key) {
            for (Entry entry = row(key).buckets[bucket(key)]; entry != null; entry = entry.next) {
                if (entry.key.equals(key)) {
                    return entry.value;
                }
            }
            return -1;
        }

        private Row row(String key) {
            return rows[(spread(key) >>> 10) % rows.length];
        }

        private static int bucket(String key) {
            return spread(key) & ROW - 1;
        }

        private static int spread(String key) {
            return key.hashCode() * 0x9e37_79b9 >>> 1;
        }
    }

    private static final class Roots {
        Link list;
        Branch tree;
        TextMap map;
    }

    /// Runs.
    public static void main(String[] arguments) {
        Path folder = Path.of(arguments[1]);
        int third = Integer.parseInt(arguments[2]) / 3;
        if (arguments[0].equals("build")) {
            build(folder, third);
        } else {
            walk(folder, third);
        }
    }

    private static void build(Path folder, int third) {
        try (var store = Persistence.open(folder, new PersistenceOptions().durability(Durability.ASYNC))) {
            Roots roots = new Roots();
            roots.map = new TextMap(third);
            store.mark("roots", roots);
            SplittableRandom random = new SplittableRandom(SEED);
            int[] done = {0};
            while (done[0] < third) {
                int end = Math.min(third, done[0] + BATCH);
                Transaction.run(() -> {
                    for (int i = done[0]; i < end; i++) {
                        Link link = new Link();
                        link.number = i;
                        link.next = roots.list;
                        roots.list = link;
                        roots.map.put("key " + i, i);
                        insert(roots, random.nextInt());
                    }
                });
                done[0] = end;
            }
        }
    }

    private static void insert(Roots roots, int key) {
        Branch made = new Branch();
        made.key = key;
        Branch at = roots.tree;
        if (at == null) {
            roots.tree = made;
            return;
        }
        while (true) {
            if (key < at.key) {
                if (at.left == null) {
                    at.left = made;
                    return;
                }
                at = at.left;
            } else {
                if (at.right == null) {
                    at.right = made;
                    return;
                }
                at = at.right;
            }
        }
    }

    private static void walk(Path folder, int third) {
        long began = System.nanoTime();
        try (var store = Persistence.open(folder, new PersistenceOptions())) {
            Roots roots = store.lookup("roots");
            expect(third - 1, roots.list.number);
            System.out.println((System.nanoTime() - began) / 1e9);
            for (int walk = 0; walk < 2; walk++) {
                began = System.nanoTime();
                long links = 0;
                for (Link link = roots.list; link != null; link = link.next) {
                    expect(third - 1 - links, link.number);
                    links++;
                }
                expect(third, links);
                expect(third, count(roots.tree));
                for (int i = 0; i < third; i++) {
                    expect(i, roots.map.get("key " + i));
                }
                System.out.println(3.0 * third / ((System.nanoTime() - began) / 1e9));
            }
        }
    }

    private static long count(Branch branch) {
        return branch == null ? 0 : 1 + count(branch.left) + count(branch.right);
    }

    private static void expect(long expected, long found) {
        if (expected != found) {
            throw new AssertionError("found " + found + " instead of " + expected);
        }
    }
}
