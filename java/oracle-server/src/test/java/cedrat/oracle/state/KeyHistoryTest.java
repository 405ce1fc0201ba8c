package cedrat.oracle.state;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.SplittableRandom;
import java.util.function.IntUnaryOperator;
import net.jqwik.api.ForAll;
import net.jqwik.api.Property;
import net.jqwik.api.constraints.LongRange;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/// The ring beside a list.
class KeyHistoryTest {
    private static final int CAPACITY = 16;
    private static final int CHUNK = 4;

    private record Put(long position, long table, byte[] key) {}

    private static byte[] key(SplittableRandom random) {
        int most = random.nextInt(20) == 0 ? 1_200 : random.nextBoolean() ? 120 : 5;
        byte[] key = new byte[random.nextInt(most)];
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
        int capacity = random.nextBoolean() ? CAPACITY : 8 * CAPACITY;
        KeyHistory history = new KeyHistory(new KeyRing(capacity, CHUNK), 5);
        KeyHistory later = new KeyHistory(new KeyRing(capacity, CHUNK), 5);
        List<Put> all = new ArrayList<>();
        long forgottenBefore = 5;
        for (long position = 5; position < 30 * capacity; position += random.nextInt(1, 3)) {
            Keys keys = new Keys();
            for (int count = random.nextInt(4); count > 0; count--) {
                byte[] key = key(random);
                keys.add(random.nextInt(2), key, 0, key.length);
                all.add(new Put(position, keys.table(keys.count() - 1), key));
            }
            long old = position - 2L * capacity;
            all.removeIf(put -> put.position < old);
            history.put(keys, position);
            later.put(keys, position);
            if (position < 10 * capacity) {
                later.restart(position + 1); // as an oracle that begins with a snapshot
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
                long since = random.nextLong(Math.max(5, position - 2L * capacity), position + 2);
                boolean expected = all.stream()
                        .anyMatch(put -> put.position >= since && put.table == table && contains(from, to, put.key));
                boolean isKnown = forgottenBefore <= since;
                assertEquals(!isKnown || expected, history.isWritten(ranges, since), "H1");
                boolean isKnownLater = later.forgottenBefore() <= since;
                assertEquals(!isKnownLater || expected, later.isWritten(ranges, since), "after a snapshot");
            }
        }
        assertTrue(history.count() <= capacity);
        assertEquals(history.forgottenBefore(), later.forgottenBefore(), "as a replay");
        assertEquals(history.count(), later.count());
    }

    private static final int MANY = 1 << 16;
    private static final int RANGES = 64;
    /// 1.44 times the logarithm.
    private static final int HEIGHT_MAX = 24;

    /// Ascending, descending, and random numbers.
    private static IntUnaryOperator order(int which) {
        SplittableRandom random = new SplittableRandom(which);
        return switch (which) {
            case 0 -> index -> index;
            case 1 -> index -> MANY - index;
            default -> index -> random.nextInt();
        };
    }

    private static byte[] bytes(int number) {
        return ByteBuffer.allocate(Integer.BYTES).putInt(number).array();
    }

    /// O9e, H2: 64 ranges in a full history, of many keys that are older than the transaction.
    @ParameterizedTest
    @ValueSource(ints = {0, 1, 2})
    void rangesOfFullHistoryVisitFewKeys(int which) {
        KeyHistory history = new KeyHistory(MANY, 1);
        IntUnaryOperator order = order(which);
        for (int index = 0; index < MANY + MANY / 2; index++) {
            Keys keys = new Keys();
            keys.add(7, bytes(order.applyAsInt(index)), 0, Integer.BYTES);
            history.put(keys, 1 + index);
        }
        long newest = MANY + MANY / 2;
        KeyRanges ranges = new KeyRanges();
        for (int range = 0; range < RANGES; range++) {
            byte[] both = ByteBuffer.allocate(2 * Integer.BYTES)
                    .putInt(range << 26)
                    .putInt((range << 26) + (1 << 25))
                    .array();
            ranges.add(7, both, 0, Integer.BYTES, Integer.BYTES, range == RANGES - 1 ? 0 : Integer.BYTES);
        }
        Keys other = new Keys();
        for (int index = 0; index < MANY / 2; index++) {
            other.add(8, bytes(index), 0, Integer.BYTES);
        }
        long before = history.visited();
        assertFalse(history.isWritten(ranges, newest + 1));
        history.put(other, newest + 1);
        long put = history.visited() - before;
        assertTrue(put <= MANY / 2 * 2 * HEIGHT_MAX, put + " keys were visited by puts, and to forget");
        before = history.visited();
        assertFalse(history.isWritten(ranges, newest + 1), "the newer half is of another table");
        assertTrue(history.isWritten(ranges, newest - RANGES));
        long visited = history.visited() - before;
        assertTrue(visited <= RANGES * 4 * HEIGHT_MAX, visited + " keys were visited");
    }

    /// O9c: the history of an oracle with many rows has room for many keys.
    @Test
    void historyGrowsWithTheRows() {
        assertEquals(1 << 8, KeyHistory.capacity(8));
        assertEquals(MANY, KeyHistory.capacity(16));
        assertEquals(MANY, KeyHistory.capacity(18));
        assertEquals(1 << 24, KeyHistory.capacity(26));
        assertEquals(1 << 24, KeyHistory.capacity(28));
        StatusOracle oracle = new StatusOracle(20, new NoDecisions());
        long scans = oracle.begin(1);
        Rows row = new Rows();
        row.add(1);
        for (int number = 0; number < 2 * MANY; number += 1 << 10) {
            Keys keys = new Keys();
            for (int index = 0; index < 1 << 10; index++) {
                keys.add(7, bytes(number + index), 0, Integer.BYTES);
            }
            oracle.commit(oracle.begin(2), row, new Rows(), keys, new KeyRanges());
        }
        assertEquals(2 * MANY, oracle.keys());
        KeyRanges others = new KeyRanges();
        others.add(8, new byte[0], 0, 0, 0, 0);
        row.clear();
        row.add(2);
        assertTrue(oracle.commit(scans, row, new Rows(), new Keys(), others) > 0);
    }
}
