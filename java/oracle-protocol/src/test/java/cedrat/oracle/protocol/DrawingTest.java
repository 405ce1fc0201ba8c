package cedrat.oracle.protocol;

import static org.junit.jupiter.api.Assertions.assertEquals;

import cedrat.oracle.protocol.Protocol.At;
import java.io.IOException;
import java.lang.reflect.Field;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.junit.jupiter.api.Test;

/// The code agrees with docs/formats/oracle-protocol.md.
class DrawingTest {
    private static final Path PAGE = Path.of("../../docs/formats/oracle-protocol.md");

    /// Rows of tables whose first cell is a number and whose cell with this index is a name in capitals: name
    /// to number.
    private static Map<String, Integer> drawn(int nameCell, String heading) throws IOException {
        Map<String, Integer> rows = new TreeMap<>();
        boolean within = false;
        for (String line : Files.readAllLines(PAGE)) {
            if (line.startsWith("|")) {
                within |= line.startsWith(heading);
            } else {
                within = false;
            }
            String[] cells = line.split("\\|");
            if (within && cells.length > nameCell && cells[1].strip().matches("\\d+")) {
                rows.put(cells[nameCell].strip(), Integer.parseInt(cells[1].strip()));
            }
        }
        return rows;
    }

    @Test
    void offsets() throws IOException, IllegalAccessException {
        Map<String, Integer> constants = new TreeMap<>();
        for (Field field : At.class.getDeclaredFields()) {
            boolean isElsewhere =
                    field.getName().endsWith("_END") || field.getName().startsWith("STATUS_");
            if (!isElsewhere) {
                constants.put(field.getName(), field.getInt(null));
            }
        }
        assertEquals(drawn(3, "| offset"), constants);
    }

    @Test
    void kinds() throws IOException {
        Map<String, Integer> kinds = new TreeMap<>(Map.of(
                "HELLO",
                (int) Protocol.HELLO,
                "BEGIN",
                (int) Protocol.BEGIN,
                "COMMIT",
                (int) Protocol.COMMIT,
                "ABORT",
                (int) Protocol.ABORT,
                "END",
                (int) Protocol.END,
                "BATCH",
                (int) Protocol.BATCH));
        kinds.putAll(Map.of(
                "STATUS",
                (int) Protocol.STATUS,
                "RESOLVE",
                (int) Protocol.RESOLVE,
                "CLEANED",
                (int) Protocol.CLEANED,
                "PING",
                (int) Protocol.PING,
                "LOW_WATER",
                (int) Protocol.LOW_WATER,
                "ANNOUNCE",
                (int) Protocol.ANNOUNCE,
                "CLOSE",
                (int) Protocol.CLOSE,
                "SWEPT",
                (int) Protocol.SWEPT,
                "NAMESPACE",
                (int) Protocol.NAMESPACE,
                "ADMIN",
                (int) Protocol.ADMIN));
        kinds.put("AUTHENTICATE", (int) Protocol.AUTHENTICATE);
        assertEquals(drawn(2, "| kind"), kinds);
    }

    @Test
    void adminKinds() throws IOException {
        Map<String, Integer> kinds = new TreeMap<>();
        for (AdminKind kind : AdminKind.values()) {
            kinds.put(kind.name(), kind.number());
            assertEquals(kind, AdminKind.of(kind.number()));
        }
        assertEquals(drawn(2, "| what"), kinds);
    }

    @Test
    void mechanisms() throws IOException {
        Map<String, Integer> mechanisms = new TreeMap<>();
        for (Mechanism mechanism : Mechanism.values()) {
            mechanisms.put(mechanism.name(), mechanism.number());
            assertEquals(mechanism, Mechanism.of(mechanism.number()));
        }
        assertEquals(drawn(2, "| mechanism"), mechanisms);
    }

    @Test
    void codes() throws IOException {
        Map<String, Integer> codes = new TreeMap<>();
        for (ErrorCode code : ErrorCode.values()) {
            codes.put(code.name(), code.number());
            assertEquals(code, ErrorCode.of(code.number()));
        }
        assertEquals(drawn(2, "| code"), codes);
    }

    @Test
    void outcomes() throws IOException {
        Map<String, Long> drawn = new TreeMap<>();
        for (String line : Files.readAllLines(PAGE)) {
            Matcher row =
                    Pattern.compile("\\| ([A-Z_]+) \\| 2\\^64 − (\\d+) \\|.*").matcher(line);
            if (row.matches()) {
                drawn.put(row.group(1), -Long.parseLong(row.group(2)));
            }
        }
        Map<String, Long> outcomes = new TreeMap<>(Map.of(
                "ABORTED", Protocol.ABORTED,
                "UNKNOWN", Protocol.UNKNOWN,
                "OPEN", Protocol.OPEN,
                "ABORTED_CONFLICT", Protocol.ABORTED_CONFLICT,
                "ABORTED_FORGOTTEN", Protocol.ABORTED_FORGOTTEN,
                "ABORTED_SCAN", Protocol.ABORTED_SCAN,
                "ABORTED_RESOLVED", Protocol.ABORTED_RESOLVED,
                "ABORTED_EXPIRED", Protocol.ABORTED_EXPIRED));
        assertEquals(drawn, outcomes);
        outcomes.forEach(
                (name, outcome) -> assertEquals(name.startsWith("ABORTED"), Protocol.isAborted(outcome), name));
    }

    /// The frames of the example, each under its direction and name.
    private static Map<String, String> example() throws IOException {
        Map<String, String> frames = new LinkedHashMap<>();
        String name = null;
        boolean within = false;
        for (String line : Files.readAllLines(PAGE)) {
            if (line.startsWith("```")) {
                within = line.equals("```hex");
            } else if (within) {
                if (!line.startsWith(" ")) {
                    name = line.substring(0, 13).strip();
                }
                frames.merge(name, line.substring(13).strip(), (before, more) -> before + " " + more);
            }
        }
        return frames;
    }

    private static String hex(FrameWriter frames) {
        String hex = HexFormat.ofDelimiter(" ").formatHex(frames.bytes(), 0, frames.length());
        frames.clear();
        return hex;
    }

    @Test
    void exampleMatchesFramesWrittenAndRead() throws IOException, ProtocolException {
        FrameWriter out = new FrameWriter(1);
        Map<String, String> written = new LinkedHashMap<>();
        out.authenticate(-1, Mechanism.PLAIN, "\0app\0secret".getBytes());
        written.put("> token", hex(out));
        out.authenticateReply(-1, Mechanism.PLAIN, new byte[0], true);
        written.put("< token", hex(out));
        out.hello(-1, 1, 4, 0x0102030405060708L);
        written.put("> hello", hex(out));
        out.welcome(-1, 4, 30_000, Protocol.ROWS_MAX, 16_384, 0x1112131415161718L, 0x2122232425262728L);
        written.put("< hello", hex(out));
        out.starts(Protocol.ANNOUNCE, Protocol.FLAG_LAST, -2, new long[0], 0, 0);
        written.put("> announce", hex(out));
        out.values(Protocol.ANNOUNCE, -2, 0);
        written.put("< announce", hex(out));
        out.plain(Protocol.BEGIN, 1);
        written.put("> begin", hex(out));
        out.value(Protocol.BEGIN, 1, 7);
        written.put("< begin", hex(out));
        out.commit(2, 7, new long[] {0x1122334455667788L}, 1, new long[] {5}, 1);
        written.put("> commit", hex(out));
        out.value(Protocol.COMMIT, 2, 9);
        written.put("< commit", hex(out));
        CommitKeys keys = new CommitKeys();
        keys.write(6, "ab".getBytes());
        keys.scan(6, "a".getBytes(), new byte[0]);
        out.commit(5, 10, new long[] {0x1122334455667788L}, 1, new long[0], 0, keys);
        written.put("> with keys", hex(out));
        out.status(3, 10, new long[] {7, 8}, 2);
        written.put("> status", hex(out));
        int values = out.values(Protocol.STATUS, 3, 2);
        out.putValue(values, 0, 9);
        out.putValue(values, 1, Protocol.OPEN);
        written.put("< status", hex(out));
        out.admin(6, AdminKind.OPEN, 1);
        written.put("> admin", hex(out));
        values = out.values(Protocol.ADMIN, 6, 5);
        long[] page = {AdminKind.OPEN.number(), 0, 0, 10, 0x0102030405060708L};
        for (int index = 0; index < page.length; index++) {
            out.putValue(values, index, page[index]);
        }
        written.put("< admin", hex(out));
        FrameWriter commit = new FrameWriter(1);
        commit.commit(0, 11, new long[] {6}, 1, new long[0], 0);
        int batch = out.beginBatch(7, 1, 1, 0, 1, 2);
        out.batchStart(12);
        out.batchStart(7);
        out.batchCommit(commit);
        out.endBatch(batch);
        written.put("> batch", hex(out));
        values = out.values(Protocol.BATCH, 7, 3);
        out.putValue(values, 0, 13);
        out.putValue(values, 1, 12);
        out.putValue(values, 2, 14);
        written.put("< batch", hex(out));
        out.error(4, 0, ErrorCode.RESERVED_ROW, "row");
        written.put("< refusal", hex(out));
        assertEquals(lines(example()), lines(written));

        for (Map.Entry<String, String> frame : written.entrySet()) {
            byte[] bytes = HexFormat.ofDelimiter(" ").parseHex(frame.getValue());
            FrameReader reader =
                    frame.getKey().startsWith(">") ? new RequestReader(Protocol.ROWS_MAX) : new ReplyReader();
            assertEquals(bytes.length, reader.next(bytes, 0, bytes.length), frame.getKey());
        }
    }

    private static List<String> lines(Map<String, String> frames) {
        List<String> lines = new ArrayList<>();
        frames.forEach((name, hex) -> lines.add(name + "  " + hex));
        return lines;
    }
}
