package cedrat.persist.killed;

import java.math.BigInteger;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.LinkedList;
import java.util.List;
import java.util.Map;
import java.util.PriorityQueue;
import java.util.SplittableRandom;
import java.util.TreeMap;

/// A graph that changes at random, but by the same numbers always in the same way: what is in a store after
/// so many steps is what it becomes in memory after as many.
///
/// No step looks at the order of a hash table, which may be another after a restart.
final class World {
    private static final int SLOTS = 24;
    private static final int THINGS_MAX = 400;

    /// Number of steps that it has done.
    long steps;

    private final Thing[] slots = new Thing[SLOTS];
    private final Map<String, Thing> named = new HashMap<>();
    private final TreeMap<Integer, List<Thing>> groups = new TreeMap<>();
    private final ArrayDeque<Object> queue = new ArrayDeque<>();
    private final Map<Long, String> notes = new LinkedHashMap<>();
    private final LinkedList<Object> visits = new LinkedList<>();
    private final LinkedHashSet<Integer> recent = new LinkedHashSet<>();
    /// Map with so many buckets that it is stored by part, from its first entry on.
    private final Map<String, Thing> large = new HashMap<>(1 << 12);

    private final PriorityQueue<Integer> ranks = new PriorityQueue<>();
    private long[] numbers = new long[4];
    private String text = "";
    private byte[] bytes = {};
    private final Note[] papers = new Note[6];
    private Color color = Color.RED;
    private Thing oldest;
    private Thing newest;
    private int count;

    enum Color {
        RED,
        GREEN,
        BLUE
    }

    record Place(int x, double y, Thing near) {}

    /// Things are doubly linked in the order of their making, and refer to each other at random.
    static class Thing {
        Thing older;
        Thing newer;
        Thing other;
        Object anything;
        int number;
        boolean isOdd;
        char letter;
    }

    static final class Box extends Thing {
        final List<Thing> content = new ArrayList<>();
        float weight;
        short shelf;
    }

    /// One step, which counts.
    void step(SplittableRandom random) {
        int changes = 1 + random.nextInt(4);
        for (int change = 0; change < changes; change++) {
            change(random);
        }
        steps++;
    }

    private void change(SplittableRandom random) {
        switch (random.nextInt(30)) {
            case 0, 1, 2 -> slots[random.nextInt(SLOTS)] = make(random);
            case 3 -> slots[random.nextInt(SLOTS)] = null;
            case 4 -> named.put("name " + random.nextInt(40), any(random));
            case 5 -> named.remove("name " + random.nextInt(40));
            case 6 ->
                groups.computeIfAbsent(random.nextInt(8), key -> new ArrayList<>())
                        .add(any(random));
            case 7 -> shrinkGroup(random);
            case 8 -> queue.addLast(value(random));
            case 9 -> queue.pollFirst();
            case 10 -> notes.put(random.nextLong(30), "note " + random.nextInt());
            case 11 -> numbers(random);
            case 12 ->
                text = random.nextBoolean()
                        ? text + (char) ('a' + random.nextInt(26))
                        : "ä€𝄞".repeat(random.nextInt(4));
            case 13 -> bytes(random);
            case 14 -> color = Color.values()[random.nextInt(3)];
            case 15 -> unlink(random);
            case 16 -> notes.remove(random.nextLong(30));
            case 17 -> visits.add(random.nextInt(visits.size() + 1), any(random));
            case 18 -> {
                if (!visits.isEmpty()) {
                    visits.remove(random.nextInt(visits.size()));
                }
            }
            case 19 -> recent.addFirst(random.nextInt(50));
            case 20 -> {
                if (recent.size() > 20) {
                    recent.removeLast();
                } else {
                    recent.addLast(random.nextInt(50));
                }
            }
            case 21 -> {
                ranks.add(random.nextInt(1000));
                if (ranks.size() > 100) {
                    ranks.poll();
                }
            }
            case 22, 23 -> note(random);
            case 24, 25, 26 -> large.put("large " + random.nextInt(1000), any(random));
            case 27 -> large.remove("large " + random.nextInt(1000));
            default -> touch(random);
        }
    }

    private Thing make(SplittableRandom random) {
        Thing made;
        if (random.nextInt(3) == 0) {
            Box box = new Box();
            box.weight = random.nextFloat();
            box.shelf = (short) random.nextInt();
            made = box;
        } else {
            made = new Thing();
        }
        made.number = random.nextInt();
        made.isOdd = (made.number & 1) != 0;
        made.letter = (char) random.nextInt(1 << 16);
        made.other = any(random);
        made.older = newest;
        if (newest != null) {
            newest.newer = made;
        } else {
            oldest = made;
        }
        newest = made;
        count++;
        while (count > THINGS_MAX) {
            unlink(oldest);
        }
        return made;
    }

    /// New ones, and some that another version of their class may have written.
    private void note(SplittableRandom random) {
        int place = random.nextInt(papers.length);
        if (papers[place] == null || random.nextInt(4) == 0) {
            papers[place] = Note.make();
        }
        papers[place].write(random.nextInt(), papers[random.nextInt(papers.length)]);
    }

    private Thing any(SplittableRandom random) {
        return slots[random.nextInt(SLOTS)];
    }

    private void unlink(SplittableRandom random) {
        Thing thing = any(random);
        if (thing != null && (thing.older != null || thing.newer != null || thing == oldest)) {
            unlink(thing);
        }
    }

    private void unlink(Thing thing) {
        if (thing.older != null) {
            thing.older.newer = thing.newer;
        } else {
            oldest = thing.newer;
        }
        if (thing.newer != null) {
            thing.newer.older = thing.older;
        } else {
            newest = thing.older;
        }
        thing.older = null;
        thing.newer = null;
        count--;
    }

    private void touch(SplittableRandom random) {
        Thing thing = any(random);
        if (thing == null) {
            return;
        }
        switch (random.nextInt(6)) {
            case 0 -> thing.number++;
            case 1 -> thing.other = any(random);
            case 2 -> thing.anything = value(random);
            case 3 -> thing.isOdd = !thing.isOdd;
            case 4 -> thing.letter = (char) random.nextInt(1 << 16);
            default -> {
                if (thing instanceof Box box) {
                    fill(box, random);
                }
            }
        }
    }

    private void fill(Box box, SplittableRandom random) {
        if (box.content.size() > 10) {
            box.content.clear();
        } else if (!box.content.isEmpty() && random.nextInt(3) == 0) {
            box.content.set(random.nextInt(box.content.size()), any(random));
        } else {
            box.content.add(any(random));
        }
        box.weight += 0.5f;
    }

    private Object value(SplittableRandom random) {
        Thing thing = any(random);
        Object[] values = {
            random.nextInt(),
            random.nextLong(),
            random.nextDouble(),
            (byte) random.nextInt(),
            'x',
            true,
            "text " + random.nextInt(100),
            new Place(random.nextInt(), random.nextDouble(), thing),
            new int[] {random.nextInt(), random.nextInt()},
            new Object[] {thing, "in an array", Color.BLUE},
            BigInteger.valueOf(random.nextLong()).pow(3),
            new ArrayList<>(List.of(Color.GREEN, 7)),
            thing == null ? Color.RED : thing,
        };
        return values[random.nextInt(values.length)];
    }

    private void shrinkGroup(SplittableRandom random) {
        int key = random.nextInt(8);
        List<Thing> group = groups.get(key);
        if (group != null && group.size() > 3) {
            group.remove(random.nextInt(group.size()));
        } else {
            groups.remove(key);
        }
    }

    private void numbers(SplittableRandom random) {
        if (random.nextInt(10) == 0) {
            numbers = java.util.Arrays.copyOf(numbers, 1 + random.nextInt(2000));
        }
        numbers[random.nextInt(numbers.length)] = random.nextLong();
    }

    private void bytes(SplittableRandom random) {
        bytes = new byte[random.nextInt(10) == 0 ? random.nextInt(20_000) : random.nextInt(100)];
        random.nextBytes(bytes);
    }
}
