package cedrat.oracle.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.Arrays;
import java.util.SplittableRandom;
import java.util.TreeSet;
import net.jqwik.api.ForAll;
import net.jqwik.api.Property;
import net.jqwik.api.constraints.IntRange;
import net.jqwik.api.constraints.LongRange;

/// Beside a set that was there before.
class TimestampSetTest {
    @Property(tries = 100)
    void itIsASet(@ForAll @LongRange(min = 1) long seed, @ForAll @IntRange(min = 1, max = 400) int keySpace) {
        SplittableRandom random = new SplittableRandom(seed);
        TimestampSet set = new TimestampSet();
        TreeSet<Long> model = new TreeSet<>();
        for (int step = 0; step < 3_000; step++) {
            long timestamp = 1 + random.nextInt(keySpace);
            if (random.nextInt(5) < 3) {
                set.add(timestamp);
                model.add(timestamp);
            } else {
                set.remove(timestamp);
                model.remove(timestamp);
            }
            assertEquals(model.contains(timestamp), set.contains(timestamp));
            assertEquals(model.size(), set.size());
        }
        long[] all = set.toArray();
        Arrays.sort(all);
        assertEquals(model.stream().toList(), Arrays.stream(all).boxed().toList());
        assertTrue(model.stream().allMatch(set::contains));
    }
}
