package cedrat.oracle.log.contract;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cedrat.oracle.log.Log;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/// Tests that each kind of log passes; the test of each kind extends this class.
@Timeout(120)
public abstract class LogContract {
    private static final Log.Replay NOTHING = (bytes, from, length) -> {
        throw new AssertionError("a fresh log keeps nothing");
    };

    /// A contract to be kept.
    protected LogContract() {}

    /// A fresh log that keeps nothing yet.
    protected abstract Log fresh() throws Exception;

    @Test
    void onlyOpenLogTakesEntries() throws Exception {
        Log log = fresh();
        assertThrows(IllegalStateException.class, () -> log.append(new byte[1], 0, 1));
        log.open(NOTHING, new RecordingListener());
        log.append(new byte[1], 0, 1);
        log.close();
        assertThrows(IllegalStateException.class, () -> log.append(new byte[1], 0, 1));
        log.close(); // once more does no harm
    }

    @Test
    void unopenedLogCanBeClosed() throws Exception {
        fresh().close();
    }

    /// L1.
    @Test
    void entriesAreNumberedAndAcknowledgedInOrder() throws Exception {
        RecordingListener listener = new RecordingListener();
        try (Log log = fresh()) {
            assertTrue(log.appendsMax() >= 1);
            log.open(NOTHING, listener);
            byte[] bytes = new byte[1000];
            for (int number = 1; number <= 2000; number++) {
                assertEquals(number, log.append(bytes, number % 100, number % 900));
                if (number % 500 == 0) {
                    listener.awaitAcknowledged(number);
                }
            }
        }
        assertIncreasing(listener.acknowledged());
        assertEquals(2000, listener.newest());
    }

    @Test
    void oneAtATimeIsAcknowledgedToo() throws Exception {
        RecordingListener listener = new RecordingListener();
        try (Log log = fresh()) {
            log.open(NOTHING, listener);
            for (int number = 1; number <= 50; number++) {
                log.append(new byte[] {1}, 0, 1);
                listener.awaitAcknowledged(number);
                assertEquals(number, listener.newest(), "nothing is acknowledged that was not appended");
            }
        }
    }

    @Test
    void closingAwaitsAcknowledgementsThenCallsNoListener() throws Exception {
        RecordingListener listener = new RecordingListener();
        Log log = fresh();
        log.open(NOTHING, listener);
        long last = 0;
        for (int number = 0; number < 3000; number++) {
            last = log.append(new byte[10_000], 0, 10_000);
        }
        log.close();
        assertEquals(last, listener.newest());
        listener.endsHere();
        log.close();
        assertFalse(listener.wasCalledAfterEnd());
    }

    @Test
    void entryIsLimitedToFourMebibytes() throws Exception {
        byte[] tooLong = new byte[Log.ENTRY_BYTES_MAX + 1];
        RecordingListener listener = new RecordingListener();
        try (Log log = fresh()) {
            log.open(NOTHING, listener);
            assertThrows(IllegalArgumentException.class, () -> log.append(tooLong, 0, tooLong.length));
            assertEquals(1, log.append(tooLong, 1, Log.ENTRY_BYTES_MAX));
            listener.awaitAcknowledged(1);
        }
    }

    private static void assertIncreasing(List<Long> numbers) {
        for (int at = 1; at < numbers.size(); at++) {
            assertTrue(numbers.get(at - 1) < numbers.get(at), numbers.get(at - 1) + " before " + numbers.get(at));
        }
    }
}
