package cedrat.oracle.server;

import cedrat.oracle.log.DamagedEntryException;
import cedrat.oracle.log.EntryWriter;
import cedrat.oracle.log.Log;
import cedrat.oracle.log.LogMark;
import cedrat.oracle.log.OpenMode;
import cedrat.oracle.log.OracleReplay;
import cedrat.oracle.log.Restoration;
import cedrat.oracle.state.NoDecisions;
import cedrat.oracle.state.Rows;
import cedrat.oracle.state.StatusOracle;
import java.io.IOException;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;

/// Logs that are filled by commands which are killed.
final class FilledLogs {
    private FilledLogs() {}

    /// Returns the state of a restored oracle that knows so many aborted transactions, and begins 10 above them.
    static StatusOracle restored(long identity, int outcomes) {
        StatusOracle before = new StatusOracle(8, new NoDecisions());
        before.identify(identity);
        for (int count = 0; count < outcomes; count++) {
            before.resolve(before.begin(1));
        }
        StatusOracle continued = new StatusOracle(8, new NoDecisions());
        Restoration.continueAbove(before, outcomes + 10, 7, continued);
        return continued;
    }

    /// The process has ended here.
    static final class Killed extends RuntimeException {
        private static final long serialVersionUID = 1L;
    }

    /// A place whose logs accept so many appends, together with those of others.
    record Dying(LogAccess place, int[] left) implements LogAccess {
        @Override
        public Log make(OpenMode mode, String user) {
            Log log = place.make(mode, user);
            return new Log() {
                @Override
                public void open(Replay replay, Listener listener) throws IOException, DamagedEntryException {
                    log.open(replay, listener);
                }

                @Override
                public int appendsMax() {
                    return log.appendsMax();
                }

                @Override
                public long append(byte[] bytes, int from, int length) {
                    if (left[0]-- == 0) {
                        throw new Killed();
                    }
                    return log.append(bytes, from, length);
                }

                @Override
                public void forgetBefore(long number) {
                    log.forgetBefore(number);
                }

                @Override
                public void close() throws IOException {
                    log.close();
                }
            };
        }

        @Override
        public void read(Log.Replay replay) throws IOException, DamagedEntryException {
            place.read(replay);
        }

        @Override
        public String where() {
            return place.where();
        }
    }

    private static Rows row(long row) {
        Rows rows = new Rows();
        rows.add(row);
        return rows;
    }

    /// Makes a log with transactions in all states.
    static void initialise(LogAccess place, long identity, int entries) throws Exception {
        EntryWriter writer = new EntryWriter();
        StatusOracle oracle = new StatusOracle(8, writer);
        try (LogFiller log = new LogFiller(place.make(OpenMode.CREATE, "test"))) {
            log.open((bytes, from, length) -> {});
            for (int entry = 0; entry < entries; entry++) {
                writer.begin(oracle.newest());
                if (entry == 0) {
                    oracle.identify(identity);
                }
                oracle.commit(oracle.begin(1), row(entry), new Rows());
                oracle.resolve(oracle.begin(1));
                oracle.begin(1);
                writer.close(oracle.newest());
                log.append(writer.bytes(), 0, writer.length());
            }
            log.await();
        }
    }

    static List<String> entries(LogAccess place) throws Exception {
        List<String> entries = new ArrayList<>();
        place.read((bytes, from, length) -> {
            if (!LogMark.isMark(bytes, from, length)) {
                entries.add(HexFormat.of().formatHex(bytes, from, from + length));
            }
        });
        return entries;
    }

    static boolean isServed(LogAccess place) {
        OracleReplay replay = new OracleReplay(new StatusOracle(8, new NoDecisions()));
        try (LogFiller log = new LogFiller(place.make(OpenMode.EXISTING, "serves"))) {
            log.open(replay);
            replay.end();
            return true;
        } catch (IOException | DamagedEntryException refused) {
            return false;
        }
    }

    /// Moves a log; returns whether that was done before so many appends.
    static boolean move(LogAccess from, LogAccess to, int appends) throws Exception {
        int[] left = {appends};
        try {
            new Migration(new Dying(from, left), new Dying(to, left)).run();
            return true;
        } catch (Killed killed) {
            return false;
        }
    }
}
