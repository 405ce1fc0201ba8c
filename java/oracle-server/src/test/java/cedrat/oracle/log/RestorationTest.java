package cedrat.oracle.log;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import org.junit.jupiter.api.Test;

/// O5h: the timestamps at which restored oracles begin.
class RestorationTest {
    private static final long HOUR = 3600;
    private static final long DAY = 24 * HOUR;
    private static final long MADE = 1_800_000_000;
    /// More than an oracle gives out in a second.
    private static final long RATE = 4_000_000;

    private static Backup backup(long newest, long made) {
        return new Backup(7, newest, 1, 1, made);
    }

    @Test
    void repeatedRestoreBeginsAboveFirstOne() throws IOException {
        Backup backup = backup(100, MADE);
        long first = Restoration.above(backup, MADE + DAY);
        assertTrue(first > 100 + DAY * RATE);
        assertTrue(Restoration.above(backup, MADE + 2 * DAY) > first + DAY * RATE);
        Backup later = backup(first + DAY * RATE, MADE + 2 * DAY);
        long second = Restoration.above(later, MADE + 3 * DAY);
        assertTrue(second > later.newest() + DAY * RATE);
        assertTrue(Restoration.above(backup, MADE + 4 * DAY) > second + DAY * RATE, "of the older backup again");
    }

    @Test
    void wrongClockIsRefused() throws IOException {
        assertEquals(100 + Restoration.PER_SECOND, Restoration.above(backup(100, MADE), MADE - HOUR + 1));
        assertThrows(IOException.class, () -> Restoration.above(backup(100, MADE), MADE - HOUR));
        assertThrows(IOException.class, () -> Restoration.above(backup(100, MADE), MADE << 10));
        assertTrue(Restoration.isPossible(100, Restoration.above(backup(100, MADE), MADE + 500 * 365 * DAY)));
    }
}
