package cedrat.oracle.log;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cedrat.oracle.log.LogMark.Kind;
import cedrat.oracle.state.NoDecisions;
import cedrat.oracle.state.StatusOracle;
import org.junit.jupiter.api.Test;

/// O5i: marks of logs that are moved.
class LogMarkTest {
    private static LogMark read(byte... bytes) throws DamagedEntryException {
        assertTrue(LogMark.isMark(bytes, 0, bytes.length));
        return LogMark.read(bytes, 0, bytes.length);
    }

    private static OracleReplay replay(byte[]... entries) throws DamagedEntryException {
        OracleReplay replay = new OracleReplay(new StatusOracle(8, new NoDecisions()));
        for (byte[] entry : entries) {
            replay.entry(entry, 0, entry.length);
        }
        return replay;
    }

    @Test
    void markIsReadAsWritten() throws DamagedEntryException {
        for (LogMark mark : new LogMark[] {
            new LogMark(Kind.BEGUN), new LogMark(Kind.COMPLETE), new LogMark(Kind.MOVED, "in /höhle"),
        }) {
            assertEquals(mark, read(mark.entry()));
        }
        assertThrows(IllegalArgumentException.class, () -> new LogMark(Kind.BEGUN, "text"));
    }

    @Test
    void invalidMarkIsRefused() {
        for (byte[] bytes : new byte[][] {{3}, {3, 0}, {3, 4}, {3, 1, 'a'}, {3, 2, 'a'}, {3, 3, (byte) 0xff}}) {
            assertThrows(DamagedEntryException.class, () -> read(bytes));
        }
        byte[] tooLong = new byte[1 << 13];
        tooLong[0] = LogMark.VERSION;
        tooLong[1] = 3;
        assertThrows(DamagedEntryException.class, () -> read(tooLong));
    }

    @Test
    void onlyCompleteCopyIsWhole() throws DamagedEntryException {
        byte[] begun = new LogMark(Kind.BEGUN).entry();
        byte[] complete = new LogMark(Kind.COMPLETE).entry();
        byte[] moved = new LogMark(Kind.MOVED, "elsewhere").entry();
        byte[] first = Identities.firstEntry(7);
        OracleReplay copy = replay(begun, first);
        assertFalse(copy.isWhole());
        assertThrows(DamagedEntryException.class, copy::end);
        copy.entry(complete, 0, complete.length);
        assertTrue(copy.isWhole());
        copy.end();
        copy.entry(moved, 0, moved.length);
        assertThrows(DamagedEntryException.class, copy::end);
        assertThrows(DamagedEntryException.class, () -> copy.entry(first, 0, first.length));
        assertThrows(DamagedEntryException.class, replay(begun, complete)::end, "without entries");
    }
}
