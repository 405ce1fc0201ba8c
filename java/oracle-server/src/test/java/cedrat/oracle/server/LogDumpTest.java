package cedrat.oracle.server;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cedrat.oracle.log.DamagedEntryException;
import cedrat.oracle.log.EntryWriter;
import cedrat.oracle.log.LogMark;
import cedrat.oracle.log.SnapshotWriter;
import cedrat.oracle.state.KeyRanges;
import cedrat.oracle.state.Keys;
import cedrat.oracle.state.Rows;
import cedrat.oracle.state.StatusOracle;
import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.junit.jupiter.api.Test;

/// Logs as people and programs are shown them.
class LogDumpTest {
    /// A log with decisions of all kinds, and a snapshot.
    private static List<byte[]> log() {
        EntryWriter writer = new EntryWriter();
        StatusOracle oracle = new StatusOracle(10, writer);
        List<byte[]> log = new ArrayList<>();
        Rows rows = new Rows();
        rows.add(0x1122334455667788L);
        rows.add(5);
        Keys keys = new Keys();
        keys.add(9, "ab".getBytes(), 0, 2);
        writer.begin(0);
        oracle.identify(0x7172737475767778L);
        oracle.commit(oracle.begin(1), rows, new Rows(), keys, new KeyRanges());
        oracle.end(oracle.begin(1));
        oracle.resolve(oracle.begin(1));
        oracle.begin(1);
        writer.close(oracle.newest());
        log.add(Arrays.copyOf(writer.bytes(), writer.length()));
        SnapshotWriter snapshot = new SnapshotWriter(oracle);
        snapshot.begin();
        snapshot.part();
        log.add(Arrays.copyOf(snapshot.bytes(), snapshot.length()));
        writer.begin(oracle.newest());
        oracle.cleaned(4);
        writer.close(oracle.newest());
        log.add(Arrays.copyOf(writer.bytes(), writer.length()));
        return log;
    }

    private static String dump(List<byte[]> log, boolean isJson) throws DamagedEntryException {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        PrintStream out = new PrintStream(bytes, false, StandardCharsets.UTF_8);
        LogDump dump = new LogDump(out, isJson);
        for (byte[] entry : log) {
            dump.entry(entry, 0, entry.length);
        }
        assertEquals(log.size(), dump.end());
        out.flush();
        return bytes.toString(StandardCharsets.UTF_8);
    }

    @Test
    void peopleRead() throws DamagedEntryException {
        assertEquals("""
                1  batch, 63 bytes, timestamps 0 to 5
                    identified as 7172737475767778
                    committed 1 at 2, rows 1122334455667788 0000000000000005
                    wrote 0000000000000009/6162
                    ended 3
                    aborted 4
                2  snapshot, 66 bytes, taken at 5 behind 2 rows, from 1 and before 6
                    identified as 7172737475767778
                    committed 1 at 2
                    aborted 4
                    open 5 since position 2
                3  batch, 19 bytes, timestamps 5 to 5
                    forgotten 4
                """, dump(log(), false));
    }

    @Test
    void programsRead() throws DamagedEntryException {
        assertEquals("""
                {"entry":1,"kind":"batch","bytes":63,"before":0,"newest":5,"decisions":[\
                {"kind":"identified","identity":"7172737475767778"},\
                {"kind":"committed","start":1,"commit":2,"rows":["1122334455667788","0000000000000005"]},\
                {"kind":"wrote","keys":[{"table":"0000000000000009","key":"6162"}]},\
                {"kind":"ended","start":3},{"kind":"aborted","start":4}]}
                {"entry":2,"kind":"snapshot","bytes":66,"taken":5,"position":2,"committed":2,"from":1,"end":6,"newest":5,\
                "transactions":[{"kind":"identified","identity":"7172737475767778"},\
                {"kind":"committed","start":1,"commit":2},{"kind":"aborted","start":4},\
                {"kind":"open","start":5,"position":2}]}
                {"entry":3,"kind":"batch","bytes":19,"before":5,"newest":5,"decisions":[{"kind":"forgotten","start":4}]}
                """, dump(log(), true));
    }

    @Test
    void marksAreShown() throws DamagedEntryException {
        List<byte[]> log = log();
        log.add(0, new LogMark(LogMark.Kind.BEGUN).entry());
        log.add(new LogMark(LogMark.Kind.COMPLETE).entry());
        assertTrue(dump(log, false).startsWith("1  mark, 2 bytes, begun\n2  batch"));
        String json = "{\"entry\":5,\"kind\":\"mark\",\"bytes\":2,\"mark\":\"complete\",\"text\":\"\"}\n";
        assertTrue(dump(log, true).endsWith(json));
        log.add(new LogMark(LogMark.Kind.MOVED, "in \"here\"").entry());
        assertMessage("behind entry 6 of the log: the oracle of this log has moved", log);
    }

    @Test
    void damageIsNamedByItsPlace() {
        List<byte[]> log = log();
        byte[] entry = log.get(0);
        entry[17] = 99;
        assertMessage("entry 1 of the log: invalid log entry: a decision of kind 99, at byte 18", log);
        assertMessage("entry 1 of the log: invalid log entry: an entry of 3 bytes", List.of(new byte[3]));
    }

    private static void assertMessage(String expected, List<byte[]> log) {
        DamagedEntryException why = assertThrows(DamagedEntryException.class, () -> dump(log, true));
        assertTrue(why.getMessage().startsWith(expected), why.getMessage());
    }

    @Test
    void anEntryThatIsMissingIsNamed() {
        List<byte[]> log = log();
        log.remove(0);
        log.remove(0);
        assertMessage("behind entry 1 of the log: the log lacks its first entry", log);
        List<byte[]> gap = log();
        gap.add(gap.get(0));
        assertMessage(
                "entry 4 of the log: invalid log entry: an entry that follows timestamp 0 behind one that ends at 5",
                gap);
    }
}
