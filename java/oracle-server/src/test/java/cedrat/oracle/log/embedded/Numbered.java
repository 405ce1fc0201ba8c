package cedrat.oracle.log.embedded;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cedrat.oracle.log.Log;
import java.nio.ByteBuffer;
import java.util.Arrays;

/// Entries that say which they are, and a replay that checks that they come one after the other, whole.
final class Numbered implements Log.Replay {
    /// The number of the first entry that was replayed, and of the one that has to come next.
    long first = -1;
    long next;

    /// Entry number so and so; some are longer than a record of the log may be, one has nothing but its
    /// number.
    static byte[] entry(long number) {
        int length = number % 50 == 7 ? 300_000 : (int) (number * 37 % 400);
        byte[] bytes = new byte[Long.BYTES + length];
        Arrays.fill(bytes, (byte) (number * 31));
        ByteBuffer.wrap(bytes).putLong(0, number);
        return bytes;
    }

    @Override
    public void entry(byte[] bytes, int from, int length) {
        long number = ByteBuffer.wrap(bytes, from, length).getLong();
        byte[] expected = entry(number);
        assertTrue(
                Arrays.equals(expected, 0, expected.length, bytes, from, from + length),
                "entry " + number + " is another");
        if (first < 0) {
            first = number;
        } else {
            assertEquals(next, number, "L2: an entry is missing, or comes twice");
        }
        next = number + 1;
    }
}
