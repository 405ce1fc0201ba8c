package cedrat.oracle.log.embedded;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.Arrays;
import java.util.SplittableRandom;
import net.jqwik.api.ForAll;
import net.jqwik.api.Property;
import net.jqwik.api.constraints.LongRange;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

class EntryQueueTest {
    private static byte[] entry(SplittableRandom random) {
        int length =
                switch (random.nextInt(20)) {
                    case 0 -> random.nextInt(3 * EntryQueue.BUFFER_BYTES);
                    case 1, 2 -> random.nextInt(EntryQueue.BUFFER_BYTES);
                    case 3 -> EntryQueue.BUFFER_BYTES - random.nextInt(20);
                    case 4 -> 0;
                    default -> random.nextInt(500);
                };
        byte[] entry = new byte[length];
        Arrays.fill(entry, (byte) random.nextInt());
        return entry;
    }

    /// Entries come out as they were put, for all lengths and all sequences of puts and takes.
    @Property(tries = 50)
    void entriesComeOutAsTheyWerePut(@ForAll @LongRange(min = 1) long seed) {
        EntryQueue queue = new EntryQueue();
        SplittableRandom random = new SplittableRandom(seed);
        SplittableRandom put = new SplittableRandom(seed + 1);
        SplittableRandom taken = new SplittableRandom(seed + 1);
        byte[] frame = new byte[4 * EntryQueue.BUFFER_BYTES];
        int under = 0;
        for (int step = 0; step < 200; step++) {
            if (random.nextInt(10) < 6) {
                byte[] entry = entry(put);
                int from = random.nextInt(100);
                System.arraycopy(entry, 0, frame, from, entry.length);
                queue.put(frame, from, entry.length);
                Arrays.fill(frame, from, from + entry.length, (byte) 99);
                under++;
            } else if (under > 0) {
                takeOne(queue, taken);
                under--;
            } else {
                assertTrue(queue.isEmpty());
                assertNull(queue.take());
            }
        }
        for (; under > 0; under--) {
            takeOne(queue, taken);
        }
        assertTrue(queue.isEmpty());
    }

    private static void takeOne(EntryQueue queue, SplittableRandom expected) {
        MemorySegment entry = queue.take();
        assertNotNull(entry);
        assertArrayEquals(entry(expected), entry.toArray(ValueLayout.JAVA_BYTE));
    }

    @Test
    @Timeout(120)
    void twoThreadsPassEntriesOn() throws InterruptedException {
        EntryQueue queue = new EntryQueue();
        int count = 200_000;
        Thread putter = new Thread(() -> {
            byte[] bytes = new byte[300];
            for (int number = 0; number < count; number++) {
                Arrays.fill(bytes, (byte) number);
                queue.put(bytes, 0, number % 300);
            }
        });
        putter.start();
        for (int number = 0; number < count; ) {
            MemorySegment entry = queue.take();
            if (entry == null) {
                Thread.onSpinWait();
                continue;
            }
            byte[] expected = new byte[number % 300];
            Arrays.fill(expected, (byte) number);
            assertArrayEquals(expected, entry.toArray(ValueLayout.JAVA_BYTE));
            number++;
        }
        putter.join();
        assertTrue(queue.isEmpty());
    }
}
