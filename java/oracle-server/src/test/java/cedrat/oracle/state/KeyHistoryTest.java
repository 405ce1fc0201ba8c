package cedrat.oracle.state;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.SplittableRandom;
import net.jqwik.api.ForAll;
import net.jqwik.api.Property;
import net.jqwik.api.constraints.LongRange;

/// The ring beside a list.
class KeyHistoryTest {
    private static final int CAPACITY = 16;

    private record Put(long position, long table, byte[] key) {}

    private static byte[] key(SplittableRandom random) {
        byte[] key = new byte[random.nextInt(20) == 0 ? random.nextInt(1_200) : random.nextInt(120)];
        for (int at = 0; at < key.length; at++) {
            key[at] = (byte) (random.nextInt(3) - 1); // also below 0
        }
        return key;
    }

    private static boolean contains(byte[] from, byte[] to, byte[] key) {
        return Arrays.compareUnsigned(key, from) >= 0 && (to.length == 0 || Arrays.compareUnsigned(key, to) < 0);
    }

    /// O9, H1; and what is kept is the same for a history that began later, if it has put enough.
    @Property(tries = 200)
    void itIsAsAListOfTheNewest(@ForAll @LongRange(min = 1) long seed) {
        SplittableRandom random = new SplittableRandom(seed);
        KeyHistory history = new KeyHistory(CAPACITY, 5);
        KeyHistory later = null;
        List<Put> all = new ArrayList<>();
        long forgottenBefore = 5;
        for (long position = 5; position < 300; position += random.nextInt(1, 3)) {
            Keys keys = new Keys();
            for (int count = random.nextInt(4); count > 0; count--) {
                byte[] key = key(random);
                keys.add(random.nextInt(2), key, 0, key.length);
                all.add(new Put(position, keys.table(keys.count() - 1), key));
            }
            history.put(keys, position);
            if (position > 100) {
                later = later == null ? new KeyHistory(CAPACITY, position) : later;
                later.put(keys, position);
            }
            assertTrue(history.forgottenBefore() >= forgottenBefore, "H1");
            forgottenBefore = history.forgottenBefore();
            for (int question = 0; question < 5; question++) {
                byte[] from = key(random);
                byte[] to = random.nextInt(4) == 0 ? new byte[0] : key(random);
                byte[] both = Arrays.copyOf(from, from.length + to.length);
                System.arraycopy(to, 0, both, from.length, to.length);
                long table = random.nextInt(2);
                KeyRanges ranges = new KeyRanges();
                ranges.add(table, both, 0, from.length, from.length, to.length);
                long since = random.nextLong(5, position + 2);
                boolean expected = all.stream()
                        .anyMatch(put -> put.position >= since && put.table == table && contains(from, to, put.key));
                boolean isKnown = forgottenBefore <= since;
                assertEquals(!isKnown || expected, history.isWritten(ranges, since), "H1");
            }
        }
        assertTrue(history.count() <= CAPACITY);
        assertEquals(history.forgottenBefore(), later.forgottenBefore(), "as a replay");
        assertEquals(history.count(), later.count());
    }
}
