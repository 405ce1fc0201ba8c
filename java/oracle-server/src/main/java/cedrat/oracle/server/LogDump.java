package cedrat.oracle.server;

import cedrat.oracle.log.DamagedEntryException;
import cedrat.oracle.log.EntryReader;
import cedrat.oracle.log.Log;
import cedrat.oracle.log.LogMark;
import cedrat.oracle.log.OracleReplay;
import cedrat.oracle.log.SnapshotReader;
import cedrat.oracle.state.Decisions;
import cedrat.oracle.state.Keys;
import cedrat.oracle.state.Lifetime;
import cedrat.oracle.state.Remembered;
import cedrat.oracle.state.Rows;
import cedrat.oracle.state.StatusOracle;
import java.io.PrintStream;
import java.util.HexFormat;
import java.util.Locale;

/// Shows what a log keeps, entry by entry: for people, or as one object of JSON a line. Each entry is read as
/// a server reads it that starts, so what no server would take is damage here, too, and is named by the
/// number of its entry and the byte in it. Entries count from the first that the log still has.
final class LogDump implements Log.Replay {
    /// Rows are shown, not looked for: the least map is enough.
    private static final int ROWS_LOG2 = 8;

    private final PrintStream out;
    private final boolean isJson;
    private final OracleReplay replay;
    private final EntryReader batch = new EntryReader();
    private final SnapshotReader part = new SnapshotReader();
    private long entries;
    /// Objects of the present line so far.
    private int objects;

    LogDump(PrintStream out, boolean isJson) {
        this.out = out;
        this.isJson = isJson;
        replay = new OracleReplay(new StatusOracle(ROWS_LOG2, new Show(shown -> {})));
    }

    @Override
    public void entry(byte[] bytes, int from, int length) throws DamagedEntryException {
        entries++;
        try {
            if (LogMark.isMark(bytes, from, length)) {
                showMark(LogMark.read(bytes, from, length), length);
            } else if (SnapshotReader.isPart(bytes, from, length)) {
                part.open(bytes, from, length);
                showPart(length);
            } else {
                batch.open(bytes, from, length);
                showBatch(length);
            }
        } catch (DamagedEntryException damaged) {
            throw damaged.in("entry " + entries + " of the log");
        }
        replay.entry(bytes, from, length);
    }

    /// There are no more entries; returns how many there were.
    ///
    /// @throws DamagedEntryException if no server could start from those that were there
    long end() throws DamagedEntryException {
        try {
            replay.end();
        } catch (DamagedEntryException damaged) {
            throw damaged.in("behind entry " + entries + " of the log");
        }
        return entries;
    }

    // ---- entries ----------------------------------------------------------------------------------------------------

    private void showBatch(int length) throws DamagedEntryException {
        begin(
                "batch",
                length,
                "\"before\":" + batch.before() + ",\"newest\":" + batch.newest() + ",\"decisions\":[",
                "timestamps " + batch.before() + " to " + batch.newest());
        try {
            batch.tell(new Show(this::show));
        } finally {
            finish();
        }
    }

    private void showPart(int length) throws DamagedEntryException {
        begin(
                "snapshot",
                length,
                "\"taken\":" + part.taken() + ",\"position\":" + part.position() + ",\"committed\":" + part.committed()
                        + ",\"from\":" + part.from() + ",\"end\":" + part.end() + ",\"newest\":" + part.newest()
                        + ",\"transactions\":[",
                "taken at " + part.taken() + " behind " + part.position() + " rows, from " + part.from()
                        + " and before " + part.end());
        Show shown = new Show(this::show);
        try {
            part.tell(shown);
        } finally {
            finish();
        }
    }

    private void showMark(LogMark mark, int length) {
        String name = mark.kind().name().toLowerCase(Locale.ROOT);
        if (isJson) {
            String text = mark.text().replace("\\", "\\\\").replace("\"", "\\\"");
            out.println("{\"entry\":" + entries + ",\"kind\":\"mark\",\"bytes\":" + length + ",\"mark\":\"" + name
                    + "\",\"text\":\"" + text + "\"}");
        } else {
            out.println(entries + "  mark, " + length + " bytes, " + (name + " " + mark.text()).strip());
        }
    }

    private void begin(String kind, int length, String json, String text) {
        objects = 0;
        if (isJson) {
            out.print("{\"entry\":" + entries + ",\"kind\":\"" + kind + "\",\"bytes\":" + length + "," + json);
        } else {
            out.println(entries + "  " + kind + ", " + length + " bytes, " + text);
        }
    }

    private void finish() {
        if (isJson) {
            out.println("]}");
        }
    }

    private void show(Shown shown) {
        if (isJson) {
            out.print((objects++ == 0 ? "{" : ",{") + shown.json + "}");
        } else {
            out.println("    " + shown.text);
        }
    }

    // ---- what is in them --------------------------------------------------------------------------------------------

    private record Shown(String json, String text) {}

    /// Decisions, and what a snapshot remembers, as words.
    private static final class Show implements Decisions, Remembered {
        private final java.util.function.Consumer<Shown> to;

        Show(java.util.function.Consumer<Shown> to) {
            this.to = to;
        }

        private void one(String what, long start) {
            to.accept(new Shown("\"kind\":\"" + what + "\",\"start\":" + start, what + " " + start));
        }

        @Override
        public void committed(long start, long commit, Rows rows) {
            Lifetime lifetime = new Lifetime(start, commit);
            StringBuilder json = new StringBuilder();
            StringBuilder text = new StringBuilder();
            for (int at = 0; at < rows.count(); at++) {
                String id = HexFormat.of().toHexDigits(rows.get(at));
                json.append(at == 0 ? "" : ",").append('"').append(id).append('"');
                text.append(' ').append(id);
            }
            to.accept(new Shown(json(lifetime) + ",\"rows\":[" + json + "]", text(lifetime) + ", rows" + text));
        }

        @Override
        public void wrote(Keys keys) {
            StringBuilder json = new StringBuilder();
            StringBuilder text = new StringBuilder();
            for (int at = 0; at < keys.count(); at++) {
                String table = HexFormat.of().toHexDigits(keys.table(at));
                int begin = keys.begin(at);
                String key = HexFormat.of().formatHex(keys.bytes(), begin, begin + keys.length(at));
                json.append(at == 0 ? "" : ",").append("{\"table\":\"" + table + "\",\"key\":\"" + key + "\"}");
                text.append(' ').append(table).append('/').append(key);
            }
            to.accept(new Shown("\"kind\":\"wrote\",\"keys\":[" + json + "]", "wrote" + text));
        }

        @Override
        public void aborted(long start) {
            one("aborted", start);
        }

        @Override
        public void ended(long start) {
            one("ended", start);
        }

        @Override
        public void forgotten(long start) {
            one("forgotten", start);
        }

        @Override
        public void identified(long identity) {
            String id = HexFormat.of().toHexDigits(identity);
            to.accept(new Shown("\"kind\":\"identified\",\"identity\":\"" + id + "\"", "identified as " + id));
        }

        @Override
        public void restored(long generation) {
            String id = HexFormat.of().toHexDigits(generation);
            to.accept(new Shown("\"kind\":\"restored\",\"generation\":\"" + id + "\"", "restored as generation " + id));
        }

        @Override
        public void used(long namespace) {
            namespace("used", namespace);
        }

        @Override
        public void retired(long namespace) {
            namespace("retired", namespace);
        }

        private void namespace(String what, long namespace) {
            String id = HexFormat.of().toHexDigits(namespace);
            to.accept(new Shown("\"kind\":\"" + what + "\",\"namespace\":\"" + id + "\"", what + " namespace " + id));
        }

        @Override
        public void pruned(long upTo) {
            to.accept(new Shown("\"kind\":\"pruned\",\"upTo\":" + upTo, "pruned up to " + upTo));
        }

        @Override
        public void open(long start, long position) {
            to.accept(new Shown(
                    "\"kind\":\"open\",\"start\":" + start + ",\"position\":" + position,
                    "open " + start + " since position " + position));
        }

        @Override
        public void committed(Lifetime lifetime) {
            to.accept(new Shown(json(lifetime), text(lifetime)));
        }

        private static String json(Lifetime lifetime) {
            return "\"kind\":\"committed\",\"start\":" + lifetime.start() + ",\"commit\":" + lifetime.commit();
        }

        private static String text(Lifetime lifetime) {
            return "committed " + lifetime.start() + " at " + lifetime.commit();
        }
    }
}
