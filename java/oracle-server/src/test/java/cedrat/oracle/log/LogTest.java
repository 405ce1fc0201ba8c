package cedrat.oracle.log;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cedrat.oracle.state.StatusOracle;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;

class LogTest {
    private static byte[] entry(long before, long newest) {
        EntryWriter writer = new EntryWriter();
        writer.begin(before);
        writer.close(newest);
        return java.util.Arrays.copyOf(writer.bytes(), writer.length());
    }

    /// An entry that is missing is not passed over in silence: timestamps would be given out twice.
    @Test
    void nonconsecutiveEntriesAreDamage() throws DamagedEntryException {
        StatusOracle oracle = new StatusOracle(10, new EntryWriter());
        OracleReplay replay = new OracleReplay(oracle);
        replay.entry(entry(0, 5), 0, EntryWriter.HEADER_BYTES);
        replay.entry(entry(5, 5), 0, EntryWriter.HEADER_BYTES);
        assertEquals(5, oracle.newest());
        for (long before : new long[] {0, 4, 6}) {
            assertThrows(
                    DamagedEntryException.class,
                    () -> replay.entry(entry(before, 9), 0, EntryWriter.HEADER_BYTES),
                    "behind " + before);
        }
        assertEquals(5, oracle.newest());
    }

    /// A command that copies the entries of a log cannot take them back: it ends, and says why.
    @Test
    void restartOfCommandIsRefused() {
        Log.Replay copying = (bytes, from, length) -> {};
        IOException why = assertThrows(IOException.class, copying::restart);
        assertTrue(why.getMessage().contains("repeat the command"), why.getMessage());
    }

    @Test
    void aVolatileLogAcknowledgesAtOnce() {
        List<Long> acknowledged = new ArrayList<>();
        try (VolatileLog log = new VolatileLog()) {
            assertThrows(IllegalStateException.class, () -> log.append(new byte[0], 0, 0));
            log.open((bytes, from, length) -> {}, new Log.Listener() {
                @Override
                public void acknowledged(long number) {
                    acknowledged.add(number);
                }

                @Override
                public void failed(Exception cause) {
                    throw new AssertionError(cause);
                }
            });
            assertEquals(1, log.append(new byte[0], 0, 0));
            assertEquals(2, log.append(new byte[0], 0, 0));
            log.forgetBefore(2);
            assertThrows(IllegalArgumentException.class, () -> log.forgetBefore(3));
        }
        assertEquals(List.of(1L, 2L), acknowledged);
    }
}
