package cedrat.oracle.state;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.HashMap;
import java.util.Map;
import java.util.SplittableRandom;
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
        map.look(rows(row));
        map.put(rows(row), timestamp);
    }

    /// M1, M2 and M3, for many rounds of the ring, and from few rows that come again and again to many that do not.
    @Property(tries = 60)
    void whatIsFoundIsTheNewestAndWhatIsNotIsForgotten(
            @ForAll @LongRange(min = 1) long seed, @ForAll @IntRange(min = 1, max = 12) int keySpaceLog2) {
        SplittableRandom random = new SplittableRandom(seed);
        ConflictMap map = new ConflictMap(ConflictMap.ROWS_LOG2_MIN);
        Map<Long, Long> model = new HashMap<>();
        Rows rows = new Rows();
        for (int timestamp = 1; timestamp < 6_000; timestamp++) {
            rows.clear();
            for (int count = random.nextInt(7); count > 0; count--) {
                rows.add(random.nextLong(1L << keySpaceLog2));
            }
            map.look(rows);
            for (int at = 0; at < rows.count(); at++) {
                long expected = model.getOrDefault(rows.get(at), ConflictMap.ABSENT);
                if (map.found(at) == ConflictMap.ABSENT) {
                    assertTrue(expected < map.forgottenBefore(), "M2");
                } else {
                    assertEquals(expected, map.found(at), "M1");
                }
            }
            long forgotten = map.forgottenBefore();
            for (int at = 0; at < rows.count(); at++) {
                model.put(rows.get(at), map.next() + at);
            }
            map.put(rows, timestamp);
            assertTrue(map.forgottenBefore() >= forgotten, "M3");
        }
    }

    /// Ids that are numbered one after the other are spread as well as any, and the rows of the window are there.
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
            map.look(rows(row));
            assertEquals(map.next() - (rows - row), map.found(0), "M1");
        }
        assertTrue(map.forgottenTimestamp() >= rows - map.window() && map.forgottenTimestamp() <= rows);
    }

    /// One row that is put for ever takes one entry, and no other is forgotten for it.
    @Test
    void aRowThatComesAgainAndAgainTakesOneEntry() {
        ConflictMap map = new ConflictMap(10);
        put(map, 1, 7);
        long first = map.next() - 1;
        for (long timestamp = 2; timestamp < map.window(); timestamp++) {
            put(map, timestamp, 8);
        }
        map.look(rows(7));
        assertEquals(first, map.found(0), "M1");
        assertEquals(first, map.forgottenBefore(), "M3");
    }

    @Test
    void aRowTakesSixteenBytesAtMost() {
        for (int log2 = ConflictMap.ROWS_LOG2_MIN; log2 <= 22; log2++) {
            ConflictMap map = new ConflictMap(log2);
            assertTrue(map.bytes() <= 16 * map.window(), "2^" + log2);
        }
    }

    @Test
    void sizesBeyondItsNumbersAreRefused() {
        assertThrows(IllegalArgumentException.class, () -> new ConflictMap(ConflictMap.ROWS_LOG2_MIN - 1));
        assertThrows(IllegalArgumentException.class, () -> new ConflictMap(ConflictMap.ROWS_LOG2_MAX + 1));
    }
}
