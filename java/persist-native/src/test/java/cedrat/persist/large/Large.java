package cedrat.persist.large;

import cedrat.persist.Store;
import cedrat.persist.StoreOptions;
import cedrat.persist.StoreOptions.Durability;
import cedrat.persist.Transaction;
import java.nio.file.Path;
import java.util.SplittableRandom;

/// A graph that is larger than the memory of its reader: a list, a tree and a map from texts, of a third
/// of the objects each. `build DIRECTORY OBJECTS` makes it, `walk DIRECTORY OBJECTS BYTES` walks it twice,
/// looks some texts up, and prints the seconds to the first object and the objects per second of each walk; it
/// keeps so many bytes of pages in memory.
public final class Large {
    /// Number of objects that one transaction makes persistent.
    private static final int BATCH = 20_000;

    private static final long SEED = 42;
    private static final int LOOK_UPS = 1000;

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

    /// A hash table of the program's own, whose buckets lie in many short arrays, which are loaded one by one.
    private static final class TextMap {
        private static final int LENGTH = 64;

        private static final class Row {
            final Entry[] buckets = new Entry[LENGTH];
        }

        private static final class Block {
            final Row[] rows = new Row[LENGTH];
        }

        private final Block[] blocks;

        TextMap(int capacity) {
            blocks = new Block[Math.max(1, Integer.highestOneBit(capacity) / (LENGTH * LENGTH))];
            for (int block = 0; block < blocks.length; block++) {
                blocks[block] = new Block();
                for (int row = 0; row < LENGTH; row++) {
                    blocks[block].rows[row] = new Row();
                }
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

        /// Looks at all of it, as it lies.
        ///
        /// @return how many entries there are
        long walk() {
            long count = 0;
            for (Block block : blocks) {
                for (Row row : block.rows) {
                    for (Entry first : row.buckets) {
                        for (Entry entry = first; entry != null; entry = entry.next) {
                            if (!entry.key.equals("key " + entry.value)) {
                                throw new AssertionError(entry.key + " has the value " + entry.value);
                            }
                            count++;
                        }
                    }
                }
            }
            return count;
        }

        private Row row(String key) {
            int row = spread(key) / LENGTH % (blocks.length * LENGTH);
            return blocks[row / LENGTH].rows[row % LENGTH];
        }

        private static int bucket(String key) {
            return spread(key) % LENGTH;
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
            walk(folder, third, Long.parseLong(arguments[3]));
        }
    }

    private static void build(Path folder, int third) {
        try (var store = Store.open(folder, new StoreOptions().durability(Durability.ASYNC))) {
            Roots roots = new Roots();
            roots.map = new TextMap(third);
            store.setRoot("roots", roots);
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

    private static void walk(Path folder, int third, long pageBytes) {
        long began = System.nanoTime();
        try (var store = Store.open(folder, new StoreOptions().pageBytesMax(pageBytes))) {
            Roots roots = store.root("roots", Roots.class);
            expect(third - 1, roots.list.number);
            System.out.println((System.nanoTime() - began) / 1e9);
            for (int walk = 0; walk < 2; walk++) {
                walk(roots, third);
            }
            SplittableRandom random = new SplittableRandom(SEED);
            for (int i = 0; i < LOOK_UPS; i++) {
                int number = random.nextInt(third);
                expect(number, roots.map.get("key " + number));
            }
        }
    }

    /// Prints the objects per second, of all and of each kind.
    private static void walk(Roots roots, int third) {
        long[] at = {System.nanoTime(), 0, 0, 0};
        long links = 0;
        for (Link link = roots.list; link != null; link = link.next) {
            expect(third - 1 - links, link.number);
            links++;
        }
        expect(third, links);
        at[1] = System.nanoTime();
        expect(third, count(roots.tree));
        at[2] = System.nanoTime();
        expect(third, roots.map.walk());
        at[3] = System.nanoTime();
        System.out.printf(
                "%.0f (list %.0f, tree %.0f, map %.0f)%n",
                3e9 * third / (at[3] - at[0]),
                1e9 * third / (at[1] - at[0]),
                1e9 * third / (at[2] - at[1]),
                1e9 * third / (at[3] - at[2]));
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
