package cedrat.oracle.state;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.HashMap;
import java.util.Map;
import java.util.SplittableRandom;
import java.util.function.Supplier;
import java.util.stream.LongStream;
import net.jqwik.api.ForAll;
import net.jqwik.api.Property;
import net.jqwik.api.constraints.IntRange;
import net.jqwik.api.constraints.LongRange;
import org.junit.jupiter.api.Test;

/// The conflict map beside a map without bounds.
class ConflictMapTest {
    private static Rows rows(long... ids) {
        Rows rows = new Rows();
        for (long id : ids) {
            rows.add(id);
        }
        return rows;
    }

    private static void put(ConflictMap map, long timestamp, long row) {
        Rows rows = rows(row);
        map.look(rows);
        map.put(rows, timestamp);
    }

    private static final long ABSENT = -1;

    private static long find(ConflictMap map, long row) {
        map.look(rows(row));
        return map.isOneAbsent() ? ABSENT : map.newestFound();
    }

    /// Puts rows of a stream of commits beside a map without bounds, and compares what both say of them
    /// before.
    private static void compare(ConflictMap map, int commits, Supplier<long[]> stream) {
        Map<Long, Long> model = new HashMap<>();
        for (int timestamp = 1; timestamp < commits; timestamp++) {
            Rows rows = rows(stream.get());
            long newest = ABSENT;
            boolean isOneAbsent = false;
            for (int at = 0; at < rows.count(); at++) {
                long row = rows.get(at);
                long expected = model.getOrDefault(row, ABSENT);
                long found = find(map, row);
                if (found == ABSENT) {
                    assertTrue(expected < map.forgottenBefore(), "M2");
                } else {
                    assertEquals(expected, found, "M1");
                }
                newest = Math.max(newest, found);
                isOneAbsent |= found == ABSENT;
            }
            if (timestamp % 3 == 0) {
                map.expect(rows);
            }
            map.look(rows);
            assertEquals(newest, Math.max(ABSENT, map.newestFound()));
            assertEquals(isOneAbsent, map.isOneAbsent());
            long forgotten = map.forgottenBefore();
            for (int at = 0; at < rows.count(); at++) {
                model.put(rows.get(at), map.next() + at);
            }
            map.put(rows, timestamp);
            assertTrue(map.forgottenBefore() >= forgotten, "M3");
            if (timestamp % 50 == 0) {
                map.check();
            }
        }
    }

    /// M1 to M3 and M5, for many rounds of the map, and from few rows that come again and again to many that
    /// do not.
    @Property(tries = 60)
    void whatIsFoundIsTheNewestAndWhatIsNotIsForgotten(
            @ForAll @LongRange(min = 1) long seed, @ForAll @IntRange(min = 1, max = 12) int keySpaceLog2) {
        SplittableRandom random = new SplittableRandom(seed);
        compare(new ConflictMap(ConflictMap.ROWS_LOG2_MIN), 6_000, () -> random.longs(
                        random.nextInt(7), 0, 1L << keySpaceLog2)
                .toArray());
    }

    /// M5 and M6: the same where all rows have few homes, so that lines spill, pass each other, and evict.
    @Property(tries = 40)
    void rowsThatCrowdAreFoundOrForgotten(
            @ForAll @LongRange(min = 1) long seed,
            @ForAll @IntRange(min = 1, max = 20) int homes,
            @ForAll @IntRange(min = 20, max = 200) int crowd) {
        SplittableRandom random = new SplittableRandom(seed);
        ConflictMap map = new ConflictMap(ConflictMap.ROWS_LOG2_MIN);
        int from = random.nextInt(map.lines()); // the last line is followed by the first
        long[] ids = LongStream.generate(random::nextLong)
                .filter(row -> Math.floorMod(map.line(row) - from, map.lines()) < homes)
                .limit(crowd)
                .toArray();
        compare(map, 4_000, () -> random.ints(random.nextInt(7), 0, ids.length)
                .mapToLong(at -> ids[at])
                .toArray());
    }

    /// A commit of more rows than the map keeps, and with rows that are there twice.
    @Test
    void commitMayExceedRowsOfMap() {
        ConflictMap map = new ConflictMap(ConflictMap.ROWS_LOG2_MIN);
        Rows many = rows(LongStream.range(0, 20_000).map(row -> row % 9_000).toArray());
        map.look(many);
        map.put(many, 1);
        map.check();
        assertEquals(map.next() - 1, find(map, 19_999 % 9_000), "M1");
        assertTrue(map.next() - map.forgottenBefore() <= map.window(), "M3");
        assertEquals(ABSENT, find(map, 5_000), "M4");
    }

    /// O10: what is forgotten is forgotten in the order of age, near enough, over a key space of a thousand
    /// million.
    @Test
    void rowsAreForgottenByAge() {
        ConflictMap map = new ConflictMap(16);
        SplittableRandom random = new SplittableRandom(7);
        long slots = 1 << 16;
        for (long timestamp = 1; timestamp < 20 * slots; timestamp++) {
            put(map, timestamp, random.nextLong(1_000_000_000));
            long kept = timestamp - map.forgottenTimestamp();
            assertTrue(timestamp <= slots || kept >= 0.8 * slots, "M3: " + kept + " rows at " + timestamp);
        }
        map.check();
    }

    /// Ids that are numbered one after the other are spread as well as any, and the rows of the window are
    /// there.
    @Test
    void theWindowIsKept() {
        ConflictMap map = new ConflictMap(16);
        long rows = 20 * map.window();
        for (long row = 0; row < rows; row++) {
            put(map, row + 1, row);
            long kept = map.next() - map.forgottenBefore();
            assertTrue(row < map.window() || kept >= map.window() * 0.85, "M3: " + kept + " after row " + row);
        }
        for (long row = rows - (map.next() - map.forgottenBefore()); row < rows; row++) {
            assertEquals(map.next() - (rows - row), find(map, row), "M1");
        }
        assertTrue(map.forgottenTimestamp() >= rows - map.window() && map.forgottenTimestamp() <= rows);
    }

    /// M5: one row that is put again and again takes one entry, and no other is forgotten for it.
    @Test
    void repeatedRowTakesOneEntry() {
        ConflictMap map = new ConflictMap(10);
        put(map, 1, 7);
        long first = map.next() - 1;
        for (long timestamp = 2; timestamp < map.window(); timestamp++) {
            put(map, timestamp, 8);
        }
        assertEquals(first, find(map, 7), "M1");
        assertEquals(first, map.forgottenBefore(), "M3");
    }

    /// O10.
    @Test
    void aRowTakesSixteenBytesAtMost() {
        for (int log2 = ConflictMap.ROWS_LOG2_MIN; log2 <= 22; log2++) {
            ConflictMap map = new ConflictMap(log2);
            assertTrue(map.bytes() <= 16 * map.window(), "2^" + log2);
        }
    }

    /// A commit of twenty rows that lasted as long as the whole window aborts for nothing less than once in a
    /// million.
    @Test
    void rowCollisionsAreRare() {
        for (int log2 : new int[] {ConflictMap.ROWS_LOG2_MIN, 20, 25}) {
            assertTrue(20 * 4 / Math.pow(2, new ConflictMap(log2).tagBits()) < 1e-6, "2^" + log2);
        }
    }

    @Test
    void sizesBeyondItsNumbersAreRefused() {
        assertThrows(IllegalArgumentException.class, () -> new ConflictMap(ConflictMap.ROWS_LOG2_MIN - 1));
        assertThrows(IllegalArgumentException.class, () -> new ConflictMap(ConflictMap.ROWS_LOG2_MAX + 1));
    }

    /// Rows that were expected, and then became others, or are looked for in another map, are looked for
    /// anew.
    @Test
    void expectedTimestampMayChange() {
        ConflictMap map = new ConflictMap(8);
        ConflictMap other = new ConflictMap(12);
        put(map, 1, 4);
        put(map, 2, 5);
        put(other, 1, 5);
        Rows rows = rows(4);
        map.expect(rows);
        rows.add(5);
        map.look(rows);
        assertTrue(!map.isOneAbsent(), "a row was added");
        rows.clear();
        rows.add(6);
        map.look(rows);
        assertTrue(map.isOneAbsent(), "they are others");
        rows.clear();
        rows.add(5);
        map.expect(rows);
        other.look(rows);
        assertTrue(!other.isOneAbsent(), "it is another map");
    }

    /// As if it had put the rows before: what is put then is found, and else everything is forgotten.
    @Property(tries = 100)
    void aMapThatBeginsAnewIsOneThatHasForgottenAll(@ForAll @LongRange(min = 1) long seed) {
        SplittableRandom random = new SplittableRandom(seed);
        ConflictMap map = new ConflictMap(8);
        for (int row = 0; row < 2_000; row++) {
            put(map, row + 1, random.nextInt(300));
        }
        long position = random.nextInt(5) == 0 ? 0 : random.nextLong(1L << 40);
        map.restart(position, position == 0 ? 0 : 7);
        map.check();
        assertEquals(map.next(), map.forgottenBefore());
        assertEquals(position == 0 ? 0 : 7, map.forgottenTimestamp());
        Map<Integer, Long> model = new HashMap<>();
        for (int timestamp = 8; timestamp < 3_000; timestamp++) {
            int row = random.nextInt(300);
            long expected = model.getOrDefault(row, ABSENT);
            long found = find(map, row);
            if (found == ABSENT) {
                assertTrue(expected < map.forgottenBefore(), "M2");
            } else {
                assertEquals(expected, found, "M1");
            }
            model.put(row, map.next());
            put(map, timestamp, row);
        }
    }
}
